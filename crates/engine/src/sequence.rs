//! One context of a model, and what its cache holds.

use std::sync::Arc;

use decode::{
    Edge, EdgeError, SamplingError, Step, Token, Vocabulary, common_prefix, sampling::argmax,
};

use crate::{
    compute::{Command, Reply, SequenceSlot},
    error::EngineError,
    job::{Job, Output, Scores, Want},
    model::Model,
};

/// A sequence of tokens and the model's cache of them; freed when dropped.
///
/// `tokens` is what the cache is known to hold. Cutting it back costs nothing: the cache follows
/// with the next job, and a job that was given up half-way is undone the same way.
pub struct Sequence {
    // Before the model, so that the sequence is freed while there is one.
    place: SequenceSlot,
    model: Model,
    tokens: Vec<Token>,
}

impl Sequence {
    pub(crate) fn new(model: Model, place: SequenceSlot) -> Self {
        Self { place, model, tokens: vec![] }
    }

    /// The model it belongs to.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What has been read.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Forgets everything behind the first `keep` tokens.
    pub fn truncate(&mut self, keep: usize) {
        self.tokens.truncate(keep);
    }

    /// Reads tokens and looks at what may come next.
    pub async fn read(&mut self, unread: &[Token], hidden: bool) -> Result<Output, EngineError> {
        let output = self.run(unread, |reply| Want::Step { hidden, reply }).await?;
        self.tokens.extend_from_slice(unread);
        Ok(output)
    }

    /// Reads tokens and looks behind each of them.
    pub async fn read_each(&mut self, unread: &[Token]) -> Result<Vec<Output>, EngineError> {
        let outputs = vec![];
        let outputs = self.run(unread, |reply| Want::Steps { outputs, reply }).await?;
        self.tokens.extend_from_slice(unread);
        Ok(outputs)
    }

    /// How likely each token of a continuation is, in one prefill. What is cached stays as it was.
    pub async fn score(&mut self, continuation: &[Token]) -> Result<Scores, EngineError> {
        // The last cached token is read again: its logits judge the first of the continuation.
        let before = self.tokens.pop().ok_or(EngineError::NothingToRead)?;
        let tokens: Vec<_> = [before].iter().chain(continuation).copied().collect();
        let scored = vec![];
        let result = self.run(&tokens, |reply| Want::Score { scored, reply }).await;
        // The cache holds more than is kept here; the next job cuts it back.
        if result.is_ok() && tokens.len() > 1 {
            self.tokens.push(before);
        }
        result
    }

    async fn run<T>(
        &mut self,
        tokens: &[Token],
        want: impl FnOnce(Reply<T>) -> Want,
    ) -> Result<T, EngineError> {
        let (tokens, keep) = (tokens.to_vec(), self.tokens.len());
        let SequenceSlot { compute, model, sequence } = &self.place;
        let (model, sequence) = (*model, *sequence);
        let job = |reply| Job::new(sequence, keep, tokens, want(reply));
        let result = compute.ask(|reply| Command::Run { model, job: job(reply) }).await;
        if matches!(result, Err(EngineError::Decode { .. })) {
            // The compute thread has forgotten the sequence.
            self.tokens.clear();
        }
        result
    }
}

impl Edge for Sequence {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.model.vocabulary().clone()
    }

    fn context(&self) -> usize {
        self.model.context()
    }

    fn held(&self) -> &[Token] {
        &self.tokens
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        self.truncate(common_prefix(&self.tokens, context));
        self.tokens.len()
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        step(self.read(unread, true).await.map_err(EdgeError::new)?)
    }

    async fn steps(&mut self, unread: &[Token]) -> Result<Vec<Step>, EdgeError> {
        let outputs = self.read_each(unread).await.map_err(EdgeError::new)?;
        outputs.into_iter().map(step).collect()
    }
}

fn step(output: Output) -> Result<Step, EdgeError> {
    Ok(Step {
        position: output.position,
        proposed: argmax(&output.logits).ok_or(EdgeError::new(SamplingError::NotANumber))?,
        logits: output.logits,
        hidden: output.hidden,
        reading: output.reading,
    })
}
