//! One text while it is made.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use decode::{FinishReason, Source};
use pyo3::prelude::*;
use tandem::Generation;

use crate::{
    answer::Answer,
    errors::exception,
    span::Span,
    wait::{drop_inside, wait},
};

/// The pieces of a text, as they are written. Whoever drops or closes it ends the text and gives
/// the seat back.
#[pyclass(module = "tandem")]
pub struct Stream {
    /// There until the text ends. Python may look at a stream from several threads, and answers that
    /// are on their way cannot be looked at by two.
    generation: Mutex<Option<Generation>>,
    ready: VecDeque<Span>,
    last: Source,
    /// Raised once what was written before it has been handed out.
    failure: Option<PyErr>,
    answer: Option<Py<Answer>>,
}

impl Stream {
    pub fn new(generation: Generation) -> Self {
        Self {
            generation: Mutex::new(Some(generation)),
            ready: VecDeque::new(),
            last: Source::Edge,
            failure: None,
            answer: None,
        }
    }

    /// Makes the text to its end.
    pub fn finish(mut self, py: Python<'_>) -> PyResult<Answer> {
        let Some(mut generation) = self.generation().take() else {
            return Err(crate::errors::internal("this text is over"));
        };
        let done = wait(py, async {
            while generation.next().await?.is_some() {}
            Ok(())
        });
        let answer = tandem::Answer::new(&generation);
        drop_inside(generation);
        done?.map_err(exception)?;
        Ok(Answer(answer))
    }

    fn generation(&mut self) -> &mut Option<Generation> {
        self.generation.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&mut self, py: Python<'_>, span: &decode::Span) -> PyResult<()> {
        self.ready.extend(Span::split(py, &span.tokens, &span.rest, self.last)?);
        self.last = self.ready.back().map_or(self.last, Span::last_source);
        Ok(())
    }

    /// Gives the seat back and keeps what can be said of the text. What was held back is shown.
    fn end(&mut self, py: Python<'_>, reason: FinishReason) -> PyResult<()> {
        let Some(mut generation) = self.generation().take() else { return Ok(()) };
        let held_back = generation.end(reason);
        let answer = tandem::Answer::new(&generation);
        drop_inside(generation);
        self.accept(py, &held_back)?;
        self.answer = Some(Py::new(py, Answer(answer))?);
        Ok(())
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Span>> {
        loop {
            if let Some(span) = self.ready.pop_front() {
                return Ok(Some(span));
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            let Some(generation) = self.generation() else { return Ok(None) };
            match wait(py, generation.next()) {
                Ok(Ok(Some(span))) => self.accept(py, &span)?,
                Ok(Ok(None)) => self.end(py, FinishReason::Stop)?,
                Ok(Err(error)) => {
                    self.failure = Some(exception(error));
                    self.end(py, FinishReason::Error)?;
                }
                // Ctrl-C, or a router's exception.
                Err(error) => {
                    self.end(py, FinishReason::Cancelled)?;
                    self.ready.clear();
                    return Err(error);
                }
            }
        }
    }

    /// The whole answer once the text has ended, also if it ended early; `None` before.
    #[getter]
    fn answer(&self, py: Python<'_>) -> Option<Py<Answer>> {
        self.answer.as_ref().map(|answer| answer.clone_ref(py))
    }

    /// Ends the text here.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.end(py, FinishReason::Cancelled)?;
        self.ready.clear();
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &mut self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        drop_inside(self.generation().take());
    }
}
