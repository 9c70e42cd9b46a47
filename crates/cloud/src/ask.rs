//! An ask that outlives its caller's text, because it is on its way.

use decode::{AnswerLength, Ask, Sampling, Token};

use crate::protocol::EdgeState;

#[derive(Clone, Debug)]
pub(crate) struct OwnedAsk {
    pub tokens: Vec<Token>,
    pub text: String,
    pub want: AnswerLength,
    pub sampling: Sampling,
    /// What the edge saw here, for a cloud that collects.
    pub seen: Option<EdgeState>,
}

impl OwnedAsk {
    pub fn new(ask: Ask<'_>, seen: Option<EdgeState>) -> Self {
        let Ask { tokens, text, want, sampling } = ask;
        Self { tokens: tokens.to_vec(), text: text.to_owned(), want, sampling: *sampling, seen }
    }

    pub fn as_ask(&self) -> Ask<'_> {
        let Self { tokens, text, want, sampling, .. } = self;
        Ask { tokens, text, want: *want, sampling }
    }
}
