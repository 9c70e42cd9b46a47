//! A Python callable that judges.

use std::sync::Arc;

use decode::{Router, Score, Step, features::features};
use pyo3::{intern, prelude::*, types::PyByteArray};
use tandem::RouterSpec;

use crate::{errors::usage, wait};

/// Any callable that takes the hidden state and the features of the distribution, both as NumPy
/// arrays, and returns its trust in the proposal.
pub struct PythonRouter(Py<PyAny>);

impl Router for PythonRouter {
    fn score(&self, step: &Step) -> Score {
        Python::attach(|py| match self.call(py, step) {
            Ok(score) => Score::new(score),
            Err(error) => {
                wait::raise(error);
                // The text ends here, whatever this says.
                Score::new(1.0)
            }
        })
    }
}

impl PythonRouter {
    pub fn new(callable: &Bound<'_, PyAny>) -> Arc<Self> {
        Arc::new(Self(callable.clone().unbind()))
    }

    fn call(&self, py: Python<'_>, step: &Step) -> PyResult<f32> {
        let (hidden, features) = (array(py, &step.hidden)?, array(py, &features(&step.logits))?);
        let score: f32 = self.0.bind(py).call1((hidden, features))?.extract()?;
        match score {
            0.0..=1.0 => Ok(score),
            _ => Err(usage(format!("a router returns a number from 0 to 1, not {score}"))),
        }
    }
}

/// A NumPy array of its own memory. Through the buffer protocol, because NumPy's own interface is
/// another one in every version of it.
fn array<'py>(py: Python<'py>, numbers: &[f32]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let buffer = PyByteArray::new(py, &bytes);
    let numpy = py.import(intern!(py, "numpy"))?;
    numpy.call_method1(intern!(py, "frombuffer"), (buffer, intern!(py, "float32")))
}

/// A name, a file or a callable.
pub fn spec(given: &Bound<'_, PyAny>) -> PyResult<RouterSpec> {
    if let Ok(text) = given.extract::<String>() {
        return text.parse().map_err(usage);
    }
    if given.is_callable() {
        return Ok(PythonRouter::new(given).into());
    }
    Ok(RouterSpec::File(given.extract()?))
}
