//! The model, loaded when the first session needs it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use engine::{Compute, EngineError, LoadOptions, Model};
use tokio::sync::OnceCell;

/// A model that may not be in memory yet.
pub struct LazyModel {
    compute: Compute,
    options: LoadOptions,
    cell: OnceCell<Model>,
    loading: AtomicBool,
}

/// Says that the model is being loaded, until it is dropped: a caller may go away meanwhile.
struct Loading<'a>(&'a AtomicBool);

impl<'a> Loading<'a> {
    fn begin(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::SeqCst);
        Self(flag)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl LazyModel {
    pub fn new(compute: Compute, options: LoadOptions) -> Self {
        Self { compute, options, cell: OnceCell::new(), loading: AtomicBool::new(false) }
    }

    /// The model, and how long this call spent loading it.
    pub async fn get(&self) -> Result<(&Model, Duration), EngineError> {
        let started = Instant::now();
        let was_loaded = self.cell.initialized();
        let load = || async {
            let _loading = Loading::begin(&self.loading);
            Model::load(&self.compute, self.options.clone()).await
        };
        let model = self.cell.get_or_try_init(load).await?;
        Ok((model, if was_loaded { Duration::ZERO } else { started.elapsed() }))
    }

    /// Waits until it cannot be used any more, and says why.
    pub async fn failure(&self) -> String {
        self.compute.failure().await
    }

    /// The same, for whoever has given the model away.
    pub fn watch(&self) -> impl Future<Output = String> + Send + use<> {
        let compute = self.compute.clone();
        async move { compute.failure().await }
    }

    pub fn has_failed(&self) -> bool {
        self.compute.has_failed()
    }

    /// Whether somebody waits for it to be loaded.
    pub fn is_loading(&self) -> bool {
        self.loading.load(Ordering::SeqCst)
    }

    pub fn loaded(&self) -> Option<&Model> {
        self.cell.get()
    }
}
