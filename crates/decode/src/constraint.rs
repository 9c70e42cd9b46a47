//! The trait of everything that holds a text to a form, such as a JSON schema.
//!
//! A constraint knows at every position which tokens may come next. What is forced is written
//! without a step of the edge and is never asked for; elsewhere the edge's logits are masked before
//! they are scored, so that the router judges what is left. The cloud's answer is checked by the same
//! constraint.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use crate::Token;

/// The constraint cannot say what may come next: for example, it has become too complex to follow.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the grammar cannot be followed any further: {0}")]
pub struct ConstraintError(pub String);

/// What may come at the next position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// Several tokens: a model has to choose.
    Open,
    /// These tokens, at least one, and nothing else.
    Forced(Vec<Token>),
    /// Nothing: the text is complete.
    Complete,
}

/// What a constraint had to do with a token: nothing else could come here; what the cloud wrote could not
/// come, and this is the edge's best; or it closes JSON that would reach its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Constrained {
    /// Nothing else could come here, so no model was asked.
    Forced,
    /// The edge's best token that may come, because the cloud's answer may not.
    Replaced,
    /// A token that closes JSON, because the text would reach its limit otherwise.
    Closed,
}

/// Holds one text to a form. It is a value: a clone goes its own way from the same position, which is
/// how a caller returns to an earlier one.
pub trait Constraint: Send + Sync {
    /// What may come at the next position.
    fn continuation(&mut self) -> Result<Continuation, ConstraintError>;

    /// Makes every token that may not come next impossible: its logit becomes negative infinity.
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError>;

    /// Whether the text may go on with all of these tokens, in this order.
    fn allows(&mut self, tokens: &[Token]) -> Result<bool, ConstraintError>;

    /// Whether the text may end here.
    fn may_end(&mut self) -> Result<bool, ConstraintError>;

    /// Goes on behind tokens that were accepted.
    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError>;

    /// Whether the text is JSON here, which has to be closed before its limit.
    fn is_json(&self) -> bool {
        false
    }

    /// The same constraint at the same position.
    fn duplicate(&self) -> Box<dyn Constraint>;
}

impl fmt::Debug for dyn Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Constraint")
    }
}

impl Clone for Box<dyn Constraint> {
    fn clone(&self) -> Self {
        self.duplicate()
    }
}

/// How much of a text of the cloud's may be tried: all of it first, then with fewer and fewer of the
/// signs and blanks at its end. A large model that is not held to the form itself often joins the end
/// of a value to what it would write behind it, such as `",` and a new line.
pub(crate) fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    let shorter = text.char_indices().rev().take_while(|(_, c)| !c.is_alphanumeric());
    std::iter::once(text).chain(shorter.map(|(end, _)| &text[..end])).filter(|t| !t.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signs_and_blanks_at_the_end_are_left_out() {
        let tried: Vec<_> = beginnings("Paris\",\n").collect();
        assert_eq!(tried, ["Paris\",\n", "Paris\",", "Paris\"", "Paris"]);
        assert_eq!(beginnings("12").collect::<Vec<_>>(), ["12"]);
        assert_eq!(beginnings("\"}").collect::<Vec<_>>(), ["\"}", "\""]);
        assert_eq!(beginnings("").count(), 0);
    }
}
