//! What edges see, for a service that collects it.

use std::fmt;

use decode::{Exchange, Token, Vocabulary};

use super::{
    conversation::known,
    error::ServiceError,
    sessions::{Session, refuse},
};
use crate::{
    protocol::{EdgeModel, EdgeState},
    seen::DecodedState,
};

/// Keeps what edges see beside what the cloud would have written, to train routers on it.
pub trait Collector: Send + Sync + fmt::Debug {
    /// Whether states of this edge are taken, or why not. May wait for the disk.
    fn welcome(&self, edge: EdgeModel, exchange: Exchange) -> Result<(), String>;

    /// A number for a conversation that is about to give its first sample.
    fn number(&self) -> u32;

    /// Takes one sample. Must not wait: an answer waits for it.
    fn take(&self, sample: Observed<'_>);

    /// How many samples there were.
    fn counts(&self) -> SampleCounts;

    /// Keeps what is left, and takes no more.
    fn finish(&self);
}

/// How many samples a collector was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples that were taken.
    pub taken: u64,
    /// Samples that could not be kept.
    pub lost: u64,
}

/// One position of a conversation, seen from both sides.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The cloud's vocabulary.
    pub vocabulary: &'a dyn Vocabulary,
    /// What travels in the session.
    pub exchange: Exchange,
    /// What the edge saw.
    pub edge: &'a DecodedState,
    /// The token the cloud held likeliest.
    pub likeliest: Token,
    /// The conversation's [`number`](Collector::number).
    pub conversation: u32,
    /// How much was accepted there.
    pub position: usize,
}

/// A session whose edge shares what it sees.
#[derive(Debug)]
pub(crate) struct Source {
    /// The length of its hidden state.
    hidden: usize,
    /// The conversation's number, from its first sample on.
    number: Option<u32>,
    /// Where the last sample was: an ask that is repeated counts once.
    last: Option<usize>,
}

impl Source {
    pub fn new(hidden: usize) -> Self {
        Self { hidden, number: None, last: None }
    }

    /// A turn that goes on with an earlier one is of the same conversation.
    pub fn follow(&mut self, earlier: &Session, prompt: &[Token]) {
        if prompt.starts_with(earlier.conversation.prompt()) {
            self.number = earlier.source.as_ref().and_then(|source| source.number);
        }
    }
}

/// Checks what an edge says it saw, before anything is done for it.
pub(crate) fn read(
    session: &Session,
    seen: Option<&EdgeState>,
) -> Result<Option<DecodedState>, ServiceError> {
    let Some(seen) = seen else { return Ok(None) };
    let Some(source) = &session.source else {
        let message = "edge: this session takes no states; offer them when it is opened";
        return Err(ServiceError::invalid(message));
    };
    let exchange = session.conversation.exchange();
    if exchange == Exchange::Ids {
        let known = known(session.sequence.model().vocabulary().as_ref(), &[seen.proposed]);
        known.map_err(|refusal| refuse(refusal, session))?;
    }
    let state = seen.read(source.hidden, exchange);
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
    let exchange = session.conversation.exchange();
    let vocabulary = session.sequence.model().vocabulary().clone();
    let Some(source) = &mut session.source else { return };
    if source.last.is_some_and(|last| position <= last) {
        return;
    }
    source.last = Some(position);
    let conversation = *source.number.get_or_insert_with(|| collector.number());
    let vocabulary = vocabulary.as_ref();
    collector.take(Observed { vocabulary, exchange, edge, likeliest, conversation, position });
}
