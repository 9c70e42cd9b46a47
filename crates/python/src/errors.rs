//! Which failure is which exception. The words are those of the program `tandem`.

use std::fmt::Display;

use decode::{SamplingError, SessionError};
use pyo3::{import_exception, prelude::*};
use tandem::{Error, error::describe};

import_exception!(tandem.errors, TandemError);
import_exception!(tandem.errors, UsageError);
import_exception!(tandem.errors, StoreError);
import_exception!(tandem.errors, EngineError);
import_exception!(tandem.errors, CloudError);
import_exception!(tandem.errors, BusyError);

/// The exception for a failure of the library.
pub fn exception(error: Error) -> PyErr {
    let words = describe(&error);
    match error {
        Error::Usage(_)
        | Error::Sampling(_)
        | Error::Threshold(_)
        | Error::UnknownRouter(_)
        | Error::PromptTooLarge { .. }
        | Error::Grammar(_)
        | Error::Session(
            SessionError::EmptyPrompt
            | SessionError::PromptTooLong { .. }
            | SessionError::Constraint(_)
            | SessionError::Sampling(SamplingError::OutOfRange { .. }),
        ) => UsageError::new_err(words),
        Error::Mismatch(_)
        | Error::File { .. }
        | Error::RouterFile(_)
        | Error::Preset(_)
        | Error::Home(_)
        | Error::NotPulled { .. }
        | Error::Catalog(_)
        | Error::Hub(_) => StoreError::new_err(words),
        Error::Engine(_) | Error::Session(SessionError::Edge(_) | SessionError::Sampling(_)) => {
            EngineError::new_err(words)
        }
        Error::NoCloud(_)
        | Error::CloudTemplate(_)
        | Error::Cloud(_)
        | Error::Session(SessionError::Cloud(_)) => CloudError::new_err(words),
        Error::Busy | Error::Stopping => BusyError::new_err(words),
        Error::Internal(_) => TandemError::new_err(words),
    }
}

/// The caller's mistake.
pub fn usage(words: impl Display) -> PyErr {
    UsageError::new_err(words.to_string())
}

/// A fault of this package.
pub fn internal(error: impl Display) -> PyErr {
    TandemError::new_err(format!("a task of this program failed: {error}"))
}
