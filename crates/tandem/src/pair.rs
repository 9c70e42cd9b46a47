//! The trait of the two models: real ones in [`Models`](crate::Models), scripted ones in tests.

use std::future::Future;

use cloud::{CloudState, RequestOrigin, protocol::Prompt};
use decode::{Cloud, Constraint, Edge, OnCloudError, Token};
use engine::Grammar;

use crate::{Error, Owner};

/// The next conversation of a cloud.
#[derive(Debug)]
pub struct Introduction<'a> {
    /// The messages, text or tokens that it begins with.
    pub prompt: &'a Prompt,
    /// The prompt in the edge's tokens; `None` if the cloud writes alone.
    pub edge: Option<&'a [Token]>,
    /// What to do when the cloud fails.
    pub on_error: OnCloudError,
    /// The form that the text is held to.
    pub grammar: Option<&'a Grammar>,
    /// The request that the text is for, which a cloud elsewhere is told with every call.
    pub origin: Option<&'a RequestOrigin>,
}

/// A small and a large model. Each is opened once for every text that is generated at the same time.
pub trait Pair: Send + Sync + 'static {
    /// One sequence of the small model.
    type Edge: Edge + 'static;
    /// One conversation with the large model.
    type Cloud: Cloud + 'static;

    /// Whether there is a large model.
    fn has_cloud(&self) -> bool;

    /// Whether the large model can be asked; `None` where there is none, or nobody asked it yet.
    fn cloud_state(&self) -> Option<CloudState> {
        None
    }

    /// The longest conversation of the edge, in tokens.
    fn context(&self) -> usize;

    /// The bytes of the longest token, if that is known: what a text is short enough for can then be
    /// told by its length.
    fn longest_token(&self) -> usize {
        usize::MAX
    }

    /// Waits until a model cannot be used any more, and says why.
    fn failure(&self) -> impl Future<Output = String> + Send {
        std::future::pending()
    }

    /// Whether [`failure`](Self::failure) has something to say.
    fn has_failed(&self) -> bool {
        false
    }

    /// A prompt in the edge's tokens. The edge must be loaded.
    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, Error>;

    /// What holds a text to a grammar, in the edge's tokens. The edge must be loaded.
    fn constraint(&self, _: &Grammar) -> Result<Box<dyn Constraint>, Error> {
        Err(Error::Usage("these models cannot be held to a grammar".into()))
    }

    /// Loads the small model, unless it is loaded already.
    fn load_edge(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether the small model is loaded.
    fn has_edge(&self) -> bool;

    /// Opens one more sequence of the small model.
    fn open_edge(&self) -> impl Future<Output = Result<Self::Edge, Error>> + Send;

    /// How many asks of a text may be on their way at once; 0 waits for every answer.
    fn asks_in_flight(&self) -> usize {
        0
    }

    /// Behind how many of its other choices the small model may go on while it waits.
    fn branches(&self) -> usize {
        0
    }

    /// How many tokens an ask brings; those behind the first answer later asks.
    fn ask_tokens(&self) -> usize {
        1
    }

    /// Whether several doubtful places are judged with one request, where that many are on their way.
    fn judges_asks(&self) -> bool {
        false
    }

    /// Whether the large model is opened and reads the prompt while the small one does.
    fn warms_cloud(&self) -> bool {
        false
    }

    /// Opens one more conversation with the large model. Nothing is sent yet.
    fn open_cloud(&self) -> impl Future<Output = Result<Self::Cloud, Error>> + Send;

    /// Tells a cloud which conversation comes next. What its cache has of it is not read again.
    fn introduce(&self, cloud: &mut Self::Cloud, to: Introduction<'_>) -> Result<(), Error>;

    /// Keeps what a cloud remembers of an owner's conversations apart from those of others, also where
    /// one cache serves them all.
    fn separate(&self, _: &mut Self::Cloud, _: Owner) -> Result<(), Error> {
        Ok(())
    }

    /// Closes a cloud's session, so that the server can free its cache.
    fn close(&self, cloud: &mut Self::Cloud) -> impl Future<Output = ()> + Send;
}
