//! How to train.

use decode::sampling;
use router::{Inputs, Objective};

use super::{TrainError, fit::Task};
use crate::collect::Sample;

/// How to train.
#[derive(Clone, Debug)]
pub struct Options {
    pub objective: Objective,
    /// What the router sees.
    pub inputs: Inputs,
    /// The same seed gives the same router.
    pub seed: u64,
    /// At most this many passes over the training samples.
    pub epochs: usize,
    /// Samples between two updates of the weights.
    pub batch: usize,
    pub learning_rate: f32,
    /// Of AdamW, for the matrices.
    pub weight_decay: f32,
    /// The share of hidden units left out at each update.
    pub dropout: f32,
    /// Stops after this many epochs without gain on the tuning examples.
    pub patience: usize,
    /// The share of examples the weights never see: half of them tune, half are reported on.
    pub held_out: f32,
    /// Makes both classes count the same, whatever their numbers.
    pub balance: bool,
    /// At most this many training samples; the held-out ones stay the same.
    pub max_samples: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            objective: Objective::Citer,
            inputs: Inputs::Hidden,
            seed: 0,
            epochs: 30,
            batch: 512,
            learning_rate: 1e-3,
            weight_decay: 1e-2,
            dropout: 0.1,
            patience: 5,
            held_out: 0.15,
            balance: true,
            max_samples: None,
        }
    }
}

impl Options {
    pub(super) fn validate(&self) -> Result<(), TrainError> {
        let check = |ok: bool, name, range, given| {
            if ok { Ok(()) } else { Err(TrainError::Option { name, range, given }) }
        };
        let positive = |n: f32| n.is_finite() && n > 0.0;
        check(self.epochs > 0, "epochs", "1 or more", self.epochs as f32)?;
        check(self.batch > 1, "batch", "2 or more", self.batch as f32)?;
        check(self.patience > 0, "patience", "1 or more", self.patience as f32)?;
        check(positive(self.learning_rate), "learning-rate", "above 0", self.learning_rate)?;
        let decay = self.weight_decay;
        check(decay.is_finite() && decay >= 0.0, "weight-decay", "0 or more", decay)?;
        let dropout = self.dropout;
        check((0.0..0.95).contains(&dropout), "dropout", "from 0 to below 0.95", dropout)?;
        let held_out = self.held_out;
        check(held_out > 0.0 && held_out < 1.0, "held-out", "between 0 and 1", held_out)
    }

    /// Draws lots by where a sample is from, so that a smaller training is part of a larger one.
    pub(super) fn limit<'a>(&self, mut tasks: Vec<Task<'a>>) -> Vec<Task<'a>> {
        let Some(max) = self.max_samples else { return tasks };
        if tasks.len() > max {
            let lot = |task: &Task| {
                let Sample { example, position, .. } = *task.sample;
                sampling::hash(self.seed ^ u64::from(example), position as usize)
            };
            tasks.sort_by_cached_key(lot);
            tasks.truncate(max);
        }
        tasks
    }
}
