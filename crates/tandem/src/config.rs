//! What a pair is made of: the models, where the cloud is, and the machine they run on.

use std::{thread, time::Duration};

use cloud::{Delay, Settings};
use decode::OnCloudError;
use engine::{
    Adapter, LoadOptions,
    onnx::{self, Provider},
};
use models::catalog;

use crate::{Error, Store};

/// Tokens the small model prefills in one call: few, so that a cancelled prefill stops soon.
pub const EDGE_CHUNK: usize = 64;

/// Tokens the large model prefills in one call.
pub const CLOUD_CHUNK: usize = 32;

/// The small model.
#[derive(Clone, Debug, Default)]
pub struct EdgeConfig {
    /// A GGUF file, an ONNX file or folder, a name of the catalog, or `hf:OWNER/REPO…` once it is
    /// pulled. Without one, the catalog's default.
    pub model: Option<String>,
    /// LoRA adapters.
    pub adapters: Vec<Adapter>,
    /// What computes an ONNX model, in order of preference.
    pub onnx_providers: Vec<Provider>,
}

impl EdgeConfig {
    /// How it is loaded, for this many texts at once.
    pub fn options(
        &self,
        store: &Store,
        machine: &Machine,
        parallel: usize,
    ) -> Result<LoadOptions, Error> {
        let path = store.resolve(self.model.as_deref(), catalog::Default::Edge)?;
        let providers = self.onnx_providers.clone();
        let onnx = onnx::Options { library: store.onnx_runtime(), providers };
        let options = machine.options(path, parallel);
        Ok(LoadOptions { adapters: self.adapters.clone(), chunk: EDGE_CHUNK, onnx, ..options })
    }
}

/// The large model, where it runs in this process.
#[derive(Clone, Debug, Default)]
pub struct LocalCloud {
    /// As of [`EdgeConfig`].
    pub model: Option<String>,
    /// LoRA adapters.
    pub adapters: Vec<Adapter>,
}

impl LocalCloud {
    /// How it is loaded, for this many texts at once.
    pub fn options(
        &self,
        store: &Store,
        machine: &Machine,
        parallel: usize,
    ) -> Result<LoadOptions, Error> {
        let path = store.resolve(self.model.as_deref(), catalog::Default::Cloud)?;
        let onnx = onnx::Options { library: store.onnx_runtime(), providers: vec![] };
        let options = machine.options(path, parallel);
        Ok(LoadOptions { adapters: self.adapters.clone(), chunk: CLOUD_CHUNK, onnx, ..options })
    }
}

/// Where the large model is.
#[derive(Clone, Debug)]
pub enum CloudConfig {
    /// Nowhere: no cloud is asked and no socket is opened.
    None,
    /// In this process, loaded by the first text that needs it.
    Local(LocalCloud),
    /// At an address. Its own `deadline`, `on_error` and `delay` give way to [`AskConfig`]'s.
    Remote(Box<Settings>),
}

impl Default for CloudConfig {
    fn default() -> Self {
        Self::Local(LocalCloud::default())
    }
}

/// How the cloud is asked, wherever it is.
#[derive(Clone, Debug)]
pub struct AskConfig {
    /// How long one ask may take.
    pub deadline: Duration,
    /// What a failure means for the text.
    pub on_error: OnCloudError,
    /// A network to simulate.
    pub delay: Option<Delay>,
    /// The cloud's chat template (Jinja), where the cloud does not apply its own.
    pub template: Option<String>,
    /// Offers the edge's hidden states to a cloud that collects them.
    pub share_states: bool,
}

impl Default for AskConfig {
    fn default() -> Self {
        Self {
            deadline: Settings::DEADLINE,
            on_error: OnCloudError::Keep,
            delay: None,
            template: None,
            share_states: false,
        }
    }
}

/// The machine the models run on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Tokens a conversation may have, prompt and answer together.
    pub context: usize,
    /// Threads that compute; without a number, as many as there are cores.
    pub threads: Option<usize>,
    /// Layers of each GGUF model that go onto the GPU; without a number, all that fit.
    pub gpu_layers: Option<usize>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { context: 4096, threads: None, gpu_layers: None }
    }
}

impl Machine {
    /// As many as given, or as there are cores.
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
