//! A whole answer.

use pyo3::prelude::*;

use crate::{
    span::{Span, Token},
    to_python,
};

/// A text that has ended, with what there is to say of it.
#[pyclass(frozen, module = "tandem")]
pub struct Answer(pub tandem::Answer);

#[pymethods]
impl Answer {
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// `stop`, `length`, `cancelled` or `error`.
    #[getter]
    fn finish_reason(&self) -> &'static str {
        self.0.finish_reason.name()
    }

    #[getter]
    fn tokens(&self) -> Vec<Token> {
        self.0.tokens.iter().cloned().map(Token).collect()
    }

    /// The text in pieces of one source each.
    #[getter]
    fn spans(&self, py: Python<'_>) -> PyResult<Vec<Span>> {
        let shown: usize = self.0.tokens.iter().map(|token| token.text.len()).sum();
        let rest = self.0.text.get(shown..).unwrap_or_default();
        Span::split(py, &self.0.tokens, rest, decode::Source::Edge)
    }

    /// Counts and times.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.summary.stats)
    }

    /// Mode, router, threshold, budget, seed, what went wrong with the cloud, and the counts.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.summary)
    }

    /// Everything, as `tandem run --json` prints it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0)
    }

    fn __str__(&self) -> &str {
        &self.0.text
    }

    fn __repr__(&self) -> String {
        let stats = &self.0.summary.stats;
        let (tokens, share) = (stats.tokens, stats.routed_share * 100.0);
        format!("Answer({:?}, {tokens} tokens, {share:.1} % from the cloud)", self.0.text)
    }
}
