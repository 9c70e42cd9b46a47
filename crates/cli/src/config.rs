//! What arguments mean.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

use anyhow::Context;
use cloud::{Address, Delay, Endpoint, Key, Settings};
use decode::{Limits, OnCloudError, Sampling, ThresholdPolicy};
use engine::{Adapter, LoadOptions, onnx};
use models::{
    Catalog, Environment, Home, catalog,
    hub::{Cache, Name},
};
use router::RouterKind;
use thiserror::Error;

use crate::{
    args::{
        self, CloudModelArgs, CloudPlaceArgs, EdgeArgs, GenerateArgs, MachineArgs, Mode,
        SamplingArgs,
    },
    judge::Judge,
};

/// Tokens prefilled in one call: small enough that a cancelled prefill stops soon.
const EDGE_CHUNK: usize = 64;
const CLOUD_CHUNK: usize = 32;

/// The name of the library that runs ONNX models.
pub const ONNX_RUNTIME: &str = "onnxruntime";

/// The template most small open models were trained with.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + \
    message.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}\
    {{ '<|im_start|>assistant\n' }}{% endif %}";

/// The user's mistake, not ours: exit code 2.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// `2s` or `500ms`.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = cloud::delay::duration(text).filter(|t| !t.is_zero());
    time.ok_or_else(|| "write a time above 0, as in 2s or 500ms".into())
}

/// A number of at least 1.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(n) => Ok(n),
        Err(_) => Err("is not a whole number".into()),
    }
}

/// `FILE[:SCALE]`.
#[derive(Clone, Debug)]
pub struct AdapterArg(Adapter);

impl AdapterArg {
    pub fn new(path: PathBuf, scale: f32) -> Self {
        Self(Adapter { path, scale })
    }
}

impl FromStr for AdapterArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scaled =
            text.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
        let (path, scale): (&str, f32) = scaled.unwrap_or((text, 1.0));
        if path.is_empty() || !scale.is_finite() {
            return Err("write FILE or FILE:SCALE".into());
        }
        Ok(Self(Adapter { path: path.into(), scale }))
    }
}

/// A variable of this process's environment.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where models are, and which there are.
#[derive(Clone, Debug)]
pub struct Store {
    pub home: Home,
    pub catalog: Catalog,
}

impl Store {
    pub fn open(catalog: Option<&Path>) -> anyhow::Result<Self> {
        let home = Home::find(Environment::read())?;
        let catalog = match catalog {
            None => Catalog::built_in()?,
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
                Catalog::parse(&text)?
            }
        };
        Ok(Self { home, catalog })
    }

    /// A path as given, a name of the catalog or of the hub, or the default. The file is not opened
    /// here, and nothing is fetched.
    pub fn resolve(&self, given: Option<&str>, role: catalog::Default) -> anyhow::Result<PathBuf> {
        let entry = match given {
            Some(name) if Name::is_meant(name) => {
                let name: Name = name.parse().map_err(|e| UsageError(format!("{e}")))?;
                return Ok(Cache::find(&variable)?.require(&name)?);
            }
            Some(name) => match self.catalog.find(name) {
                Some(entry) => entry,
                None => return Ok(name.into()),
            },
            None => self.catalog.default(role).context("the catalog names no default model")?,
        };
        Ok(self.home.require(entry)?)
    }
}

/// How the edge is loaded.
pub fn edge_options(
    store: &Store,
    args: &EdgeArgs,
    machine: &MachineArgs,
) -> anyhow::Result<LoadOptions> {
    let path = store.resolve(args.edge_model.as_deref(), catalog::Default::Edge)?;
    let options = LoadOptions::new(path, machine.context, threads(machine.threads));
    let adapters = adapters(&args.edge_adapter);
    let onnx = onnx::Options { library: library(store), providers: args.onnx_provider.clone() };
    let gpu_layers = machine.gpu_layers;
    Ok(LoadOptions { adapters, chunk: EDGE_CHUNK, gpu_layers, onnx, ..options })
}

/// The library that runs ONNX models: the user's own, or the one that was pulled.
fn library(store: &Store) -> Option<PathBuf> {
    let own = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty());
    let pulled = || Some(store.home.library(store.catalog.library(ONNX_RUNTIME)?));
    own.map(PathBuf::from).or_else(pulled)
}

/// How the embedded cloud is loaded, for one conversation at a time.
pub fn cloud_options(
    store: &Store,
    args: &CloudModelArgs,
    machine: &MachineArgs,
) -> anyhow::Result<LoadOptions> {
    let path = store.resolve(args.cloud_model.as_deref(), catalog::Default::Cloud)?;
    let options = LoadOptions::new(path, machine.context, threads(machine.threads));
    let onnx = onnx::Options { library: library(store), providers: vec![] };
    let adapters = adapters(&args.cloud_adapter);
    let gpu_layers = machine.gpu_layers;
    Ok(LoadOptions { adapters, chunk: CLOUD_CHUNK, gpu_layers, onnx, ..options })
}

/// Where the cloud is, if it is elsewhere.
pub fn address(place: &CloudPlaceArgs) -> Result<Option<Address>, UsageError> {
    let parsed = place.cloud.as_deref().map(str::parse::<Address>).transpose();
    parsed.map_err(|e| UsageError(format!("--cloud: {e}")))
}

/// How a cloud at this address is reached and treated.
pub fn cloud_settings(args: &CloudModelArgs, address: Address) -> anyhow::Result<Settings> {
    let place = &args.place;
    let read =
        |path: &PathBuf| fs::read(path).with_context(|| format!("--cloud-ca {}", path.display()));
    let authority = place.cloud_ca.as_ref().map(read).transpose()?;
    let key = place.cloud_key.as_deref().map(str::parse::<Key>).transpose();
    let key = key.map_err(|e| UsageError(format!("--cloud-key or TANDEM_CLOUD_KEY: {e}")))?;
    Ok(Settings {
        endpoint: Endpoint { address, key, authority },
        engine: place.cloud_engine,
        model: args.cloud_model.clone(),
        deadline: place.ask_deadline,
        on_error: on_error(place),
        delay: delay(place)?,
    })
}

/// The network to simulate_network, if any.
pub fn delay(place: &CloudPlaceArgs) -> Result<Option<Delay>, UsageError> {
    match place.simulate_rtt.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => Err(UsageError("--simulate-rtt: only eval takes several".into())),
    }
}

/// What a failure of the cloud means for the text.
pub fn on_error(place: &CloudPlaceArgs) -> OnCloudError {
    match place.on_cloud_error {
        args::OnCloudError::Keep => OnCloudError::Keep,
        args::OnCloudError::Wait => OnCloudError::Wait,
        args::OnCloudError::Fail => OnCloudError::Fail,
    }
}

/// The chat template named for the cloud.
pub fn cloud_template(place: &CloudPlaceArgs) -> anyhow::Result<Option<String>> {
    match place.cloud_template.as_deref() {
        None => Ok(None),
        Some("chatml") => Ok(Some(CHATML.into())),
        Some(path) => {
            let template = fs::read_to_string(path);
            template.map(Some).with_context(|| {
                format!("--cloud-template {path}: not a file, and only chatml is built in")
            })
        }
    }
}

pub fn adapters(given: &[AdapterArg]) -> Vec<Adapter> {
    given.iter().map(|a| a.0.clone()).collect()
}

/// As given, or all cores.
pub fn threads(given: Option<usize>) -> usize {
    given.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// How a text is made, checked.
#[derive(Clone, Debug)]
pub struct Generate {
    pub mode: Mode,
    /// Who judges, and how strictly; of no account where the edge writes alone.
    pub judge: Judge,
    pub policy: ThresholdPolicy,
    pub sampling: Sampling,
    pub limits: Limits,
    pub system: String,
    pub on_cloud_error: OnCloudError,
}

impl Generate {
    pub fn new(args: &GenerateArgs) -> anyhow::Result<Self> {
        if args.cloud.place.offline && args.mode == Mode::Large {
            let reason = "mode large is the cloud's alone: not with --offline";
            return Err(UsageError(reason.into()).into());
        }
        let judge = match args.mode {
            Mode::Joint => {
                let store = Store::open(None)?;
                let edge = edge_options(&store, &args.edge, &args.machine)?;
                Judge::choose(args.router.as_ref(), &edge)?
            }
            Mode::Small | Mode::Large => Judge::Untrained(RouterKind::Never),
        };
        Ok(Self {
            mode: args.mode,
            policy: judge.policy(args.threshold, args.budget),
            judge,
            sampling: sampling(&args.sampling)?,
            limits: Limits { max_tokens: args.max_tokens, stops: args.stop.clone() },
            system: args.system.clone(),
            on_cloud_error: on_error(&args.cloud.place),
        })
    }
}

fn sampling(args: &SamplingArgs) -> Result<Sampling, UsageError> {
    let sampling = Sampling {
        temperature: args.temperature,
        top_p: args.top_p,
        top_k: args.top_k,
        min_p: args.min_p,
        repetition_penalty: args.repetition_penalty,
        seed: args.seed.unwrap_or_else(random_seed),
        ..Sampling::default()
    };
    sampling.validate().map_err(|e| UsageError(format!("--{e}")))
}

/// Small enough to be typed again.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("seed") >> 32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn adapters_with_and_without_a_scale() {
        let parse = |text: &str| text.parse::<AdapterArg>().map(|a| (a.0.path, a.0.scale));
        assert_eq!(parse("a.gguf").unwrap(), ("a.gguf".into(), 1.0));
        assert_eq!(parse("a.gguf:0.5").unwrap(), ("a.gguf".into(), 0.5));
        assert_eq!(parse("c:/x.gguf").unwrap(), ("c:/x.gguf".into(), 1.0));
        assert!(parse(":2").is_err());
        assert!(parse("a:inf").is_err());
    }
}
