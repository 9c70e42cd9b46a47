//! Pieces of a text, with where they came from.

use decode::{Accepted, Source, Times};
use pyo3::prelude::*;

use crate::to_python;

/// One token, with where it came from.
#[pyclass(frozen, module = "tandem")]
pub struct Token(pub Accepted);

#[pymethods]
impl Token {
    #[getter]
    fn index(&self) -> usize {
        self.0.index
    }

    #[getter]
    fn id(&self) -> Option<u32> {
        self.0.id.map(|id| id.0)
    }

    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    #[getter]
    fn source(&self) -> &'static str {
        self.0.source.name()
    }

    #[getter]
    fn score(&self) -> Option<f32> {
        self.0.score.map(|score| score.value())
    }

    #[getter]
    fn logprob(&self) -> Option<f32> {
        self.0.logprob
    }

    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.times)
    }

    /// Everything, as in a trace.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0)
    }

    fn __repr__(&self) -> String {
        format!("Token({:?}, {})", self.0.text, self.0.source.name())
    }
}

/// Tokens that follow one another and have the same source.
#[pyclass(frozen, module = "tandem")]
pub struct Span {
    text: String,
    source: Source,
    tokens: Vec<Py<Token>>,
    score: Option<f32>,
    times: Times,
}

impl Span {
    /// One for each run of one source. `rest` are characters that belong to the last token, and
    /// `last` is who wrote before the first.
    pub fn split(
        py: Python<'_>,
        tokens: &[Accepted],
        rest: &str,
        last: Source,
    ) -> PyResult<Vec<Self>> {
        let mut spans: Vec<Self> = vec![];
        for run in tokens.chunk_by(|one, next| one.source == next.source) {
            let wrapped = run.iter().map(|token| Py::new(py, Token(token.clone())));
            spans.push(Self {
                text: run.iter().map(|token| token.text.as_str()).collect(),
                source: run[0].source,
                tokens: wrapped.collect::<PyResult<_>>()?,
                score: run[0].score.map(|score| score.value()),
                times: run.iter().map(|token| token.times).sum(),
            });
        }
        match spans.last_mut() {
            Some(span) => span.text.push_str(rest),
            None if rest.is_empty() => {}
            None => spans.push(Self {
                text: rest.into(),
                source: last,
                tokens: vec![],
                score: None,
                times: Times::default(),
            }),
        }
        Ok(spans)
    }

    pub fn last_source(&self) -> Source {
        self.source
    }
}

#[pymethods]
impl Span {
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn source(&self) -> &'static str {
        self.source.name()
    }

    /// Of its first token.
    #[getter]
    fn score(&self) -> Option<f32> {
        self.score
    }

    /// Of all its tokens together, in milliseconds.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.times)
    }

    #[getter]
    fn tokens(&self, py: Python<'_>) -> Vec<Py<Token>> {
        self.tokens.iter().map(|token| token.clone_ref(py)).collect()
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("Span({:?}, {})", self.text, self.source.name())
    }
}
