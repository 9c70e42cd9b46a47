//! Holding a text to a form, within the loop: what may come next is all that is proposed, and all that
//! is taken from the cloud.

use crate::{
    Cloud, Constrained, Constraint, ConstraintError, Continuation, Edge, Router, SamplingError,
    Session, SessionError, Step, Token,
    closing::{Closing, Written},
    constraint, sampling,
    trace::Span,
    transcript::NewTokens,
};

/// What a text is held to, standing behind the last accepted token.
pub(crate) struct Form {
    constraint: Box<dyn Constraint>,
    /// Closes JSON before its limit.
    end: Closing,
    /// Whether JSON is being closed at this place because little room is left.
    closing: bool,
}

impl Form {
    pub fn new(constraint: Box<dyn Constraint>) -> Self {
        Self { constraint, end: Closing::default(), closing: false }
    }

    /// Goes on behind tokens that were accepted.
    pub fn advance(&mut self, accepted: &[Token]) -> Result<(), ConstraintError> {
        self.constraint.advance(accepted)
    }
}

impl<E: Edge, R: Router, C: Cloud> Session<E, R, C> {
    pub(crate) fn continuation(&mut self) -> Result<Continuation, SessionError> {
        match &mut self.form {
            Some(form) => Ok(form.constraint.continuation()?),
            None => Ok(Continuation::Open),
        }
    }

    /// Whether JSON is being closed at this place because little room is left.
    pub(crate) fn is_closing(&self) -> bool {
        self.form.as_ref().is_some_and(|form| form.closing)
    }

    /// Accepts tokens that no model has to be asked for. The edge reads them before its next step.
    pub(crate) fn force(&mut self, tokens: Vec<Token>) -> Result<Span, SessionError> {
        let logprob = self.details.map(|_| 0.0);
        let tokens = tokens.into_iter().map(|token| self.piece(token, logprob)).collect();
        let constrained = Some(Constrained::Forced);
        self.accept(NewTokens { tokens, constrained, ..NewTokens::default() })
    }

    /// Leaves only what may come next, and proposes the best of it.
    pub(crate) fn mask(&mut self, step: &mut Step) -> Result<(), SessionError> {
        let Some(form) = &mut self.form else { return Ok(()) };
        form.constraint.mask(&mut step.logits)?;
        form.closing = false;
        if form.constraint.is_json() {
            let left = self.edge.context().saturating_sub(self.read);
            let written = Written {
                text: self.transcript.accepted_text(),
                tokens: self.transcript.tokens().len(),
                // A text ends with the context, too.
                room: self.transcript.room().min(left),
            };
            let (vocabulary, logits) = (&*self.vocabulary, &mut step.logits);
            form.closing = form.end.narrow(written, &mut *form.constraint, vocabulary, logits)?;
        }
        step.proposed = sampling::argmax(&step.logits).ok_or(SamplingError::NotANumber)?;
        Ok(())
    }

    /// As much of what the cloud wrote as may come next; where none of it may, the edge's own choice.
    pub(crate) fn fit(
        &mut self,
        written: NewTokens,
        step: &Step,
    ) -> Result<NewTokens, SessionError> {
        let tokens: Vec<_> = written.tokens.iter().filter_map(|piece| piece.id).collect();
        Ok(match self.fitting(tokens.clone())? {
            Some(fitting) if fitting == tokens => written,
            Some(fitting) => {
                let tokens = fitting.into_iter().map(|t| self.piece(t, None)).collect();
                NewTokens { tokens, ..written }
            }
            None => {
                let (constrained, usage) = (Some(Constrained::Replaced), written.usage);
                NewTokens { constrained, usage, ..self.keep(step)? }
            }
        })
    }

    /// As much of the cloud's tokens as may come next; `None` where they may not.
    fn fitting(&mut self, tokens: Vec<Token>) -> Result<Option<Vec<Token>>, ConstraintError> {
        let Some(Form { constraint, .. }) = &mut self.form else { return Ok(Some(tokens)) };
        if tokens.is_empty() {
            return Ok(constraint.may_end()?.then_some(tokens));
        }
        if constraint.allows(&tokens)? {
            return Ok(Some(tokens));
        }
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| self.vocabulary.piece(t)).collect();
        let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
        for beginning in constraint::beginnings(&text).skip(1) {
            let tokens = self.vocabulary.encode(beginning);
            if constraint.allows(&tokens)? {
                return Ok(Some(tokens));
            }
        }
        Ok(None)
    }
}
