//! What both servers do with every request, whatever it is about.
//!
//! - [`access`]: keys, and the host's name where anybody on this machine is let in
//! - [`body`]: JSON, neither too large nor too slow; a mistake is named by its path
//! - [`error`]: the one shape errors have, and their statuses
//! - [`metrics`]: requests counted by route, and the text Prometheus reads
//! - [`quota`]: what each key may use in a minute; [`room`]: memory for answers until they are taken
//! - [`request_id`]: a name for every request; `traces`: its place in a trace, with the feature `otel`

pub mod access;
pub mod body;
pub mod error;
pub mod metrics;
pub mod quota;
pub mod request_id;
pub mod room;
#[cfg(feature = "otel")]
mod traces;

pub use access::{Access, EmptyKey, Keys};
pub use body::BodyLimits;
pub use error::ApiError;
pub use quota::{Quota, Quotas};
