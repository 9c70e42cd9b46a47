//! An engine without thread, channels or tracing: the baseline that the program is measured against.

use std::time::{Duration, Instant};

use decode::{Token, common_prefix, sampling};

use crate::{
    context::{Context, Entry},
    error::EngineError,
    model::LoadOptions,
    weights::LoadedWeights,
};

/// A model and a context on the calling thread.
pub struct RawEngine {
    context: Box<dyn Context>,
    /// The prompt that is in the cache.
    cached: Vec<Token>,
}

impl RawEngine {
    /// Loads a model with one sequence.
    pub fn load(options: &LoadOptions) -> Result<Self, EngineError> {
        let context = options.load(&mut LoadedWeights::default())?.context;
        Ok(Self { context, cached: vec![] })
    }

    /// Reads tokens into an empty cache, in the model's chunks, and returns the time it took.
    pub fn prefill(&mut self, tokens: &[Token]) -> Result<Duration, EngineError> {
        self.cached.clear();
        if !self.context.truncate(0, 0) {
            return Err(EngineError::CannotTruncate);
        }
        let batch = self.context.sizes().batch;
        let started = Instant::now();
        for (i, chunk) in tokens.chunks(batch).enumerate() {
            self.context.decode(&entries(i * batch, chunk), false)?;
        }
        Ok(started.elapsed())
    }

    /// Decodes greedily after a prompt, past end-of-text if it comes, and returns the time of the
    /// `count` decode steps alone; with `hidden`, the hidden state is read at each of them. The
    /// prefix of the prompt that is already cached is not read again.
    pub fn decode(
        &mut self,
        prompt: &[Token],
        count: usize,
        hidden: bool,
    ) -> Result<Duration, EngineError> {
        let common = common_prefix(prompt, &self.cached);
        let mut position = common.min(prompt.len().saturating_sub(1));
        if !self.context.truncate(0, position) {
            return Err(EngineError::CannotTruncate);
        }
        self.cached = prompt.to_vec();
        let batch = self.context.sizes().batch;
        let mut token = None;
        for chunk in prompt[position..].chunks(batch) {
            let last = position + chunk.len() == prompt.len();
            let entries = entries(position, chunk);
            // The last token of the prompt gives the first logits.
            let (head, tail) = entries.split_at(entries.len() - usize::from(last));
            if !head.is_empty() {
                self.context.decode(head, false)?;
            }
            for entry in tail {
                token = Some(self.read(*entry, false)?);
            }
            position += chunk.len();
        }
        let mut token = token.ok_or(EngineError::NothingToRead)?;
        let mut sum = 0.0;
        let started = Instant::now();
        for position in position..position + count {
            token = self.read(Entry { token, position, sequence: 0, output: true }, hidden)?;
            if hidden {
                sum += self.context.hidden(0).map_or(f32::NAN, |h| h.iter().sum());
            }
        }
        let took = started.elapsed();
        std::hint::black_box(sum);
        Ok(took)
    }

    fn read(&mut self, entry: Entry, hidden: bool) -> Result<Token, EngineError> {
        let entry = Entry { output: true, ..entry };
        self.context.decode(&[entry], hidden)?;
        let logits = self.context.logits(0);
        logits.and_then(sampling::argmax).ok_or(EngineError::NothingToRead)
    }
}

/// Tokens to be read from a position on, without outputs.
fn entries(position: usize, tokens: &[Token]) -> Vec<Entry> {
    let entry = |(position, &token)| Entry { token, position, sequence: 0, output: false };
    (position..).zip(tokens).map(entry).collect()
}
