//! The parts of a pair: the models, the place of the cloud, and the machine they run on.

use std::{thread, time::Duration};

use cloud::{Delay, Settings};
use decode::OnCloudError;
use engine::{
    Adapter, LoadOptions,
    onnx::{self, Provider},
};
use models::Role;

use crate::{Error, Store, preset};

/// Tokens that the small model prefills in one call. Few, so that a cancelled prefill stops soon.
pub const EDGE_CHUNK: usize = 64;

/// Tokens that the large model prefills in one call. Fewer, because it is slower.
pub const CLOUD_CHUNK: usize = 32;

/// The small model on this device.
#[derive(Clone, Debug, Default)]
pub struct EdgeConfig {
    /// A GGUF file, an ONNX file or folder, a name of the catalog, or `hf:OWNER/REPO…` once it is
    /// pulled. Without one, the catalog's default.
    pub model: Option<String>,
    /// LoRA adapters, applied in this order. Where neither these nor a model are named, that of the
    /// pair's own preset, if it has one.
    pub adapters: Vec<Adapter>,
    /// Execution providers for an ONNX model, in order of preference.
    pub onnx_providers: Vec<Provider>,
}

impl EdgeConfig {
    /// The engine's options to load it with room for this many texts at once.
    pub fn options(
        &self,
        store: &Store,
        machine: &Machine,
        parallel: usize,
    ) -> Result<LoadOptions, Error> {
        let path = store.resolve(self.model.as_deref(), Role::Edge)?;
        let providers = self.onnx_providers.clone();
        let onnx = onnx::Options { library: store.onnx_runtime(), providers };
        let mut adapters = self.adapters.clone();
        if self.model.is_none() && adapters.is_empty() {
            adapters.extend(preset::pair_adapter(store)?);
        }
        let options = machine.options(path, parallel);
        Ok(LoadOptions { adapters, chunk: EDGE_CHUNK, onnx, ..options })
    }
}

/// The large model, where it runs in this process.
#[derive(Clone, Debug, Default)]
pub struct LocalCloud {
    /// As in [`EdgeConfig::model`]; without one, the catalog's default for the cloud.
    pub model: Option<String>,
    /// LoRA adapters, applied in this order.
    pub adapters: Vec<Adapter>,
}

impl LocalCloud {
    /// The engine's options to load it with room for this many texts at once.
    pub fn options(
        &self,
        store: &Store,
        machine: &Machine,
        parallel: usize,
    ) -> Result<LoadOptions, Error> {
        let path = store.resolve(self.model.as_deref(), Role::Cloud)?;
        let onnx = onnx::Options { library: store.onnx_runtime(), providers: vec![] };
        let options = machine.options(path, parallel);
        Ok(LoadOptions { adapters: self.adapters.clone(), chunk: CLOUD_CHUNK, onnx, ..options })
    }
}

/// Where the large model is.
#[derive(Clone, Debug)]
pub enum CloudConfig {
    /// There is none: no cloud is asked and no socket is opened.
    None,
    /// In this process, loaded by the first text that needs it.
    Local(LocalCloud),
    /// On another server, or on several that serve the same model: the first is used while it is well.
    /// [`AskConfig`] overrides `deadline`, `on_error` and `delay`.
    Remote(Vec<Settings>),
}

impl Default for CloudConfig {
    fn default() -> Self {
        Self::Local(LocalCloud::default())
    }
}

/// The options of asks, wherever the cloud is.
#[derive(Clone, Debug)]
pub struct AskConfig {
    /// The longest time of one ask. Later the cloud counts as failed.
    pub deadline: Duration,
    /// What to do when the cloud fails in the middle of a text.
    pub on_error: OnCloudError,
    /// The longest time that a text waits for a cloud that fails; `None` waits for ever.
    pub max_wait: Option<Duration>,
    /// Delay, jitter and loss of a simulated network.
    pub delay: Option<Delay>,
    /// The cloud's chat template (Jinja), if the cloud does not apply its own.
    pub template: Option<String>,
    /// Offers the edge's hidden states to a cloud that collects them.
    pub share_states: bool,
    /// How many asks may be on their way while the small model goes on behind its own choices; 0 waits
    /// for every answer. A cloud in this process is waited for: it computes on the same cores.
    pub in_flight: usize,
    /// Behind how many of its other choices the small model may go on too, while an answer is on its
    /// way: as many as are worth the time. Only with one seat, whose cache is then shared. A batch
    /// rounds in its own way, so near ties may be decided differently than without.
    pub branches: usize,
    /// How many tokens an ask brings where ids are exchanged and nothing is drawn: those behind the
    /// first answer later asks, for as long as the text is the cloud's own.
    pub tokens: usize,
    /// Goes on past doubtful places where `in_flight` requests are on their way, and has several of them
    /// judged with one request as soon as one may be made: where ids are exchanged, nothing is drawn, and
    /// the cloud scores a text at less than what its asks would cost (`tandem cloud`, SGLang).
    pub judges: bool,
    /// Opens a cloud elsewhere, and has it read the prompt, while the small model reads it. The prompt
    /// is then sent even if no token is doubtful later.
    pub warm: bool,
}

/// Asks that may be on their way unless told otherwise.
pub const ASKS_IN_FLIGHT: usize = 3;

impl Default for AskConfig {
    fn default() -> Self {
        Self {
            deadline: Settings::DEADLINE,
            on_error: OnCloudError::Keep,
            max_wait: None,
            delay: None,
            template: None,
            share_states: false,
            in_flight: ASKS_IN_FLIGHT,
            branches: 0,
            tokens: 1,
            judges: false,
            warm: false,
        }
    }
}

/// The machine the models run on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The longest conversation in tokens, prompt and answer together.
    pub context: usize,
    /// Computing threads; `None` uses all cores.
    pub threads: Option<usize>,
    /// Layers of each GGUF model on the GPU; `None` moves as many as fit.
    pub gpu_layers: Option<usize>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { context: 4096, threads: None, gpu_layers: None }
    }
}

impl Machine {
    /// The number of computing threads: as configured, or the number of cores.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    }

    fn options(&self, path: std::path::PathBuf, parallel: usize) -> LoadOptions {
        LoadOptions {
            sequences: parallel,
            cells: self.context * parallel,
            gpu_layers: self.gpu_layers,
            ..LoadOptions::new(path, self.context, self.threads())
        }
    }
}
