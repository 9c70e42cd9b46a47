//! The class `Tandem`.

use std::{path::PathBuf, time::Duration};

use decode::Sampling;
use pyo3::{prelude::*, types::PyTuple};
use tandem::{AskConfig, Machine, Store, builder::LONGEST_ASK};

use crate::{
    answer::Answer,
    arguments::{
        CloudArgument, ModelName, Overrides, PromptArgument, mode, on_cloud_error, threshold, warn,
    },
    errors::{exception, usage},
    router,
    stream::Stream,
    wait::{drop_inside, wait},
};

/// A small model on this device, a large one in the cloud, and a router between them. Models are
/// loaded by the first text that needs them.
#[pyclass(frozen, module = "tandem")]
pub struct Tandem {
    /// There until it is dropped.
    inner: Option<tandem::Tandem>,
}

#[pymethods]
impl Tandem {
    #[new]
    #[pyo3(signature = (
        edge = None, cloud = CloudArgument::Default, router = None, *, budget = None,
        threshold = None, preset = None, mode = None, max_tokens = None, temperature = None,
        seed = None, stop = None, system = None, cloud_key = None, cloud_model = None,
        on_cloud_error = None, ask_deadline = None, context = None, threads = None,
        gpu_layers = None, seats = 1, queue = 0
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn new(
        py: Python<'_>,
        edge: Option<ModelName>,
        cloud: CloudArgument,
        router: Option<Bound<'_, PyAny>>,
        budget: Option<f32>,
        threshold: Option<f32>,
        preset: Option<ModelName>,
        mode: Option<&str>,
        max_tokens: Option<usize>,
        temperature: Option<f32>,
        seed: Option<u64>,
        stop: Option<Vec<String>>,
        system: Option<String>,
        cloud_key: Option<&str>,
        cloud_model: Option<String>,
        on_cloud_error: Option<&str>,
        ask_deadline: Option<f64>,
        context: Option<usize>,
        threads: Option<usize>,
        gpu_layers: Option<usize>,
        seats: usize,
        queue: usize,
    ) -> PyResult<Self> {
        let usual = Machine::default();
        let machine = Machine { context: context.unwrap_or(usual.context), threads, gpu_layers };
        let usual = Sampling::default();
        let sampling = Sampling { temperature: temperature.unwrap_or(usual.temperature), ..usual };
        let mut ask = AskConfig::default();
        if let Some(seconds) = ask_deadline {
            ask.deadline = deadline(seconds)?;
        }
        ask.on_error = self::on_cloud_error(on_cloud_error)?.unwrap_or(ask.on_error);
        let mut builder = tandem::Tandem::builder()
            .store(store(py)?)
            .cloud_config(cloud.config(py, cloud_key, cloud_model)?)
            .ask_config(ask)
            .machine(machine)
            .mode(self::mode(mode)?.unwrap_or_default())
            // Any text may ask for another mode.
            .any_mode()
            .sampling(sampling, seed)
            .stops(stop.unwrap_or_default())
            .seats(seats)
            .queue(queue);
        if let Some(ModelName(edge)) = edge {
            builder = builder.edge(edge);
        }
        if let Some(router) = router {
            builder = builder.router(router::spec(&router)?);
        }
        if let Some(share) = budget {
            builder = builder.budget(share);
        }
        if let Some(threshold) = self::threshold(threshold)? {
            builder = builder.threshold(threshold);
        }
        if let Some(ModelName(preset)) = preset {
            builder = builder.preset(preset);
        }
        if let Some(tokens) = max_tokens {
            builder = builder.max_tokens(tokens);
        }
        if let Some(system) = system {
            builder = builder.system(system);
        }
        let inner = py.detach(|| builder.build()).map_err(exception)?;
        if let Some(reason) = inner.routers().own().fallback() {
            warn(py, &format!("{reason}: using the router top1"))?;
        }
        Ok(Self { inner: Some(inner) })
    }

    /// Begins a text and returns its pieces as they are written.
    #[pyo3(signature = (
        prompt, *, mode = None, router = None, budget = None, threshold = None, max_tokens = None,
        temperature = None, seed = None, stop = None, on_cloud_error = None, alternatives = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn stream(
        &self,
        py: Python<'_>,
        prompt: PromptArgument,
        mode: Option<String>,
        router: Option<Bound<'_, PyAny>>,
        budget: Option<f32>,
        threshold: Option<f32>,
        max_tokens: Option<usize>,
        temperature: Option<f32>,
        seed: Option<u64>,
        stop: Option<Vec<String>>,
        on_cloud_error: Option<String>,
        alternatives: Option<usize>,
    ) -> PyResult<Stream> {
        let overrides = Overrides {
            mode,
            router,
            budget,
            threshold,
            max_tokens,
            temperature,
            seed,
            stop,
            on_cloud_error,
            alternatives,
        };
        self.begin(py, prompt, overrides)
    }

    /// A text, from its first token to its last.
    #[pyo3(signature = (
        prompt, *, mode = None, router = None, budget = None, threshold = None, max_tokens = None,
        temperature = None, seed = None, stop = None, on_cloud_error = None, alternatives = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn answer(
        &self,
        py: Python<'_>,
        prompt: PromptArgument,
        mode: Option<String>,
        router: Option<Bound<'_, PyAny>>,
        budget: Option<f32>,
        threshold: Option<f32>,
        max_tokens: Option<usize>,
        temperature: Option<f32>,
        seed: Option<u64>,
        stop: Option<Vec<String>>,
        on_cloud_error: Option<String>,
        alternatives: Option<usize>,
    ) -> PyResult<Answer> {
        let overrides = Overrides {
            mode,
            router,
            budget,
            threshold,
            max_tokens,
            temperature,
            seed,
            stop,
            on_cloud_error,
            alternatives,
        };
        self.begin(py, prompt, overrides)?.finish(py)
    }

    /// Loads the small model now, so that no text waits for it.
    fn load(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, self.inner()?.load())?.map_err(exception)
    }

    /// Starts no new text, and closes its sessions at the cloud.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, self.inner()?.close())
    }

    /// The name of the router that judges unless a text has its own.
    #[getter]
    fn router(&self) -> PyResult<&str> {
        Ok(self.inner()?.routers().own().name())
    }

    /// Texts that are being made.
    #[getter]
    fn running(&self) -> PyResult<usize> {
        Ok(self.inner()?.running())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Tandem {
    fn inner(&self) -> PyResult<&tandem::Tandem> {
        self.inner.as_ref().ok_or_else(|| crate::errors::internal("the pair is gone"))
    }

    fn begin(
        &self,
        py: Python<'_>,
        prompt: PromptArgument,
        overrides: Overrides<'_>,
    ) -> PyResult<Stream> {
        let tandem = self.inner()?;
        let wanted = overrides.request(prompt, tandem)?;
        wait(py, wanted.begin(tandem))?.map(Stream::new).map_err(exception)
    }
}

impl Drop for Tandem {
    fn drop(&mut self) {
        drop_inside(self.inner.take());
    }
}

fn deadline(seconds: f64) -> PyResult<Duration> {
    let deadline = Duration::try_from_secs_f64(seconds).ok();
    let deadline = deadline.filter(|time| !time.is_zero() && *time <= LONGEST_ASK);
    let range = "a time above 0 and of at most an hour";
    deadline.ok_or_else(|| usage(format!("ask_deadline is {range}, not {seconds}")))
}

/// The package has the presets beside the program it came with, and this process is Python's.
fn store(py: Python<'_>) -> PyResult<Store> {
    let package: PathBuf = py.import("tandem")?.getattr("__file__")?.extract()?;
    let program = package.parent().map(|folder| folder.join("bin/tandem"));
    Ok(Store { program, ..Store::open().map_err(exception)? })
}
