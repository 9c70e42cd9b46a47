//! Free text that is held to a form from a certain word on: what tool calls are made of.
//!
//! Where the text is free nothing is masked, so an answer without the word costs nothing.

use std::sync::Arc;

use decode::{Constraint, ConstraintError, Continuation, Token};
use llguidance::toktrie::TokEnv;

/// What all texts with the same trigger share.
pub struct Trigger {
    word: Vec<u8>,
    tokens: TokEnv,
    /// Tokens that would complete the word and write on behind it, by how much of the word has to
    /// stand before them. They are not let through: behind the word another form begins.
    overshooting: Vec<(Token, usize)>,
}

impl Trigger {
    pub fn new(word: &str, tokens: TokEnv) -> Self {
        let word = word.as_bytes().to_vec();
        let trie = tokens.tok_trie();
        let mut overshooting = vec![];
        for id in 0..trie.vocab_size() as u32 {
            let piece = trie.token(id);
            let contains = piece.windows(word.len()).any(|w| w == word);
            for before in 0..word.len() {
                let rest = &word[before..];
                let overshoots = match before {
                    0 => contains && !piece.ends_with(rest),
                    _ => piece.len() > rest.len() && piece.starts_with(rest),
                };
                if overshoots {
                    overshooting.push((Token(id), before));
                }
            }
        }
        Self { word, tokens, overshooting }
    }
}

pub struct Triggered {
    trigger: Arc<Trigger>,
    /// The form behind the word, at its beginning.
    form: Arc<dyn Constraint>,
    /// Whether the text may go on behind the form.
    again: bool,
    state: State,
}

#[derive(Clone)]
enum State {
    /// The text is free; its last bytes, as far as they may begin the word.
    Free(Vec<u8>),
    Held(Box<dyn Constraint>),
    Over,
}

impl Triggered {
    pub fn new(trigger: Arc<Trigger>, form: Box<dyn Constraint>, again: bool) -> Self {
        Self { trigger, form: form.into(), again, state: State::Free(vec![]) }
    }

    fn copy(&self) -> Self {
        Self {
            trigger: self.trigger.clone(),
            form: self.form.clone(),
            again: self.again,
            state: self.state.clone(),
        }
    }

    /// Tokens that may not come while the text is free.
    fn banned<'a>(&'a self, tail: &'a [u8]) -> impl Iterator<Item = Token> + 'a {
        let Trigger { word, overshooting, .. } = &*self.trigger;
        let stands = |before: usize| tail.ends_with(&word[..before]);
        overshooting.iter().filter(move |(_, before)| stands(*before)).map(|(token, _)| *token)
    }

    fn advance_by(&mut self, token: Token) -> Result<(), ConstraintError> {
        match &mut self.state {
            State::Free(tail) => {
                tail.extend_from_slice(self.trigger.tokens.tok_trie().token(token.0));
                let length = self.trigger.word.len();
                if tail.ends_with(&self.trigger.word) {
                    self.state = State::Held(self.form.duplicate());
                } else {
                    tail.drain(..tail.len().saturating_sub(length - 1));
                }
            }
            State::Held(form) => {
                form.advance(&[token])?;
                if form.continuation()? == Continuation::Complete {
                    self.state = if self.again { State::Free(vec![]) } else { State::Over };
                }
            }
            State::Over => return Err(ConstraintError("the text is complete".into())),
        }
        Ok(())
    }
}

impl Constraint for Triggered {
    fn continuation(&mut self) -> Result<Continuation, ConstraintError> {
        match &mut self.state {
            State::Free(_) => Ok(Continuation::Open),
            State::Held(form) => form.continuation(),
            State::Over => Ok(Continuation::Complete),
        }
    }

    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        match &mut self.state {
            State::Held(form) => return form.mask(logits),
            State::Over => logits.fill(f32::NEG_INFINITY),
            State::Free(_) => {}
        }
        if let State::Free(tail) = &self.state {
            for token in self.banned(tail) {
                if let Some(logit) = logits.get_mut(token.index()) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        Ok(())
    }

    fn allows(&mut self, tokens: &[Token]) -> Result<bool, ConstraintError> {
        // Within the form nothing has to be copied to know, unless some of the tokens end it.
        if let State::Held(form) = &mut self.state {
            if form.allows(tokens)? {
                return Ok(true);
            }
            let end = Token(self.trigger.tokens.tok_trie().eos_token());
            let mut ends = false;
            for length in 1..tokens.len() {
                ends = ends || form.allows(&[&tokens[..length], &[end]].concat())?;
            }
            if !ends {
                return Ok(false);
            }
        }
        let mut copy = self.copy();
        for &token in tokens {
            let fits = match &mut copy.state {
                State::Held(form) => form.allows(&[token])?,
                State::Over => false,
                State::Free(_) => true,
            };
            let banned = match &copy.state {
                State::Free(tail) => copy.banned(tail).any(|banned| banned == token),
                State::Held(_) | State::Over => false,
            };
            if !fits || banned {
                return Ok(false);
            }
            copy.advance_by(token)?;
        }
        Ok(true)
    }

    fn may_end(&mut self) -> Result<bool, ConstraintError> {
        Ok(!matches!(self.state, State::Held(_)))
    }

    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        tokens.iter().try_for_each(|&token| self.advance_by(token))
    }

    fn is_json(&self) -> bool {
        matches!(&self.state, State::Held(form) if form.is_json())
    }

    fn duplicate(&self) -> Box<dyn Constraint> {
        Box::new(self.copy())
    }
}
