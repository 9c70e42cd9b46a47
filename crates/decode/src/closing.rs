//! JSON that is closed before its limit is reached: a small model can go on with a string, a number or
//! a list for ever, and what is cut off is no JSON.
//!
//! How much the end takes is measured, not guessed: a copy of the constraint is led to its end on the
//! shortest way that is known, past everything that the form still requires. The text is closed on that
//! same way as soon as little more than that is left.

mod closers;
mod walk;

use self::{closers::Closers, walk::Walk};
use crate::{Constraint, ConstraintError, Token, Vocabulary};

/// Tokens that are left over where a text is closed, at most: the models go on until then in words that
/// are longer or shorter than those that were measured.
const RESERVE: usize = 10;

/// How many tokens are kept where no way to the end is known, at most.
const MOST_KEPT: usize = 40;

/// Nothing is measured while there is room for more than this, and for more than a quarter of the text.
const WATCHED: usize = 256;

/// Where a JSON text stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonPosition {
    in_string: bool,
    /// Where the string begins that is open, behind its quote.
    string: usize,
}

impl JsonPosition {
    /// Behind a text.
    pub fn behind(json: &str) -> Self {
        let (mut position, mut escaped) = (Self::default(), false);
        for (i, byte) in json.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if position.in_string => escaped = true,
                b'"' if position.in_string => position = Self::default(),
                b'"' => position = Self { in_string: true, string: i + 1 },
                _ => {}
            }
        }
        position
    }

    /// The string that is open, as far as it is written.
    fn open_string(self, json: &str) -> Option<&str> {
        json.get(self.string..).filter(|_| self.in_string)
    }
}

/// A text, and how much of it there may still be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub text: &'a str,
    pub tokens: usize,
    /// Tokens that may still come.
    pub room: usize,
}

impl Written<'_> {
    /// What is JSON of it: all of it, or what follows the last `<tool_call>`.
    fn json(&self) -> &str {
        self.text.rsplit("<tool_call>").next().unwrap_or_default()
    }

    fn limit(&self) -> usize {
        self.tokens + self.room
    }
}

/// What the end takes, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Tokens to the end, also behind what may be begun next; `None` where no way was found.
    needed: Option<usize>,
    /// The room there was.
    room: usize,
}

/// Watches over the end of a text.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// Made when they are first needed.
    closers: Option<Closers>,
    measured: Option<Measured>,
}

impl Closing {
    /// Leaves only what brings the text nearer to its end, if that has come; says whether.
    pub fn narrow(
        &mut self,
        written: Written<'_>,
        constraint: &mut dyn Constraint,
        vocabulary: &dyn Vocabulary,
        logits: &mut [f32],
    ) -> Result<bool, ConstraintError> {
        if written.room > WATCHED.max(written.limit() / 4) {
            return Ok(false);
        }
        let closers = &*self.closers.get_or_insert_with(|| Closers::new(vocabulary));
        let reserve = RESERVE.min(written.limit() / 4);
        let measured = match self.measured {
            // Little can have changed so far from the end.
            Some(known) if known.room.saturating_sub(written.room) < pause(known, reserve) => known,
            _ => {
                let walk = Walk::new(closers, vocabulary, constraint, written.json());
                let needed = walk.needed(2 * written.room + WATCHED);
                *self.measured.insert(Measured { needed, room: written.room })
            }
        };
        let due = match measured.needed {
            Some(needed) => written.room < needed + reserve,
            None => written.room <= MOST_KEPT.min(written.limit() / 4),
        };
        if !due {
            return Ok(false);
        }
        let possible = |index: usize| logits.get(index).is_some_and(|logit| logit.is_finite());
        let kept: Vec<usize> = if constraint.may_end()? {
            let ends = |i: &usize| possible(*i) && vocabulary.is_end(Token(*i as u32));
            (0..logits.len()).filter(ends).collect()
        } else {
            let choices = closers.choices(written.json(), constraint)?;
            choices.iter().map(|token| token.index()).filter(|&i| possible(i)).collect()
        };
        if kept.is_empty() {
            // An end that a model has to find itself, such as that of a word out of a list.
            return Ok(false);
        }
        let kept: Vec<(usize, f32)> =
            kept.into_iter().map(|index| (index, logits[index])).collect();
        logits.fill(f32::NEG_INFINITY);
        kept.into_iter().for_each(|(index, logit)| logits[index] = logit);
        Ok(true)
    }
}

/// How many tokens may come before it is measured again: fewer, the nearer the place is where the text is
/// closed, and from there on the nearer its end is. So all walks of a text together are a few times as
/// long as the longest.
fn pause(known: Measured, reserve: usize) -> usize {
    let needed = known.needed.unwrap_or(0);
    let far = match known.room.saturating_sub(needed + reserve) {
        0 => needed,
        slack => slack,
    };
    (far / 8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_told_from_what_stands_around_them() {
        for (json, open) in [
            ("", None),
            ("{\"a\": [1, {\"b", Some("b")),
            ("{\"a}]\\\"", Some("a}]\\\"")),
            ("{\"a\": \"\\\\\"", None),
            ("{\"a\": \"", Some("")),
        ] {
            assert_eq!(JsonPosition::behind(json).open_string(json), open, "{json}");
        }
        let written = Written { text: "\"quoted\" text <tool_call>\n{\"x\": ", tokens: 9, room: 3 };
        assert_eq!((written.json(), written.limit()), ("\n{\"x\": ", 12));
    }

    #[test]
    fn the_end_is_measured_more_often_the_nearer_it_is() {
        let after = |room, needed| pause(Measured { needed: Some(needed), room }, 10);
        assert_eq!((after(250, 0), after(90, 40), after(30, 20), after(5, 90)), (30, 5, 2, 11));
    }
}
