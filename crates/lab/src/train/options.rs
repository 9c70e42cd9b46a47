//! How to train.

use router::{Inputs, Objective};

use super::TrainError;

#[derive(Clone, Debug)]
pub struct Options {
    pub objective: Objective,
    pub inputs: Inputs,
    /// The same seed gives the same router.
    pub seed: u64,
    /// At most this many passes over the training samples.
    pub epochs: usize,
    /// Samples between two updates of the weights.
    pub batch: usize,
    pub learning_rate: f32,
    /// Stops after this many epochs without gain on the tuning examples.
    pub patience: usize,
    /// The share of examples the weights never see: half of them tune, half are reported on.
    pub held_out: f32,
    /// Makes both classes count the same, whatever their numbers.
    pub balance: bool,
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
            patience: 5,
            held_out: 0.15,
            balance: true,
        }
    }
}

impl Options {
    pub(super) fn validate(&self) -> Result<(), TrainError> {
        let check = |ok: bool, name, range, given| {
            if ok { Ok(()) } else { Err(TrainError::Option { name, range, given }) }
        };
        if self.inputs == Inputs::HiddenLogitsTokens {
            return Err(TrainError::Inputs(self.inputs));
        }
        let rate = self.learning_rate;
        check(self.epochs > 0, "epochs", "1 or more", self.epochs as f32)?;
        check(self.batch > 1, "batch", "2 or more", self.batch as f32)?;
        check(self.patience > 0, "patience", "1 or more", self.patience as f32)?;
        check(rate > 0.0 && rate <= 1.0, "learning-rate", "above 0 and at most 1", rate)?;
        let held_out = self.held_out;
        check(held_out > 0.0 && held_out < 1.0, "held-out", "between 0 and 1", held_out)
    }
}
