//! One function a route; all they do is done by the service.

pub mod metrics;
pub mod sessions;
