//! Tokens that a caller wants more or less often: `logit_bias`.

use decode::{Constraint, ConstraintError, Continuation, Token};

/// Whoever gives a token this much less does not want it at all.
const BANNED: f32 = -100.0;

pub struct Biased {
    form: Option<Box<dyn Constraint>>,
    biases: Vec<(Token, f32)>,
}

impl Biased {
    pub fn new(form: Option<Box<dyn Constraint>>, biases: Vec<(Token, f32)>) -> Self {
        Self { form, biases }
    }
}

impl Constraint for Biased {
    fn continuation(&mut self) -> Result<Continuation, ConstraintError> {
        self.form.as_mut().map_or(Ok(Continuation::Open), |form| form.continuation())
    }

    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        if let Some(form) = &mut self.form {
            form.mask(logits)?;
        }
        for &(token, bias) in &self.biases {
            if let Some(logit) = logits.get_mut(token.index()) {
                *logit += bias;
            }
        }
        Ok(())
    }

    /// The cloud does not know the biases; a word that is not wanted at all is not taken from it.
    fn allows(&mut self, tokens: &[Token]) -> Result<bool, ConstraintError> {
        let banned = |t: &Token| self.biases.iter().any(|b| b.0 == *t && b.1 <= BANNED);
        if tokens.iter().any(banned) {
            return Ok(false);
        }
        self.form.as_mut().map_or(Ok(true), |form| form.allows(tokens))
    }

    fn may_end(&mut self) -> Result<bool, ConstraintError> {
        self.form.as_mut().map_or(Ok(true), |form| form.may_end())
    }

    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        self.form.as_mut().map_or(Ok(()), |form| form.advance(tokens))
    }

    fn is_json(&self) -> bool {
        self.form.as_ref().is_some_and(|form| form.is_json())
    }

    fn duplicate(&self) -> Box<dyn Constraint> {
        Box::new(Self { form: self.form.clone(), biases: self.biases.clone() })
    }
}
