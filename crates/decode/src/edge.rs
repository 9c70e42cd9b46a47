//! The trait of the small model on this device.

use std::{error::Error, future::Future, sync::Arc};

use thiserror::Error;

use crate::{Step, Token, Vocabulary};

/// The small model failed. There is nothing to fall back on, so the session ends.
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
    /// The model's tokenizer, shared because it outlives single steps.
    fn vocabulary(&self) -> Arc<dyn Vocabulary>;

    /// The largest number of tokens that the cache can hold.
    fn context(&self) -> usize;

    /// The tokens that are in the cache now.
    fn held(&self) -> &[Token];

    /// Truncates the cache to the longest common prefix with `context`; returns its length.
    fn keep_common(&mut self, context: &[Token]) -> usize;

    /// Reads accepted tokens, at least one, and returns the model's view of the next position.
    fn step(&mut self, unread: &[Token]) -> impl Future<Output = Result<Step, EdgeError>> + Send;

    /// A second cache that holds the first `keep` tokens of this one, to write on in another way. Steps of
    /// both that are made at once are read in one batch. `None` where the engine cannot.
    fn fork(&mut self, _keep: usize) -> impl Future<Output = Option<Self>> + Send
    where
        Self: Sized,
    {
        std::future::ready(None)
    }

    /// Reads tokens that are all known beforehand and returns a step for the position after each.
    /// Engines that can batch them override this.
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
