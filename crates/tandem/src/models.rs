//! The real models: an edge on this machine, and a cloud wherever it is.

use std::sync::{Arc, OnceLock};

use cloud::{
    CloudGroup, CloudState, Clouds, EdgeSide, Opening, Salts, Settings, Target, probe_messages,
    protocol::{EdgeModel, Prompt},
    service::{LazyModel, Service, ServiceConfig},
};
use decode::{Constraint, LONGEST_BRANCH, Token};
use engine::{Compute, Grammar, GrammarCompiler, LoadOptions, Model, Sequence, template};
use tokio::sync::OnceCell;

use crate::{
    AskConfig, CloudConfig, EdgeConfig, Error, LocalCloud, Machine, Owner, Store,
    pair::{Introduction, Pair},
};

/// A small and a large model, each loaded when it is first needed.
pub struct Models {
    config: PairConfig,
    compute: Compute,
    loaded: OnceCell<Model>,
    /// Made of the edge's vocabulary when a text is first held to a form.
    grammars: OnceLock<GrammarCompiler>,
    /// Set when the cloud is first needed.
    group: OnceCell<Arc<CloudGroup>>,
    /// Made when a conversation first has an owner.
    salts: OnceLock<Salts>,
}

/// The options of the two models.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// Finds model files by name.
    pub store: Store,
    /// The small model on this device.
    pub edge: EdgeConfig,
    /// The large model, and where it runs.
    pub cloud: CloudConfig,
    /// The options of asks.
    pub ask: AskConfig,
    /// Context length, threads and GPU layers.
    pub machine: Machine,
    /// The number of texts at the same time.
    pub seats: usize,
    /// The name of the preset that was applied, if one was.
    pub preset: Option<String>,
}

/// Where the large model is: in this process, elsewhere or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CloudLocation {
    /// It runs in this process.
    Embedded,
    /// It runs on another server.
    Remote,
    /// There is no large model.
    None,
}

impl Models {
    /// Loads nothing: a missing model is an error only when it is needed.
    pub fn new(config: PairConfig) -> Result<Self, Error> {
        let compute = Compute::start().map_err(|e| Error::Internal(e.to_string()))?;
        Ok(Self::on(compute, config))
    }

    /// The same beside the models of another pair: one thread computes for both, because two would fight
    /// for the cores, and a GGUF file that both are made of is loaded once.
    pub fn beside(other: &Self, config: PairConfig) -> Self {
        Self::on(other.compute.clone(), config)
    }

    fn on(compute: Compute, config: PairConfig) -> Self {
        let (loaded, grammars, group) = (OnceCell::new(), OnceLock::new(), OnceCell::new());
        Self { config, compute, loaded, grammars, group, salts: OnceLock::new() }
    }

    /// The name of the preset that was applied, if one was.
    pub fn preset(&self) -> Option<&str> {
        self.config.preset.as_deref()
    }

    /// The small model; the first call loads it.
    pub async fn edge(&self) -> Result<&Model, Error> {
        let load = || async {
            let options = self.edge_options()?;
            Ok(Model::load(&self.compute, options).await?)
        };
        self.loaded.get_or_try_init(load).await
    }

    /// The engine's options to load the small model.
    pub fn edge_options(&self) -> Result<LoadOptions, Error> {
        let PairConfig { edge, store, machine, seats, .. } = &self.config;
        let mut options = edge.options(store, machine, *seats)?;
        // Branches share the cells of the only text, and each needs some of its own.
        options.sequences += self.branches();
        options.cells += self.branches() * LONGEST_BRANCH;
        Ok(options)
    }

    fn cloud_options(&self, cloud: &LocalCloud) -> Result<LoadOptions, Error> {
        let PairConfig { store, machine, seats, .. } = &self.config;
        cloud.options(store, machine, *seats)
    }

    /// The engine's options to load the large model, if it runs in this process.
    pub fn local_cloud(&self) -> Result<Option<LoadOptions>, Error> {
        match &self.config.cloud {
            CloudConfig::Local(cloud) => self.cloud_options(cloud).map(Some),
            CloudConfig::Remote(_) | CloudConfig::None => Ok(None),
        }
    }

    /// The models and presets of this machine.
    pub fn store(&self) -> &Store {
        &self.config.store
    }

    /// Where the large model is.
    pub fn location(&self) -> CloudLocation {
        match &self.config.cloud {
            CloudConfig::None => CloudLocation::None,
            CloudConfig::Local(_) => CloudLocation::Embedded,
            CloudConfig::Remote(_) => CloudLocation::Remote,
        }
    }

    /// Whether nothing is won by doing two things at once: what one model does makes the other later.
    fn shares_cores(&self) -> bool {
        self.location() == CloudLocation::Embedded && self.config.ask.delay.is_none()
    }

    /// A name for people: the model's, or the address of the server.
    pub fn cloud_name(&self) -> Result<String, Error> {
        Ok(match &self.config.cloud {
            CloudConfig::None => "none".into(),
            CloudConfig::Remote(clouds) => {
                let names: Vec<_> = clouds.iter().map(|cloud| cloud.target.to_string()).collect();
                names.join(", ")
            }
            CloudConfig::Local(cloud) => self.cloud_options(cloud)?.name(),
        })
    }

    /// Identifies the cloud: by name and hash of the model in this process, or by the address of the
    /// server.
    pub fn cloud_description(&self) -> Result<String, Error> {
        let CloudConfig::Local(cloud) = &self.config.cloud else { return self.cloud_name() };
        let options = self.cloud_options(cloud)?;
        Ok(format!("{} {}", options.name(), options.fingerprint()?))
    }

    /// The cloud, or several. A cloud in this process is started here, and its first session loads its
    /// model.
    async fn group(&self) -> Result<&Arc<CloudGroup>, Error> {
        let make = || async {
            let clouds = match &self.config.cloud {
                CloudConfig::None => return Err(Error::NoCloud("asking")),
                CloudConfig::Remote(clouds) => clouds.clone(),
                CloudConfig::Local(cloud) => {
                    let options = self.cloud_options(cloud)?;
                    // It is loaded later, but a file that is not a model should be refused now.
                    options.check()?;
                    let model = LazyModel::new(self.compute.clone(), options);
                    let service = Service::new(model, ServiceConfig::default());
                    vec![Settings::in_process(Arc::new(service))]
                }
            };
            let &AskConfig { deadline, on_error, max_wait, ref delay, .. } = &self.config.ask;
            let asked = |cloud| {
                let delay = delay.clone();
                Settings { deadline, on_error, max_wait, delay, ..cloud }
            };
            Ok(Arc::new(CloudGroup::new(clouds.into_iter().map(asked).collect())))
        };
        self.group.get_or_try_init(make).await
    }

    /// Loads a large model in this process, so that no text waits for that. A cloud elsewhere is left
    /// alone.
    pub async fn load_cloud(&self) -> Result<(), Error> {
        if self.location() != CloudLocation::Embedded {
            return Ok(());
        }
        for cloud in self.group().await?.settings() {
            if let Target::InProcess(service) = &cloud.target {
                service.load().await.map_err(|e| Error::Internal(e.to_string()))?;
            }
        }
        Ok(())
    }

    /// Identifies the model whose hidden states are shared. Reads its files from end to end.
    async fn edge_model(&self) -> Result<EdgeModel, Error> {
        let options = self.edge_options()?;
        let (name, fingerprint) = (options.name(), options.fingerprint()?);
        Ok(EdgeModel { name, fingerprint, hidden: self.edge().await?.hidden_len() })
    }

    /// The small model, where it has to be loaded already.
    fn loaded(&self) -> Result<&Model, Error> {
        self.loaded.get().ok_or_else(|| Error::Internal("the small model is not loaded".into()))
    }

    /// The conversation in the template that was given for the cloud, if one was.
    fn rendered(&self, prompt: &Prompt) -> Result<Option<String>, Error> {
        let (Some(template), Prompt::Messages(messages)) = (&self.config.ask.template, prompt)
        else {
            return Ok(None);
        };
        let parts = template::render(template, &template::Specials::default(), messages);
        let parts = parts.map_err(|error| match error {
            template::RenderError::Template(error) => Error::CloudTemplate(error.to_string()),
            other @ template::RenderError::Random(_) => Error::Engine(other.into()),
        })?;
        Ok(Some(template::joined(&parts)))
    }
}

/// The edge's vocabulary, and a prompt in its tokens, for a cloud to compare with its own.
fn edge_side(edge: &Model, prompt: Vec<Token>) -> EdgeSide {
    let vocabulary = edge.vocabulary().clone();
    // A template may refuse the probe; an empty one never matches the cloud's.
    let probe = vocabulary.prompt(&probe_messages()).unwrap_or_default();
    EdgeSide { vocabulary, prompt, probe }
}

impl Pair for Models {
    type Edge = Sequence;
    type Cloud = Clouds;

    fn has_cloud(&self) -> bool {
        !matches!(self.config.cloud, CloudConfig::None)
    }

    fn cloud_state(&self) -> Option<CloudState> {
        match (&self.config.cloud, self.group.get()) {
            (_, Some(group)) => group.state(),
            (CloudConfig::Local(_), None) => Some(CloudState::NotLoaded),
            (CloudConfig::Remote(_) | CloudConfig::None, None) => None,
        }
    }

    fn context(&self) -> usize {
        self.loaded.get().map_or(self.config.machine.context, Model::context)
    }

    fn longest_token(&self) -> usize {
        self.loaded.get().map_or(usize::MAX, |model| model.vocabulary().longest_token())
    }

    async fn failure(&self) -> String {
        self.compute.failure().await
    }

    fn has_failed(&self) -> bool {
        self.compute.has_failed()
    }

    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, Error> {
        let vocabulary = self.loaded()?.vocabulary();
        Ok(match prompt {
            Prompt::Messages(messages) => vocabulary.prompt(messages)?,
            Prompt::Text(text) => vocabulary.raw_prompt(text)?,
            Prompt::Tokens(tokens) => tokens.clone(),
        })
    }

    fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, Error> {
        let compiler = match self.grammars.get() {
            Some(compiler) => compiler,
            None => {
                let made = GrammarCompiler::new(self.loaded()?.vocabulary().clone())?;
                self.grammars.get_or_init(|| made)
            }
        };
        Ok(compiler.compile(grammar)?)
    }

    async fn load_edge(&self) -> Result<(), Error> {
        self.edge().await.map(drop)
    }

    fn has_edge(&self) -> bool {
        self.loaded.initialized()
    }

    async fn open_edge(&self) -> Result<Sequence, Error> {
        Ok(self.edge().await?.open().await?)
    }

    fn asks_in_flight(&self) -> usize {
        if self.shares_cores() { 0 } else { self.config.ask.in_flight }
    }

    fn branches(&self) -> usize {
        let PairConfig { ask, seats, .. } = &self.config;
        if *seats == 1 { ask.branches } else { 0 }
    }

    fn ask_tokens(&self) -> usize {
        self.config.ask.tokens
    }

    fn judges_asks(&self) -> bool {
        self.config.ask.judges
    }

    fn warms_cloud(&self) -> bool {
        self.config.ask.warm && !self.shares_cores()
    }

    async fn open_cloud(&self) -> Result<Clouds, Error> {
        let opening = Opening::alone(Prompt::Messages(vec![]));
        if !self.has_cloud() {
            return Ok(Clouds::offline(opening));
        }
        let mut clouds = Clouds::new(self.group().await?.clone(), opening)?;
        if self.config.ask.share_states {
            clouds.share(&self.edge_model().await?);
        }
        Ok(clouds)
    }

    fn introduce(&self, cloud: &mut Clouds, to: Introduction<'_>) -> Result<(), Error> {
        let Introduction { prompt, edge, on_error, grammar, origin } = to;
        let edge = match edge {
            Some(tokens) => Some(edge_side(self.loaded()?, tokens.to_vec())),
            None => None,
        };
        let rendered = self.rendered(prompt)?;
        cloud.set_on_error(on_error);
        cloud.set_origin(&origin.cloned().unwrap_or_default());
        let (prompt, grammar) = (prompt.clone(), grammar.cloned());
        cloud.reopen(&Opening { prompt, edge, rendered, grammar });
        Ok(())
    }

    fn separate(&self, cloud: &mut Clouds, owner: Owner) -> Result<(), Error> {
        // Whoever has no owner is alone, and finds what an earlier process left in the engine's cache.
        if owner == Owner::default() {
            cloud.separate(None);
            return Ok(());
        }
        let salts = match self.salts.get() {
            Some(salts) => salts,
            None => {
                let made = Salts::random().map_err(|e| Error::Internal(e.to_string()))?;
                self.salts.get_or_init(|| made)
            }
        };
        cloud.separate(Some(&salts.of(owner.0)));
        Ok(())
    }

    async fn close(&self, cloud: &mut Clouds) {
        cloud.close().await;
    }
}
