//! The seam to the two models.

use std::future::Future;

use cloud::protocol::Prompt;
use decode::{Cloud, Edge, OnCloudError, Token};

use crate::http::ApiError;

/// Room for one conversation at a time: a sequence of the edge, and a cloud.
pub struct Seat<E, C> {
    /// The edge and its cache.
    pub edge: E,
    /// The cloud and its conversation.
    pub cloud: C,
}

/// What a cloud is told of the conversation that comes next.
#[derive(Debug)]
pub struct Introduction<'a> {
    /// What it begins with.
    pub prompt: &'a Prompt,
    /// The same in the edge's tokens; `None` where the cloud writes alone.
    pub edge: Option<&'a [Token]>,
    /// What a failure means.
    pub on_error: OnCloudError,
}

/// A small and a large model, as the server needs them.
pub trait Pair: Send + Sync + 'static {
    /// The small one.
    type Edge: Edge + 'static;
    /// The large one.
    type Cloud: Cloud + 'static;

    /// Whether there is a large model at all.
    fn has_cloud(&self) -> bool;

    /// How many tokens a conversation may have.
    fn context(&self) -> usize;

    /// A conversation, or a text to be continued, in the edge's tokens.
    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, ApiError>;

    /// One more seat.
    fn open(
        &self,
    ) -> impl Future<
        Output = Result<Seat<Self::Edge, Self::Cloud>, Box<dyn std::error::Error + Send + Sync>>,
    > + Send;

    /// Tells a cloud which conversation comes next. What it has read of it stays read.
    fn introduce(
        &self,
        seat: &mut Seat<Self::Edge, Self::Cloud>,
        introduction: Introduction<'_>,
    ) -> Result<(), ApiError>;

    /// Says goodbye to a cloud.
    fn close(&self, cloud: &mut Self::Cloud) -> impl Future<Output = ()> + Send;
}
