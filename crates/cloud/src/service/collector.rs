//! What edges see, for a service that collects it.

use std::fmt;

use decode::{Exchange, Token, Vocabulary};

use super::{conversation::known, error::ServiceError, sessions::Session};
use crate::{
    decoded_state::DecodedState,
    protocol::{EdgeModel, EdgeState},
};

/// Keeps what edges see beside what the cloud would have written, to train routers on it.
pub trait Collector: Send + Sync + fmt::Debug {
    /// Whether states of this edge are taken; if not, why. May wait for the disk.
    fn accepts(&self, edge: EdgeModel, exchange: Exchange) -> Result<(), String>;

    /// A number for a conversation that is about to give its first sample.
    fn next_conversation(&self) -> u32;

    /// Takes one sample. Must not wait: an answer waits for it.
    fn take(&self, sample: Observation<'_>);

    fn counts(&self) -> SampleCounts;

    /// Keeps what is left, and takes no more.
    fn finish(&self);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    pub taken: u64,
    /// Samples that could not be kept.
    pub lost: u64,
}

/// One position of a conversation, seen from both sides.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    pub vocabulary: &'a dyn Vocabulary,
    pub exchange: Exchange,
    pub edge: &'a DecodedState,
    /// The token the cloud held likeliest.
    pub likeliest: Token,
    /// Which conversation: a number of [`Collector::next_conversation`].
    pub conversation: u32,
    /// How much was accepted there.
    pub position: usize,
}

/// What a session knows of states its edge shares.
#[derive(Debug)]
pub(crate) struct SharedStates {
    /// The length of its hidden state.
    hidden: usize,
    /// The conversation's number, from its first sample on.
    conversation: Option<u32>,
    /// Where the last sample was: an ask that is repeated counts once.
    last: Option<usize>,
}

impl SharedStates {
    pub fn new(hidden: usize) -> Self {
        Self { hidden, conversation: None, last: None }
    }

    /// A turn that goes on with an earlier one is of the same conversation.
    pub fn follow(&mut self, earlier: &Session, prompt: &[Token]) {
        if prompt.starts_with(&earlier.conversation.prompt) {
            self.conversation = earlier.shared.as_ref().and_then(|shared| shared.conversation);
        }
    }
}

/// Checks what an edge says it saw, before anything is done for it.
pub(crate) fn read(
    session: &Session,
    seen: Option<&EdgeState>,
) -> Result<Option<DecodedState>, ServiceError> {
    let Some(seen) = seen else { return Ok(None) };
    let Some(shared) = &session.shared else {
        let message = "edge: this session takes no states; offer them when it is opened";
        return Err(ServiceError::invalid(message));
    };
    let exchange = session.conversation.exchange;
    if exchange == Exchange::Ids {
        known(session.sequence.model().vocabulary().as_ref(), &[seen.proposed])?;
    }
    let state = seen.read(shared.hidden, exchange);
    state.map(Some).map_err(|reason| ServiceError::invalid(format!("edge: {reason}")))
}

/// Hands a position that was answered to the collector: how much was accepted there, and what the
/// cloud held likeliest.
pub(crate) fn collect(
    collector: &dyn Collector,
    session: &mut Session,
    edge: &DecodedState,
    position: usize,
    likeliest: Token,
) {
    let exchange = session.conversation.exchange;
    let vocabulary = session.sequence.model().vocabulary().clone();
    let Some(shared) = &mut session.shared else { return };
    if shared.last.is_some_and(|last| position <= last) {
        return;
    }
    shared.last = Some(position);
    let conversation = *shared.conversation.get_or_insert_with(|| collector.next_conversation());
    let vocabulary = vocabulary.as_ref();
    collector.take(Observation { vocabulary, exchange, edge, likeliest, conversation, position });
}
