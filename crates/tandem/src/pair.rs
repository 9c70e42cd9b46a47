//! The seam to the two models: real ones in [`Models`](crate::Models), scripted ones in tests.

use std::future::Future;

use cloud::protocol::Prompt;
use decode::{Cloud, Edge, OnCloudError, Token};

use crate::Error;

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

/// A small and a large model, each opened as often as texts are made at once.
pub trait Pair: Send + Sync + 'static {
    /// One sequence of the small model.
    type Edge: Edge + 'static;
    /// One conversation with the large model.
    type Cloud: Cloud + 'static;

    /// Whether there is a large model at all.
    fn has_cloud(&self) -> bool;

    /// How many tokens a conversation may have on the edge.
    fn context(&self) -> usize;

    /// A conversation, or a text to be continued, in the edge's tokens. The edge must be loaded.
    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, Error>;

    /// Loads the small model, unless it is loaded already.
    fn load_edge(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether the small model is loaded.
    fn has_edge(&self) -> bool;

    /// One more sequence of the small model.
    fn open_edge(&self) -> impl Future<Output = Result<Self::Edge, Error>> + Send;

    /// One more conversation with the large model. Nothing is sent yet.
    fn open_cloud(&self) -> impl Future<Output = Result<Self::Cloud, Error>> + Send;

    /// Tells a cloud which conversation comes next. What it has read of it stays read.
    fn introduce(&self, cloud: &mut Self::Cloud, to: Introduction<'_>) -> Result<(), Error>;

    /// Says goodbye to a cloud.
    fn close(&self, cloud: &mut Self::Cloud) -> impl Future<Output = ()> + Send;
}
