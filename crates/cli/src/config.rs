//! What arguments mean: each family of them becomes a part of the library's configuration.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;
use cloud::{Address, Delay, Endpoint, Key, Settings};
use decode::Sampling;
use engine::Adapter;
use server::tls::Tls;
use tandem::{AskConfig, Builder, CloudConfig, EdgeConfig, LocalCloud, Machine, Store, Tandem};
use thiserror::Error;

use crate::{
    args::{
        CloudLocationArgs, CloudModelArgs, EdgeArgs, GenerateArgs, MachineArgs, PairArgs,
        SamplingArgs, TlsArgs,
    },
    show::say,
};

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
    time.ok_or_else(|| {
        "write a time above 0 and of at most an hour (3600s), as in 2s or 500ms".into()
    })
}

/// A whole number from 1 to a million.
pub fn count(text: &str) -> Result<usize, String> {
    up_to::<1_000_000>(text)
}

/// A whole number from 1 to `MOST`.
pub fn up_to<const MOST: usize>(text: &str) -> Result<usize, String> {
    between::<1, MOST>(text)
}

/// A whole number from `LEAST` to `MOST`.
pub fn between<const LEAST: usize, const MOST: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("write a whole number from {LEAST} to {MOST}"))
}

/// A learning rate. Above 1 a step is longer than the way it is to go.
#[cfg(feature = "lab")]
pub fn rate(text: &str) -> Result<f32, String> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0);
    rate.ok_or_else(|| "write a number above 0 and of at most 1".into())
}

/// `FILE[:SCALE]`.
pub fn adapter(text: &str) -> Result<Adapter, String> {
    let scaled = text.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
    let (path, scale): (&str, f32) = scaled.unwrap_or((text, 1.0));
    let range = tandem::builder::SCALES;
    if path.is_empty() || !range.contains(&scale) {
        let (least, most) = (range.start(), range.end());
        return Err(format!("write FILE or FILE:SCALE, with a SCALE from {least} to {most}"));
    }
    Ok(Adapter { path: path.into(), scale })
}

impl EdgeArgs {
    /// The models and presets of this machine, with the pair of these arguments.
    pub fn store(&self) -> anyhow::Result<Store> {
        Ok(Store::open()?.with_pair(self.pair.as_ref().map(|pair| pair.name.as_str()))?)
    }

    /// A builder with that store; a pair that was typed is not given up for a preset.
    fn begin(&self) -> anyhow::Result<Builder> {
        let typed = self.pair.as_ref().filter(|pair| pair.is_typed);
        Ok(Tandem::builder().store(self.store()?).pair(typed.map(|pair| pair.name.clone())))
    }

    pub fn config(&self) -> EdgeConfig {
        EdgeConfig {
            model: self.edge_model.clone(),
            adapters: self.edge_adapter.clone(),
            onnx_providers: self.onnx_provider.clone(),
        }
    }
}

impl CloudModelArgs {
    pub fn config(&self) -> anyhow::Result<CloudConfig> {
        let addresses = self.location.addresses()?;
        if self.location.offline {
            return Ok(CloudConfig::None);
        }
        if addresses.is_empty() {
            let (model, adapters) = (self.cloud_model.clone(), self.cloud_adapter.clone());
            return Ok(CloudConfig::Local(LocalCloud { model, adapters }));
        }
        let keys = self.location.keys(addresses.len())?;
        let clouds = addresses.into_iter().zip(keys).map(|(at, key)| self.settings(at, key));
        Ok(CloudConfig::Remote(clouds.collect::<anyhow::Result<_>>()?))
    }

    fn settings(&self, address: Address, key: Option<Key>) -> anyhow::Result<Settings> {
        let location = &self.location;
        if key.is_some() && !address.is_encrypted() && !address.is_loopback() {
            say(&format!("warning: the key is sent to {address} without encryption"));
        }
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("--cloud-ca {}", path.display()))
        };
        let authority = location.cloud_ca.as_ref().map(read).transpose()?;
        Ok(Settings {
            engine: location.cloud_engine,
            model: self.cloud_model.clone(),
            ..Settings::new(Endpoint { address, key, authority })
        })
    }
}

impl CloudLocationArgs {
    /// Where the cloud is, if it is elsewhere, or where several are.
    pub fn addresses(&self) -> Result<Vec<Address>, UsageError> {
        let mut addresses: Vec<Address> = vec![];
        for text in &self.cloud {
            let address = text.parse().map_err(|e| UsageError(format!("--cloud: {e}")))?;
            if addresses.contains(&address) {
                return Err(UsageError(format!("--cloud: {address} is given twice")));
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    /// The key of each of so many clouds.
    fn keys(&self, clouds: usize) -> Result<Vec<Option<Key>>, UsageError> {
        let wrong =
            |reason: String| UsageError(format!("--cloud-key or TANDEM_CLOUD_KEY: {reason}"));
        let parsed =
            self.cloud_key.iter().map(|key| key.parse::<Key>().map_err(|e| wrong(e.to_string())));
        let keys = parsed.collect::<Result<Vec<_>, _>>()?;
        match keys.as_slice() {
            [] => Ok(vec![None; clouds]),
            [one] => Ok(vec![Some(one.clone()); clouds]),
            keys if keys.len() == clouds => Ok(keys.iter().cloned().map(Some).collect()),
            keys => Err(wrong(format!(
                "{} keys for {clouds} clouds: give one, or one for each",
                keys.len()
            ))),
        }
    }

    /// Refuses `--offline` where the cloud is needed, for this reason.
    pub fn require_cloud(&self, reason: &str) -> Result<(), UsageError> {
        if self.offline {
            return Err(UsageError(format!("{reason}: not with --offline")));
        }
        Ok(())
    }

    /// The networks to simulate.
    pub fn networks(&self) -> Result<Vec<Delay>, UsageError> {
        let wrong = |message| UsageError(format!("--simulate-rtt: {message}"));
        Delay::networks(&self.simulate_rtt).map_err(wrong)
    }

    pub fn ask_config(&self) -> anyhow::Result<AskConfig> {
        let delay = match self.networks()?.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            _ => return Err(UsageError("--simulate-rtt: only eval takes several".into()).into()),
        };
        Ok(AskConfig {
            deadline: self.ask_deadline,
            on_error: self.on_cloud_error,
            delay,
            template: self.template()?,
            in_flight: self.asks_in_flight,
            branches: self.branches,
            tokens: self.ask_tokens,
            judges: self.judge_asks,
            warm: self.warm,
            ..AskConfig::default()
        })
    }

    fn template(&self) -> anyhow::Result<Option<String>> {
        match self.cloud_template.as_deref() {
            None => Ok(None),
            Some("chatml") => Ok(Some(CHATML.into())),
            Some(path) => fs::read_to_string(path).map(Some).with_context(|| {
                format!("--cloud-template {path}: not a file, and only chatml is built in")
            }),
        }
    }
}

impl TlsArgs {
    /// What to encrypt with, and how addresses then begin.
    pub fn config(&self) -> anyhow::Result<(Option<Tls>, &'static str)> {
        let alone = |one: &str, other: &str| {
            let reason = format!("{one} is given and {other} is not: encryption needs both");
            Err(UsageError(reason).into())
        };
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Ok((Some(Tls::read(certificate, key)?), "https")),
            (Some(_), None) => alone("--tls-cert", "--tls-key"),
            (None, Some(_)) => alone("--tls-key", "--tls-cert"),
            (None, None) => Ok((None, "http")),
        }
    }
}

impl MachineArgs {
    pub fn config(&self) -> Machine {
        Machine { context: self.context, threads: self.threads, gpu_layers: self.gpu_layers }
    }
}

impl SamplingArgs {
    fn config(&self) -> Result<Sampling, UsageError> {
        let sampling = Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            ..Sampling::default()
        };
        sampling.validate().map_err(|e| UsageError(format!("--{e}")))
    }
}

impl GenerateArgs {
    pub fn builder(&self) -> anyhow::Result<Builder> {
        let share_states = self.share_states;
        let ask = AskConfig { share_states, ..self.pair.cloud.location.ask_config()? };
        let mut builder = self
            .pair
            .builder(self.preset.as_ref())?
            .ask_config(ask)
            .mode(self.mode)
            .sampling(self.sampling.config()?, self.sampling.seed)
            .max_tokens(self.max_tokens)
            .stops(self.stop.clone())
            .strict_budget(self.strict)
            .system(&self.system);
        if let Some(router) = &self.router {
            builder = builder.router(router.clone());
        }
        if let Some(threshold) = self.threshold {
            builder = builder.threshold(threshold);
        }
        if let Some(budget) = self.budget {
            builder = builder.budget(budget.value());
        }
        if let Some(pace) = self.pace {
            builder = builder.pace(pace, self.min_share.value());
        }
        Ok(builder)
    }
}

impl PairArgs {
    /// The pair, with nothing said of how it writes.
    pub fn builder(&self, preset: Option<&String>) -> anyhow::Result<Builder> {
        let builder = self
            .edge
            .begin()?
            .edge_config(self.edge.config())
            .cloud_config(self.cloud.config()?)
            .ask_config(self.cloud.location.ask_config()?)
            .machine(self.machine.config());
        Ok(with_preset(builder, preset))
    }
}

#[cfg(feature = "lab")]
impl crate::args::SmallModelArgs {
    pub fn builder(&self) -> anyhow::Result<Builder> {
        let builder = self
            .edge
            .begin()?
            .edge_config(self.edge.config())
            .offline()
            .mode(tandem::Mode::Small)
            .machine(self.machine.config());
        Ok(with_preset(builder, self.preset.as_ref()))
    }
}

fn with_preset(builder: Builder, preset: Option<&String>) -> Builder {
    match preset {
        Some(preset) => builder.preset(preset),
        None => builder,
    }
}

/// Says who judges, where nobody chose and no better router is for this edge.
pub fn note_fallback(tandem: &Tandem) {
    if let Some(reason) = tandem.routers().own().fallback() {
        say(&format!(
            "note: {reason}: using the router top1; docs/routers.md says how to train one"
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn adapters_with_and_without_a_scale() {
        let parse = |text| adapter(text).map(|a| (a.path, a.scale));
        assert_eq!(parse("a.gguf").unwrap(), ("a.gguf".into(), 1.0));
        assert_eq!(parse("a.gguf:0.5").unwrap(), ("a.gguf".into(), 0.5));
        assert_eq!(parse("c:/x.gguf").unwrap(), ("c:/x.gguf".into(), 1.0));
        assert!(parse(":2").is_err());
        for text in ["a:inf", "a:NaN", "a:1e9", "a:-101"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("from -100 to 100"), "{error}");
        }
    }
}
