//! A router that keeps a record of what it judged.

use std::sync::{Arc, Mutex, PoisonError};

use decode::{Message, Router, Score, Step};
use tandem::Tandem;

use crate::{
    Error,
    worker::{Decoding, Worker},
};

type Keep<T> = dyn Fn(&Step, Score) -> T + Send + Sync;

/// Judges as another router does, and keeps something of every position in their order.
pub struct Recorder<T> {
    router: Box<dyn Router>,
    keep: Box<Keep<T>>,
    kept: Mutex<Vec<T>>,
}

impl<T> Recorder<T> {
    /// Keeps what `keep` makes of a position and its score.
    pub fn new(
        router: Box<dyn Router>,
        keep: impl Fn(&Step, Score) -> T + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { router, keep: Box::new(keep), kept: Mutex::default() })
    }

    /// What was kept since the last time.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Send> Router for Recorder<T> {
    fn score(&self, step: &Step) -> Score {
        let score = self.router.score(step);
        let kept = (self.keep)(step, score);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        score
    }
}

/// The tokens of an answer the edge writes alone, each with the score a router gives it.
pub async fn scored_answer(
    tandem: &Tandem,
    router: Box<dyn Router>,
    messages: &[Message],
    max_tokens: usize,
) -> Result<Vec<(String, f32)>, Error> {
    let recorder = Recorder::new(router, |_, score| score.value());
    let decoding = Decoding::edge_alone(recorder.clone(), max_tokens);
    let text = Worker::new(tandem).await?.decode(messages, vec![], decoding).await?;
    Ok(text.shown().iter().map(|token| token.text.clone()).zip(recorder.take()).collect())
}

#[cfg(test)]
mod tests {
    use decode::{Reading, Token};

    use super::*;

    #[test]
    fn every_position_is_kept_in_order_and_judged_as_before() {
        let recorder = Recorder::new(Box::new(router::Top1), |step, score| {
            (step.position, score.value() > 0.5)
        });
        let step = |position, lead: f32| {
            let (hidden, reading) = (vec![], Reading::default());
            Step { position, logits: vec![lead, 0.0], hidden, proposed: Token(0), reading }
        };
        for (position, lead) in [(4, 9.0), (5, 0.0)] {
            let judged = recorder.score(&step(position, lead)).value();
            let alone = router::Top1.score(&step(position, lead)).value();
            assert_eq!(judged, alone);
        }
        assert_eq!(recorder.take(), [(4, true), (5, false)]);
        assert!(recorder.take().is_empty());
    }
}
