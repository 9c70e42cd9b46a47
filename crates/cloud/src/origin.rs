//! The request of a user for which a cloud is asked.

/// By which names the logs and traces of both sides know a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOrigin {
    /// Its name in this side's log, sent as `x-request-id`.
    pub id: Option<String>,
    /// Its place in a trace, sent as `traceparent` (W3C Trace Context).
    pub traceparent: Option<String>,
}
