//! The time of day, for what people read. It may jump, so nothing is measured by it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970; none of it where the clock stands before that.
#[expect(clippy::disallowed_methods, reason = "answers say when they were made")]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
