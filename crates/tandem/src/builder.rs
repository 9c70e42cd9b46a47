//! The options of a pair, and building it.

use std::{ops::RangeInclusive, time::Duration};

use cloud::{Endpoint, Engine, Settings};
use decode::{Limits, OnCloudError, Pace, Sampling, Threshold};
use engine::Adapter;
use router::RouterKind;

use crate::{
    AskConfig, CloudConfig, Defaults, EdgeConfig, Error, LocalCloud, Machine, Mode, Models,
    NamedRouter, PairConfig, RouterRegistry, RouterSpec, Share, Store, Tandem, preset,
};

/// The default system message. Both models get it, because their own defaults differ.
pub const SYSTEM: &str = "You are a helpful assistant.";

/// The default limit on the tokens of an answer.
pub const MAX_TOKENS: usize = 256;

/// The most tokens that an answer may be limited to, and the most alternatives that each may tell.
pub(crate) const MOST_TOKENS: usize = 1_000_000;
pub(crate) const MOST_ALTERNATIVES: usize = 100;

/// What a LoRA adapter may be multiplied by. Nothing sensible is left of a model beyond it.
pub const SCALES: RangeInclusive<f32> = -100.0..=100.0;

/// The longest time of one ask.
pub const LONGEST_ASK: Duration = Duration::from_secs(3600);

/// The options of a pair. All have defaults: the default models of the catalog, the large one in
/// this process, and the general router.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    store: Option<Store>,
    pair: Option<String>,
    edge: EdgeConfig,
    cloud: CloudConfig,
    ask: AskConfig,
    machine: Machine,
    router: Option<RouterSpec>,
    threshold: Option<Threshold>,
    budget: Option<f32>,
    strict: bool,
    pace: Option<Pace>,
    max_share: Option<f32>,
    preset: Option<String>,
    mode: Mode,
    any_mode: bool,
    sampling: Sampling,
    seed: Option<u64>,
    max_tokens: Option<usize>,
    stops: Vec<String>,
    system: Option<String>,
    seats: Option<usize>,
    queue: usize,
}

impl Builder {
    /// Where models and presets are; otherwise in the user's home and beside this program.
    pub fn store(self, store: Store) -> Self {
        Self { store: Some(store), ..self }
    }

    /// The pair of the catalog whose models and router are used where none are named.
    pub fn pair(mut self, name: Option<String>) -> Self {
        self.pair = name;
        self
    }

    /// The small model: a GGUF file, an ONNX file or folder, a name of the catalog, or
    /// `hf:OWNER/REPO` once it is pulled.
    pub fn edge(mut self, model: impl Into<String>) -> Self {
        self.edge.model = Some(model.into());
        self
    }

    /// Sets all options of the small model.
    pub fn edge_config(self, edge: EdgeConfig) -> Self {
        Self { edge, ..self }
    }

    /// The large model, which then runs in this process; named like the small one.
    pub fn cloud(self, model: impl Into<String>) -> Self {
        let model = Some(model.into());
        Self { cloud: CloudConfig::Local(LocalCloud { model, adapters: vec![] }), ..self }
    }

    /// A large model on another server: `tandem cloud`, SGLang, vLLM, llama-server or anything with
    /// OpenAI's `/v1/completions`. Without `engine`, the kind of server is detected. Called again, it adds
    /// a server with the same model, which takes over where those before it fail.
    pub fn cloud_at(mut self, endpoint: Endpoint, engine: Option<Engine>) -> Self {
        let settings = Settings { engine, ..Settings::new(endpoint) };
        match &mut self.cloud {
            CloudConfig::Remote(clouds) => clouds.push(settings),
            other => *other = CloudConfig::Remote(vec![settings]),
        }
        self
    }

    /// Uses no cloud: every ask fails, and no socket is opened.
    pub fn offline(self) -> Self {
        Self { cloud: CloudConfig::None, ..self }
    }

    /// Sets all options of the large model.
    pub fn cloud_config(self, cloud: CloudConfig) -> Self {
        Self { cloud, ..self }
    }

    /// Sets all options of asks.
    pub fn ask_config(self, ask: AskConfig) -> Self {
        Self { ask, ..self }
    }

    /// What to do when the cloud fails in the middle of a text.
    pub fn on_cloud_error(mut self, on_error: OnCloudError) -> Self {
        self.ask.on_error = on_error;
        self
    }

    /// The longest time that a text waits for a cloud that fails, where it is to wait.
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.ask.max_wait = Some(time);
        self
    }

    /// The largest share of tokens that may come from the cloud, over all texts and whatever they
    /// ask for. It holds at every moment. Below 1, texts whose mode is `large` or `verify` are refused.
    pub fn max_share(self, share: f32) -> Self {
        Self { max_share: Some(share), ..self }
    }

    /// The router: a name such as `top1`, a router file, or your own implementation.
    pub fn router(self, router: impl Into<RouterSpec>) -> Self {
        Self { router: Some(router.into()), ..self }
    }

    /// Asks the cloud where the router's score is below this. It overrides a budget.
    pub fn threshold(self, threshold: Threshold) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    /// Keeps the share of tokens from the cloud near this, over a long run: 0.07 is one in fourteen.
    pub fn budget(self, share: f32) -> Self {
        Self { budget: Some(share), ..self }
    }

    /// Aims at this mean time between tokens: where the network is slow, less is asked, but no smaller
    /// share of tokens than `least`. A budget stays the limit; a threshold overrides it.
    pub fn pace(self, time: Duration, least: f32) -> Self {
        Self { pace: Some(Pace::new(time, least)), ..self }
    }

    /// Makes budgets hold at every moment: while more than the share has come from the cloud, it is
    /// not asked. Otherwise a hard text may take more than its share, and later ones less.
    pub fn strict_budget(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Adapters and router for one kind of question: a preset's name, or its folder.
    pub fn preset(self, preset: impl Into<String>) -> Self {
        Self { preset: Some(preset.into()), ..self }
    }

    /// The mode of requests that name none.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Allows requests to name any mode, so that a router is loaded even if the default mode needs
    /// none.
    pub fn any_mode(self) -> Self {
        Self { any_mode: true, ..self }
    }

    /// Sampling parameters. With a seed all texts use it; without one each gets a random seed.
    pub fn sampling(self, sampling: Sampling, seed: Option<u64>) -> Self {
        Self { sampling, seed, ..self }
    }

    /// The most tokens of an answer.
    pub fn max_tokens(self, tokens: usize) -> Self {
        Self { max_tokens: Some(tokens), ..self }
    }

    /// An answer ends before the first of these strings.
    pub fn stops(self, stops: Vec<String>) -> Self {
        Self { stops, ..self }
    }

    /// The system message for conversations without one.
    pub fn system(self, system: impl Into<String>) -> Self {
        Self { system: Some(system.into()), ..self }
    }

    /// Context length, threads and GPU layers.
    pub fn machine(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    /// The number of texts that are generated at the same time, 1 by default. Memory is allocated
    /// for all of them.
    pub fn seats(self, seats: usize) -> Self {
        Self { seats: Some(seats), ..self }
    }

    /// The number of requests that may wait for a seat, 0 by default.
    pub fn queue(self, queue: usize) -> Self {
        Self { queue, ..self }
    }

    /// Finds the files and loads the router. Models are loaded by the first text that needs them.
    pub fn build(self) -> Result<Tandem, Error> {
        self.build_with(Models::new)
    }

    /// The same for a pair beside another in one process: they share a computing thread, and whatever GGUF
    /// files both are made of are in memory once. Caches, seats and budgets are each pair's own.
    pub fn build_beside(self, other: &Tandem) -> Result<Tandem, Error> {
        self.build_with(|config| Ok(Models::beside(other.pair(), config)))
    }

    fn build_with(
        self,
        models: impl FnOnce(PairConfig) -> Result<Models, Error>,
    ) -> Result<Tandem, Error> {
        self.check_ranges()?;
        let store = match self.store.clone() {
            Some(store) => store,
            None => Store::open()?,
        };
        let store = store.with_pair(self.pair.as_deref())?;
        let this = self.with_preset(&store)?;
        let no_cloud = matches!(this.cloud, CloudConfig::None);
        if matches!(this.mode, Mode::Large | Mode::Verify) && no_cloud {
            let mode = this.mode;
            let reason = format!("mode {mode} needs the cloud: it does not work with --offline");
            return Err(Error::Usage(reason));
        }
        let (router, untrained) = if this.any_mode || this.mode == Mode::Joint {
            let edge = this.edge.options(&store, &this.machine, 1)?;
            let own = NamedRouter::choose(this.router.as_ref(), &store, &edge)?;
            // Only a server lets requests name another router.
            let others =
                if this.any_mode { NamedRouter::untrained_for(&store, &edge)? } else { vec![] };
            (own.strict(this.strict), others)
        } else {
            (RouterKind::Never.into(), vec![])
        };
        let budget = this.budget.map(Share::try_from).transpose()?;
        let policy = match this.pace {
            Some(pace) if this.threshold.is_none() => router.paced(budget, pace),
            _ => router.policy(this.threshold, budget),
        };
        let sampling = Sampling { seed: this.seed.unwrap_or_default(), ..this.sampling };
        let max_tokens = this.max_tokens.unwrap_or(MAX_TOKENS);
        let defaults = Defaults {
            mode: this.mode,
            sampling: sampling.validate()?,
            seeded: this.seed.is_some(),
            limits: Limits { max_tokens, stops: this.stops },
            system: this.system.unwrap_or_else(|| SYSTEM.into()),
            on_error: this.ask.on_error,
        };
        let seats = this.seats.unwrap_or(1);
        let models = models(PairConfig {
            store,
            edge: this.edge,
            cloud: this.cloud,
            ask: this.ask,
            machine: this.machine,
            seats,
            preset: this.preset,
        })?;
        let mut routers = RouterRegistry::new(router, policy).with_untrained(untrained);
        if let Some(share) = this.max_share {
            routers = routers.limited(Share::try_from(share)?);
        }
        Ok(Tandem::new(models, routers, defaults, (seats, this.queue)))
    }

    /// Refuses numbers that nobody means, and that would wrap around or take all memory: what a program
    /// is given, a library may be given too.
    fn check_ranges(&self) -> Result<(), Error> {
        let Machine { context, threads, gpu_layers } = self.machine;
        within("context", Some(context), 1..=1 << 20)?;
        within("threads", threads, 1..=1024)?;
        within("gpu_layers", gpu_layers, 0..=10_000)?;
        within("seats", self.seats, 1..=256)?;
        within("queue", Some(self.queue), 0..=100_000)?;
        within("max_tokens", self.max_tokens, 1..=MOST_TOKENS)?;
        let AskConfig { deadline, in_flight, branches, tokens, .. } = &self.ask;
        within("in_flight", Some(*in_flight), 0..=16)?;
        within("branches", Some(*branches), 0..=3)?;
        within("tokens", Some(*tokens), 1..=16)?;
        if deadline.is_zero() || *deadline > LONGEST_ASK {
            let reason = "deadline must be a time above 0 and of at most an hour";
            return Err(Error::Usage(format!("{reason}, not {deadline:?}")));
        }
        let cloud = match &self.cloud {
            CloudConfig::Local(cloud) => cloud.adapters.as_slice(),
            CloudConfig::Remote(_) | CloudConfig::None => &[],
        };
        match self.edge.adapters.iter().chain(cloud).find(|a| !SCALES.contains(&a.scale)) {
            None => Ok(()),
            Some(Adapter { path, scale }) => Err(Error::Usage(format!(
                "the scale of {} must be from {} to {}, not {scale}",
                path.display(),
                SCALES.start(),
                SCALES.end()
            ))),
        }
    }

    /// Fills in what the preset provides and was not given.
    fn with_preset(mut self, store: &Store) -> Result<Self, Error> {
        let Some(given) = &self.preset else { return Ok(self) };
        let preset = preset::load(store, given)?;
        let (wanted, pair) = (&preset.manifest().edge.model, &store.pair);
        if self.pair.is_some() && self.edge.model.is_none() && *wanted != pair.edge {
            return Err(Error::Mismatch(format!(
                "the preset {} is for the small model {wanted}, and the pair {} has {}",
                preset.manifest().name,
                pair.name,
                pair.edge
            )));
        }
        let own_router = self.router.is_some();
        let (edge, cloud) = (&mut self.edge, Some(&mut self.cloud));
        preset::apply(store, &preset, edge, cloud, &mut self.router)?;
        // A preset's defaults were made for its own router.
        let chosen = self.threshold.is_some() || self.budget.is_some() || self.pace.is_some();
        if !own_router && !chosen {
            let (threshold, budget) = preset::defaults(&preset)?;
            (self.threshold, self.budget) = (threshold, budget.map(Share::value));
        }
        // Later only the name is shown, because the path of the folder is private.
        self.preset = Some(preset.manifest().name.clone());
        Ok(self)
    }
}

pub(crate) fn within(
    name: &str,
    given: Option<usize>,
    range: RangeInclusive<usize>,
) -> Result<(), Error> {
    let Some(number) = given.filter(|number| !range.contains(number)) else { return Ok(()) };
    let (least, most) = (range.start(), range.end());
    Err(Error::Usage(format!("{name} must be from {least} to {most}, not {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_ranges_and_the_message_says_which() {
        let machine = |machine: Machine| Builder::default().machine(machine);
        let usual = Machine::default();
        let ask = |ask: AskConfig| Builder::default().ask_config(ask);
        let asks = AskConfig::default;
        let adapters = |scale| vec![Adapter { path: "a.gguf".into(), scale }];
        let edge = |adapters| EdgeConfig { adapters, ..EdgeConfig::default() };
        let cloud = |adapters| CloudConfig::Local(LocalCloud { model: None, adapters });
        let (at_once, never) = (Duration::ZERO, Duration::MAX);
        for (builder, told) in [
            (machine(Machine { context: 1 << 62, ..usual }), "context must be from 1 to 1048576"),
            (machine(Machine { context: 0, ..usual }), "context must be from 1 to 1048576, not 0"),
            (
                machine(Machine { threads: Some(100_000), ..usual }),
                "threads must be from 1 to 1024",
            ),
            (machine(Machine { threads: Some(0), ..usual }), "threads must be from 1 to 1024"),
            (
                machine(Machine { gpu_layers: Some(usize::MAX), ..usual }),
                "gpu_layers must be from 0",
            ),
            (Builder::default().seats(0), "seats must be from 1 to 256"),
            (Builder::default().queue(usize::MAX), "queue must be from 0 to 100000"),
            (Builder::default().max_tokens(0), "max_tokens must be from 1 to 1000000"),
            (Builder::default().max_tokens(usize::MAX), "max_tokens must be from 1 to 1000000"),
            (ask(AskConfig { in_flight: 17, ..asks() }), "in_flight must be from 0 to 16"),
            (ask(AskConfig { branches: 4, ..asks() }), "branches must be from 0 to 3"),
            (ask(AskConfig { tokens: 0, ..asks() }), "tokens must be from 1 to 16"),
            (ask(AskConfig { deadline: at_once, ..asks() }), "above 0 and of at most an hour"),
            (ask(AskConfig { deadline: never, ..asks() }), "above 0 and of at most an hour"),
            (
                Builder::default().edge_config(edge(adapters(1e9))),
                "a.gguf must be from -100 to 100",
            ),
            (
                Builder::default().cloud_config(cloud(adapters(f32::NAN))),
                "a.gguf must be from -100 to 100",
            ),
        ] {
            match builder.build() {
                Err(Error::Usage(words)) => assert!(words.contains(told), "{words}"),
                Err(other) => panic!("{told}: {other}"),
                Ok(_) => panic!("{told}: nothing was refused"),
            }
        }
        assert!(Builder::default().seats(256).check_ranges().is_ok());
    }
}
