//! One text, in any mode.

use crate::{
    Cloud, CloudError, Edge, Exchange, FinishReason, Relay, Router, Session, SessionError, Span,
    Transcript,
};

/// A text that is being made.
pub enum Generation<E, R, C> {
    /// Modes `small` and `joint`.
    Edge(Session<E, R, C>),
    /// Mode `large`.
    Large(Relay<C>),
}

impl<E: Edge, R: Router, C: Cloud> Generation<E, R, C> {
    /// Advances by one span; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        match self {
            Self::Edge(session) => session.next().await,
            Self::Large(relay) => relay.next().await,
        }
    }

    /// Has every token tell more of itself; see [`Session::watch`].
    pub fn watch(self, alternatives: usize) -> Self {
        match self {
            Self::Edge(session) => Self::Edge(session.watch(alternatives)),
            Self::Large(relay) => Self::Large(relay.watch()),
        }
    }

    /// Ends it here; what was held back can be shown now.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        match self {
            Self::Edge(session) => session.end(reason),
            Self::Large(relay) => relay.end(reason),
        }
    }

    /// Gives back what it was made from, and what happened.
    pub fn into_parts(self) -> (Option<E>, Option<C>, Transcript) {
        match self {
            Self::Edge(session) => {
                let (edge, cloud, transcript) = session.into_parts();
                (Some(edge), cloud, transcript)
            }
            Self::Large(relay) => {
                let (cloud, transcript) = relay.into_parts();
                (None, Some(cloud), transcript)
            }
        }
    }

    /// What happened so far.
    pub fn transcript(&self) -> &Transcript {
        match self {
            Self::Edge(session) => session.transcript(),
            Self::Large(relay) => relay.transcript(),
        }
    }

    /// The cloud's last failure, if it had one.
    pub fn cloud_error(&self) -> Option<&CloudError> {
        match self {
            Self::Edge(session) => session.cloud_error(),
            Self::Large(_) => None,
        }
    }

    /// What travelled to the cloud, if anything did.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            Self::Edge(session) => session.exchange(),
            Self::Large(relay) => relay.exchange(),
        }
    }
}
