//! A constraint that follows a text through a grammar.

use decode::{Constraint, ConstraintError, Continuation, Token};
use llguidance::{Matcher, api::StopReason};

pub struct Follower {
    matcher: Matcher,
    json: bool,
}

impl Follower {
    /// `json`: whether the text is JSON all through.
    pub fn new(matcher: Matcher, json: bool) -> Self {
        Self { matcher, json }
    }

    /// Whether the text is complete; an error where it stopped for another reason.
    fn is_complete(&self) -> Result<bool, ConstraintError> {
        match self.matcher.stop_reason() {
            StopReason::NotStopped => Ok(false),
            reason if reason.is_ok() => Ok(true),
            reason => {
                Err(ConstraintError(self.matcher.get_error().unwrap_or_else(|| reason.to_string())))
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> ConstraintError {
    ConstraintError(error.to_string())
}

fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|t| t.0).collect()
}

impl Constraint for Follower {
    fn continuation(&mut self) -> Result<Continuation, ConstraintError> {
        if self.is_complete()? {
            return Ok(Continuation::Complete);
        }
        let forced = self.matcher.compute_ff_tokens();
        if self.is_complete()? {
            return Ok(Continuation::Complete);
        }
        Ok(match forced.as_slice() {
            [] => Continuation::Open,
            forced => Continuation::Forced(forced.iter().copied().map(Token).collect()),
        })
    }

    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        let mask = self.matcher.compute_mask_or_eos().map_err(failed)?;
        let (words, known) = (mask.as_slice(), mask.len());
        for (block, logits) in logits.chunks_mut(32).enumerate() {
            match words.get(block).copied().unwrap_or(0) {
                0 => logits.fill(f32::NEG_INFINITY),
                u32::MAX if (block + 1) * 32 <= known => {}
                word => {
                    for (bit, logit) in logits.iter_mut().enumerate() {
                        if word & (1 << bit) == 0 || block * 32 + bit >= known {
                            *logit = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn allows(&mut self, tokens: &[Token]) -> Result<bool, ConstraintError> {
        let tokens = ids(tokens);
        let known = self.matcher.tok_env().map_err(failed)?.tok_trie().vocab_size();
        if tokens.iter().any(|&id| id as usize >= known) {
            return Ok(false);
        }
        Ok(self.matcher.validate_tokens(&tokens).map_err(failed)? == tokens.len())
    }

    fn may_end(&mut self) -> Result<bool, ConstraintError> {
        Ok(self.is_complete()? || self.matcher.is_accepting().map_err(failed)?)
    }

    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        self.matcher.consume_tokens(&ids(tokens)).map_err(failed)
    }

    fn is_json(&self) -> bool {
        self.json
    }

    fn duplicate(&self) -> Box<dyn Constraint> {
        // Deep: the shallow clone shares a lock with its original.
        Box::new(Self { matcher: self.matcher.deep_clone(), json: self.json })
    }
}
