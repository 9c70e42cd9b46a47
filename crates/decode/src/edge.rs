//! The seam to the small model on this device.

use std::{error::Error, future::Future, sync::Arc};

use thiserror::Error;

use crate::{Step, Token, Vocabulary};

/// Why the edge gave no step. Without its edge a session cannot go on.
#[derive(Debug, Error)]
#[error("the edge model failed")]
pub struct EdgeError(#[source] Box<dyn Error + Send + Sync>);

impl EdgeError {
    /// Wraps the engine's own error.
    pub fn new(source: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }
}

/// The small model and its cache of one context.
pub trait Edge: Send {
    /// Its tokenizer.
    fn vocabulary(&self) -> Arc<dyn Vocabulary>;

    /// How many tokens its context holds.
    fn context(&self) -> usize;

    /// What its cache holds.
    fn held(&self) -> &[Token];

    /// Keeps what the cache shares with `context` and forgets the rest; returns how many tokens
    /// are kept.
    fn keep_common(&mut self, context: &[Token]) -> usize;

    /// Reads accepted tokens, at least one, and looks at the next position.
    fn step(&mut self, unread: &[Token]) -> impl Future<Output = Result<Step, EdgeError>> + Send;

    /// Reads tokens that are known beforehand, and looks at the position behind each of them.
    fn steps(
        &mut self,
        unread: &[Token],
    ) -> impl Future<Output = Result<Vec<Step>, EdgeError>> + Send {
        async move {
            let mut steps = Vec::with_capacity(unread.len());
            for token in unread {
                steps.push(self.step(std::slice::from_ref(token)).await?);
            }
            Ok(steps)
        }
    }
}

impl<E: Edge> Edge for &mut E {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        (**self).vocabulary()
    }

    fn context(&self) -> usize {
        (**self).context()
    }

    fn held(&self) -> &[Token] {
        (**self).held()
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        (**self).keep_common(context)
    }

    fn step(&mut self, unread: &[Token]) -> impl Future<Output = Result<Step, EdgeError>> + Send {
        (**self).step(unread)
    }

    fn steps(
        &mut self,
        unread: &[Token],
    ) -> impl Future<Output = Result<Vec<Step>, EdgeError>> + Send {
        (**self).steps(unread)
    }
}
