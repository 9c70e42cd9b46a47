//! The trait of everything that scores the edge's proposals.

use std::ops::Deref;

use crate::{Score, Step};

/// Says how far the edge's proposal can be trusted.
///
/// The score comes from the raw logits and the hidden state alone: it does not depend on
/// temperature, penalties or the draw.
pub trait Router: Send + Sync {
    /// Trust in the step's proposed token. It runs at every token, so it must be quick.
    fn score(&self, step: &Step) -> Score;
}

/// References and smart pointers to a router score as it does.
impl<P: Deref<Target: Router> + Send + Sync> Router for P {
    fn score(&self, step: &Step) -> Score {
        (**self).score(step)
    }
}
