//! The native half of the Python package `tandem`: the library's types as Python classes. The other
//! half is in `python/tandem`.
//!
//! - `pair`: the class `Tandem`; `arguments`: what its methods are given
//! - `stream`: one text while it is made; `answer`, `span`: what it is made of
//! - `router`: a Python callable that judges
//! - `wait`: waiting without the interpreter's lock, and being interrupted
//! - `errors`: which failure is which exception
//!
//! A model computes on a thread of its own and knows nothing of Python. The thread that asked for a
//! text waits for it without the interpreter's lock, and takes the lock only to call a router.

mod answer;
mod arguments;
mod errors;
mod pair;
mod router;
mod span;
mod stream;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _tandem {
    #[pymodule_export]
    use super::{answer::Answer, pair::Tandem, span::Span, span::Token, stream::Stream};

    #[pymodule_export]
    const __VERSION__: &str = env!("CARGO_PKG_VERSION");
}

/// Python values of what is serialised: the same words as in `--json`, in the API and in traces.
fn to_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(errors::internal)?;
    py.import("json")?.call_method1("loads", (json,))
}
