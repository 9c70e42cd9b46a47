//! One context of a model, and the tokens that its cache holds.

use std::sync::Arc;

use decode::{
    Edge, EdgeError, SamplingError, Step, Token, Vocabulary, common_prefix, sampling::argmax,
};

use crate::{
    compute::{Command, Reply, SequenceSlot},
    error::EngineError,
    job::{Job, JobKind, Output, Scores},
    model::Model,
};

/// A sequence of tokens and the model's cache of them; freed when dropped.
///
/// `tokens` is what the cache is known to hold. Truncating it costs nothing: the next job truncates
/// the cache, and that also undoes a job that was cancelled half-way.
pub struct Sequence {
    // Declared before the model, so that the sequence is freed while its model still exists.
    slot: SequenceSlot,
    model: Model,
    tokens: Vec<Token>,
}

impl Sequence {
    pub(crate) fn new(model: Model, slot: SequenceSlot) -> Self {
        Self { slot, model, tokens: vec![] }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tokens that the cache holds.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Forgets everything after the first `keep` tokens.
    pub fn truncate(&mut self, keep: usize) {
        self.tokens.truncate(keep);
    }

    /// Reads tokens and returns the model's view of the position after them.
    pub async fn read(&mut self, unread: &[Token], hidden: bool) -> Result<Output, EngineError> {
        let output = self.run(unread, |reply| JobKind::Step { hidden, reply }).await?;
        self.tokens.extend_from_slice(unread);
        Ok(output)
    }

    /// Reads tokens and returns the model's view of the position after each of them.
    pub async fn read_each(&mut self, unread: &[Token]) -> Result<Vec<Output>, EngineError> {
        let outputs = vec![];
        let outputs = self.run(unread, |reply| JobKind::Steps { outputs, reply }).await?;
        self.tokens.extend_from_slice(unread);
        Ok(outputs)
    }

    /// Computes how likely each token of a continuation is, in one prefill. The sequence stays as
    /// it was.
    pub async fn score(&mut self, continuation: &[Token]) -> Result<Scores, EngineError> {
        // The last cached token is read again: its logits score the first of the continuation.
        let before = self.tokens.pop().ok_or(EngineError::NothingToRead)?;
        let tokens: Vec<_> = [before].iter().chain(continuation).copied().collect();
        let scored = vec![];
        let result = self.run(&tokens, |reply| JobKind::Score { scored, reply }).await;
        // The cache holds the continuation now; the next job truncates it.
        if result.is_ok() && tokens.len() > 1 {
            self.tokens.push(before);
        }
        result
    }

    /// The same, and the sequence then holds what was read: the continuation without its last token. For
    /// a text that is likely to come.
    pub async fn score_and_keep(&mut self, continuation: &[Token]) -> Result<Scores, EngineError> {
        let scores = self.score(continuation).await?;
        let read = continuation.len().saturating_sub(1);
        self.tokens.extend_from_slice(&continuation[..read]);
        Ok(scores)
    }

    async fn run<T>(
        &mut self,
        tokens: &[Token],
        kind: impl FnOnce(Reply<T>) -> JobKind,
    ) -> Result<T, EngineError> {
        let (tokens, keep) = (tokens.to_vec(), self.tokens.len());
        let SequenceSlot { compute, model, sequence } = &self.slot;
        let (model, sequence) = (*model, *sequence);
        let job = |reply| Job::new(sequence, keep, tokens, kind(reply));
        let result = compute.ask(|reply| Command::Run { model, job: job(reply) }).await;
        if matches!(result, Err(EngineError::Decode { .. })) {
            // The compute thread has emptied the sequence.
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

    async fn fork(&mut self, keep: usize) -> Option<Self> {
        let tokens = self.tokens.get(..keep)?.to_vec();
        let SequenceSlot { compute, model, sequence } = &self.slot;
        let (model, sequence, owner) = (*model, *sequence, compute.clone());
        let fork = |reply| Command::Fork { model, sequence, keep, owner, reply };
        let slot = compute.ask(fork).await.ok().flatten()?;
        Some(Self { slot, model: self.model.clone(), tokens })
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
