//! The shortest way that is known from a place of a JSON text to its end.

use super::{JsonPosition, closers::Closers};
use crate::{Constraint, ConstraintError, Continuation, Token, Vocabulary};

/// At how many places of a way something new may begin, as far as it is looked at.
const PLACES: usize = 4;

/// Goes to the end of a text on a copy of its constraint.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    closers: &'a Closers,
    vocabulary: &'a dyn Vocabulary,
    constraint: Box<dyn Constraint>,
    json: String,
    tokens: usize,
}

/// How a text may go on.
enum Stand {
    Complete,
    MayEnd,
    MustGoOn,
}

impl<'a> Walk<'a> {
    pub fn new(
        closers: &'a Closers,
        vocabulary: &'a dyn Vocabulary,
        constraint: &dyn Constraint,
        json: &str,
    ) -> Self {
        let constraint = constraint.duplicate();
        Self { closers, vocabulary, constraint, json: json.to_owned(), tokens: 0 }
    }

    /// How many tokens the end takes, also if something is begun on the way to it that may be: a
    /// further element, or a value that has more inside. `None` where that is more than `most`, or no
    /// way is found.
    pub fn needed(self, most: usize) -> Option<usize> {
        self.longest(most).unwrap_or_else(|error| {
            // The text itself may well stay clear of the place where this happened.
            tracing::debug!(%error, "how JSON can be closed is not known");
            None
        })
    }

    fn longest(mut self, most: usize) -> Result<Option<usize>, ConstraintError> {
        let (mut longest, mut places) = (0, 0);
        loop {
            let stand = self.skip_forced(most)?;
            if self.tokens > most {
                return Ok(None);
            }
            if !matches!(stand, Stand::Complete) && places < PLACES && !self.is_in_string() {
                places += 1;
                for beginning in self.closers.beginnings(&mut *self.constraint)? {
                    let mut aside = self.clone();
                    aside.take(&[beginning])?;
                    match aside.shortest(most)? {
                        Some(tokens) => longest = longest.max(tokens),
                        None => return Ok(None),
                    }
                }
            }
            if !matches!(stand, Stand::MustGoOn) {
                return Ok(Some(longest.max(self.tokens)));
            }
            if !self.step()? {
                return Ok(None);
            }
        }
    }

    fn shortest(mut self, most: usize) -> Result<Option<usize>, ConstraintError> {
        loop {
            let stand = self.skip_forced(most)?;
            if self.tokens > most {
                return Ok(None);
            }
            if !matches!(stand, Stand::MustGoOn) {
                return Ok(Some(self.tokens));
            }
            if !self.step()? {
                return Ok(None);
            }
        }
    }

    fn is_in_string(&self) -> bool {
        JsonPosition::behind(&self.json).open_string(&self.json).is_some()
    }

    /// Goes on to where there is a choice.
    fn skip_forced(&mut self, most: usize) -> Result<Stand, ConstraintError> {
        while self.tokens <= most {
            match self.constraint.continuation()? {
                Continuation::Complete => return Ok(Stand::Complete),
                Continuation::Forced(tokens) => self.take(&tokens)?,
                Continuation::Open if self.constraint.may_end()? => return Ok(Stand::MayEnd),
                Continuation::Open => break,
            }
        }
        Ok(Stand::MustGoOn)
    }

    /// One choice; false where there is none.
    fn step(&mut self) -> Result<bool, ConstraintError> {
        let next = match self.closers.choice(&self.json, &mut *self.constraint)? {
            Some(token) => Some(token),
            None => self.closers.any(&mut *self.constraint, self.vocabulary)?,
        };
        let Some(next) = next else { return Ok(false) };
        self.take(&[next])?;
        Ok(true)
    }

    fn take(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        self.constraint.advance(tokens)?;
        self.tokens += tokens.len();
        for &token in tokens {
            self.json += &String::from_utf8_lossy(&self.vocabulary.piece(token));
        }
        Ok(())
    }
}
