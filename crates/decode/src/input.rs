//! What a generation begins with, whichever loop it runs in.

use std::sync::Arc;

use crate::{
    Edge, Limits, Sampling, SessionError, Token, Transcript, Vocabulary, transcript::Piece,
};

/// The input of one generation.
#[derive(Clone, Debug)]
pub struct SessionInput {
    /// The edge's tokens of the prompt.
    pub prompt: Vec<Token>,
    /// The beginning of the answer, if it is already written. It counts as the edge's.
    pub written: Vec<Token>,
    /// Parameters for both models.
    pub sampling: Sampling,
    /// Where the text ends at the latest.
    pub limits: Limits,
}

impl SessionInput {
    /// Refuses what a session in a context of this many tokens cannot begin with.
    pub fn check(&self, context: usize) -> Result<(), SessionError> {
        if self.prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        let tokens = self.prompt.len() + self.written.len();
        if tokens >= context {
            return Err(SessionError::PromptTooLong { tokens, context });
        }
        Ok(())
    }

    /// Has the edge keep what it already holds of the prompt and what is written behind it.
    pub(crate) fn begin(self, edge: &mut impl Edge) -> Result<Begun, SessionError> {
        self.check(edge.context())?;
        let Self { mut prompt, written, sampling, limits } = self;
        let vocabulary = edge.vocabulary();
        let mut transcript = Transcript::new(limits);
        let piece = |&t: &Token| Piece { id: Some(t), bytes: vocabulary.piece(t), logprob: None };
        transcript.begin_with(written.iter().map(piece).collect());
        prompt.extend(written);
        // The last token is read in any case: it gives the first logits.
        let read = edge.keep_common(&prompt[..prompt.len() - 1]);
        let unread = prompt.split_off(read);
        Ok(Begun { vocabulary, sampling, read, unread, transcript })
    }
}

/// A generation of which the edge has read nothing yet.
pub(crate) struct Begun {
    pub vocabulary: Arc<dyn Vocabulary>,
    pub sampling: Sampling,
    /// How many tokens the edge already holds.
    pub read: usize,
    /// Those behind them.
    pub unread: Vec<Token>,
    pub transcript: Transcript,
}
