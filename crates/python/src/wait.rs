//! Waiting for models, without the interpreter's lock.

use std::{cell::RefCell, future::poll_fn, pin::pin, sync::LazyLock, task::Poll, time::Duration};

use pyo3::prelude::*;
use tokio::{
    runtime::{self, Runtime},
    time::timeout,
};

use crate::errors;

/// How often Python is asked whether somebody pressed Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    // The models have threads of their own, on every core: what is left to do is little.
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
});

thread_local! {
    /// What a router raised on this thread. A router is called by whoever polls the text, so this
    /// is the exception of the text that is being polled here.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Says that the text being made on this thread cannot go on.
pub fn raise(error: PyErr) {
    RAISED.set(Some(error));
}

fn runtime() -> PyResult<&'static Runtime> {
    RUNTIME.as_ref().map_err(errors::internal)
}

/// Waits until it is done, a signal raises an exception, or a router does. Meanwhile other Python
/// threads run.
pub fn wait<T: Send>(py: Python<'_>, future: impl Future<Output = T> + Send) -> PyResult<T> {
    let runtime = runtime()?;
    let mut future = pin!(future);
    loop {
        let done = py.detach(|| {
            // Looked at after every poll: the cloud is not waited for when a router failed.
            let watched = poll_fn(|context| match (future.as_mut().poll(context), RAISED.take()) {
                (_, Some(error)) => Poll::Ready(Err(error)),
                (Poll::Ready(done), None) => Poll::Ready(Ok(done)),
                (Poll::Pending, None) => Poll::Pending,
            });
            runtime.block_on(async { timeout(SIGNALS, watched).await })
        });
        match done {
            Ok(result) => return result,
            Err(_) => py.check_signals()?,
        }
    }
}

/// Drops what may have sessions to close at a cloud.
pub fn drop_inside<T>(value: T) {
    let _inside = RUNTIME.as_ref().ok().map(Runtime::enter);
    drop(value);
}
