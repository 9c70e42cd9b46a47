//! How long a text waits for a cloud that fails.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use decode::OnCloudError;

/// Since when a text waits; nothing while its cloud answers.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Option<Instant>>);

impl Waiting {
    /// How much longer it waits, `None` if it does not, or no more. Its waiting begins here.
    pub fn left(&self, on_error: OnCloudError, most: Option<Duration>) -> Option<Duration> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        let left = most.map_or(Duration::MAX, |most| most.saturating_sub(waited));
        (on_error == OnCloudError::Wait && !left.is_zero()).then_some(left)
    }

    /// The cloud answered, or was given up: the next ask may wait as long as this one did.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
