//! What an answer tells of itself besides its text: the field `tandem`.

use decode::Accepted;
use serde::Serialize;
use tandem::{Generation, Pair};
use utoipa::ToSchema;

use super::error::public;

/// What a text tells of itself: on its answer, or in a stream on the chunk that ends it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Summary {
    /// As every face of Tandem tells it.
    #[serde(flatten)]
    pub summary: tandem::Summary,
    /// Every token, where that was asked for and the answer is told all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<Accepted>>,
}

impl Summary {
    /// Of a text as it stands. No addresses: callers need not know where the cloud is.
    pub fn new<P: Pair>(generation: &Generation<P>) -> Self {
        let cloud_error = generation.cloud_error().map(public);
        let summary = tandem::Summary { cloud_error, ..generation.summary() };
        Self { summary, trace: None }
    }
}
