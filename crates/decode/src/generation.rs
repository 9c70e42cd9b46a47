//! One generation in any of the three modes, behind one interface.

use crate::{
    Cloud, CloudError, Edge, Exchange, FinishReason, Relay, Router, Session, SessionError, Span,
    Transcript,
};

/// A generation that is under way.
pub enum Generation<E, R, C> {
    /// Modes `small` and `joint`: the edge writes, with or without a cloud behind it.
    Edge(Session<E, R, C>),
    /// Mode `large`: the cloud writes everything and no edge is needed.
    Large(Relay<C>),
}

impl<E: Edge, R: Router, C: Cloud> Generation<E, R, C> {
    /// Advances by one span; `None` at the end of the text.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        match self {
            Self::Edge(session) => session.next().await,
            Self::Large(relay) => relay.next().await,
        }
    }

    /// Records log-probabilities, alternatives and sent text; see [`Session::with_details`].
    pub fn with_details(self, alternatives: usize) -> Self {
        match self {
            Self::Edge(session) => Self::Edge(session.with_details(alternatives)),
            Self::Large(relay) => Self::Large(relay.with_details()),
        }
    }

    /// Ends the text here and returns what was held back, for example half a stop string.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        match self {
            Self::Edge(session) => session.end(reason),
            Self::Large(relay) => relay.end(reason),
        }
    }

    /// Returns the models with their caches, for the next generation, and the transcript.
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

    /// Everything accepted so far, with its trace and statistics.
    pub fn transcript(&self) -> &Transcript {
        match self {
            Self::Edge(session) => session.transcript(),
            Self::Large(relay) => relay.transcript(),
        }
    }

    /// The cloud's last failure. In mode `large` a failure ends the text and is returned by
    /// [`next`](Self::next) instead.
    pub fn cloud_error(&self) -> Option<&CloudError> {
        match self {
            Self::Edge(session) => session.cloud_error(),
            Self::Large(_) => None,
        }
    }

    /// Whether ids or text are exchanged with the cloud; `None` before the first ask.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            Self::Edge(session) => session.exchange(),
            Self::Large(relay) => relay.exchange(),
        }
    }
}
