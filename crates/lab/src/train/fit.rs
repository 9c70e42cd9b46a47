//! The loop: batches, epochs, and when to stop.

use candle_core::{Device, Tensor};

use super::{
    Epoch, Options, TrainError,
    data::Standard,
    fold::Folded,
    network::{Network, Optimisers},
    objective::Target,
    random::Random,
};
use crate::collect::Sample;

/// Rows that are judged at a time.
const LARGE_BATCH: usize = 4096;

#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) sample: &'a Sample,
    pub(super) target: Target,
}

pub(super) struct Fitted {
    pub(super) folded: Folded,
    /// The network's outputs for the tuning samples.
    pub(super) outputs: Vec<f32>,
}

#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) training: &'a [Task<'a>],
    pub(super) tuning: &'a [Task<'a>],
    pub(super) standard: &'a Standard,
}

/// Fits a network to the training samples until it no longer gets better on the tuning ones.
pub(super) fn fit(
    problem: Problem,
    hidden: usize,
    options: &Options,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Fitted, TrainError> {
    let Problem { training, tuning, standard } = problem;
    let weights = Weights::new(training, options.balance);
    let mut random = Random::new(options.seed);
    let mut network = Network::new(standard.width(), hidden, &mut random)?;
    let mut optimisers = Optimisers::new(&network, options.learning_rate)?;
    let mut order: Vec<Task> = training.to_vec();
    let mut best: Option<(f64, Fitted)> = None;
    let mut without_gain = 0;
    for number in 1..=options.epochs {
        random.shuffle(&mut order);
        let mut training_loss = Mean::default();
        // A small last batch would have poor statistics; another epoch leaves out others.
        let whole =
            (order.len() / options.batch * options.batch).max(order.len().min(options.batch));
        for batch in order[..whole].chunks(options.batch) {
            let x = tensor(standard, batch)?;
            let z = network.learn(&x, &mut random)?;
            let gradients = weights.judge(batch, &z.to_vec1()?, &mut training_loss);
            // The slope of this sum at z is the gradient of the loss.
            let gradient = Tensor::from_vec(gradients, batch.len(), &Device::Cpu)?;
            optimisers.step(&(z * gradient)?.sum_all()?.backward()?)?;
        }
        let mut outputs = Vec::with_capacity(tuning.len());
        let mut tuning_loss = Mean::default();
        for batch in tuning.chunks(LARGE_BATCH) {
            let z = network.apply(&tensor(standard, batch)?)?;
            weights.judge(batch, &z, &mut tuning_loss);
            outputs.extend(z);
        }
        let loss = tuning_loss.value();
        if !loss.is_finite() {
            return Err(TrainError::Diverged { epoch: number });
        }
        let better = best.as_ref().is_none_or(|(least, _)| loss < *least);
        progress(Epoch {
            number,
            training_loss: training_loss.value() as f32,
            tuning_loss: loss as f32,
            best: better,
        });
        if better {
            without_gain = 0;
            best = Some((loss, Fitted { folded: Folded::new(&network, standard)?, outputs }));
        } else {
            without_gain += 1;
            if without_gain >= options.patience {
                break;
            }
        }
    }
    best.map(|(_, fitted)| fitted).ok_or(TrainError::Diverged { epoch: 0 })
}

fn tensor(standard: &Standard, batch: &[Task]) -> candle_core::Result<Tensor> {
    let rows = standard.rows(batch.iter().map(|task| task.sample));
    Tensor::from_vec(rows, (batch.len(), standard.width()), &Device::Cpu)
}

/// How much a sample of each class counts.
struct Weights {
    keep: f64,
    ask: f64,
}

impl Weights {
    fn new(training: &[Task], balance: bool) -> Self {
        let count = |keep| training.iter().filter(|t| t.target == Target::Keep(keep)).count();
        let (keep, ask) = (count(true) as f64, count(false) as f64);
        if balance && keep > 0.0 && ask > 0.0 {
            let half = (keep + ask) / 2.0;
            Self { keep: half / keep, ask: half / ask }
        } else {
            Self { keep: 1.0, ask: 1.0 }
        }
    }

    fn of(&self, target: Target) -> f64 {
        match target {
            Target::Keep(true) => self.keep,
            Target::Keep(false) => self.ask,
            Target::Mixture { .. } => 1.0,
        }
    }

    /// Adds a batch to a mean loss, and returns that batch's gradient for each output.
    fn judge(&self, batch: &[Task], outputs: &[f32], mean: &mut Mean) -> Vec<f32> {
        let (mut loss, mut weight) = (0.0, 0.0);
        let mut gradients = Vec::with_capacity(batch.len());
        for (task, &z) in batch.iter().zip(outputs) {
            let (one, w) = (task.target.loss(z), self.of(task.target));
            loss += w * one.value;
            weight += w;
            gradients.push((w * one.gradient / batch.len() as f64) as f32);
        }
        mean.sum += loss;
        mean.weight += weight;
        gradients
    }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn value(&self) -> f64 {
        self.sum / self.weight
    }
}
