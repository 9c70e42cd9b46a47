//! From samples to a router file.
//!
//! The way of the samples, and the module that holds each part of it:
//!
//! - [`split`]: which examples are for what
//! - `objective`: what is learnt from a sample, and how wrong an output is
//! - `data`: rows of standardised numbers
//! - `network`: the network; `fit`: the loop that trains it
//! - `platt`: outputs become probabilities
//! - `fold`: everything becomes three affine maps
//! - `judge`: how good they are
//!
//! The same samples, options and number of threads give the same file, byte for byte.

mod data;
mod fit;
mod fold;
mod judge;
mod network;
mod objective;
mod platt;
mod random;
pub mod split;

use std::collections::{HashMap, HashSet};

use decode::sampling;
use thiserror::Error;

use self::{
    data::Standard,
    fit::{Task, fit},
    judge::{calibrate, shares},
    platt::Platt,
};
use crate::{
    file::{Flaw, RouterFile},
    metadata::{FORMAT, Inputs, Metadata, Objective, Point, Report},
    metrics::{
        Bin, RocPoint, auc, average_precision, calibration_bins, expected_calibration_error,
        log_loss, roc,
    },
    mlp::Mlp,
    sample::Sample,
};

pub use split::{Part, split};

/// Bins of the calibration curve.
const BINS: usize = 10;

/// How to train.
#[derive(Clone, Debug)]
pub struct Options {
    /// What for.
    pub objective: Objective,
    /// What the router sees.
    pub inputs: Inputs,
    /// The same seed gives the same router.
    pub seed: u64,
    /// At most this many passes over the training samples.
    pub epochs: usize,
    /// Samples between two updates of the weights.
    pub batch: usize,
    /// Of AdamW.
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

/// What the samples are from.
#[derive(Clone, Debug)]
pub struct About {
    /// The length of the model's hidden state.
    pub hidden: usize,
    /// The fingerprint of the model and its adapters.
    pub model: String,
    /// The model's name.
    pub model_name: String,
    /// A digest of the samples.
    pub data: String,
    /// Whether positions are every token rather than word boundaries.
    pub ids: bool,
}

/// One pass over the training samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// From 1.
    pub number: usize,
    /// Mean loss while learning.
    pub training_loss: f32,
    /// Mean loss on the tuning examples afterwards.
    pub tuning_loss: f32,
    /// Whether that was the least so far.
    pub best: bool,
}

/// What training gives.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The router.
    pub file: RouterFile,
    /// How it does on the report examples.
    pub curves: Curves,
    /// The share of positions asked at for thresholds 0.1 to 0.9, on the report examples.
    pub shares: Vec<Point>,
    /// How training went.
    pub epochs: Vec<Epoch>,
    /// The largest difference between a score of the file and of the network it was made from, on
    /// the tuning examples: what half precision costs.
    pub rounding: f32,
}

/// Curves to look at; see [`plot`](crate::plot).
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Trusting what can be trusted, against trusting what cannot.
    pub roc: Vec<RocPoint>,
    /// Scores against what was so.
    pub calibration: Vec<Bin>,
}

/// Why there is no router.
#[derive(Debug, Error)]
pub enum TrainError {
    /// A setting outside its range.
    #[error("{name} must be {range}, not {given}")]
    Option {
        /// The setting.
        name: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it was.
        given: f32,
    },
    /// Nothing to learn from.
    #[error(
        "none of the {all} samples can be used for {objective}: collect samples with what it needs \
         ({}), or choose another objective", needs(*.objective)
    )]
    NoSamples {
        /// How many there are in all.
        all: usize,
        /// What they were for.
        objective: Objective,
    },
    /// Too few to hold some out.
    #[error(
        "the samples are from {found} examples, and at least {wanted} are needed: collect more"
    )]
    FewExamples {
        /// How many there are.
        found: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// Nothing to tell apart.
    #[error(
        "all {found} usable samples of the {part} examples say {class}: collect more examples, or \
         from where the edge is right at some positions and wrong at others"
    )]
    OneClass {
        /// Training, tuning or report.
        part: &'static str,
        /// How many there are.
        found: usize,
        /// Trust or ask.
        class: &'static str,
    },
    /// Samples of different models.
    #[error(
        "example {example}, position {position} has a hidden state of {found} numbers where the \
         model's has {wanted}: train with the samples of one model only"
    )]
    HiddenSize {
        /// Where.
        example: u32,
        /// Where in it.
        position: u32,
        /// The sample's.
        found: usize,
        /// The model's.
        wanted: usize,
    },
    /// Inputs that are no numbers.
    #[error(
        "example {example}, position {position} holds numbers that are not finite: the model's file \
         or its adapter is damaged; leave this example out or collect again"
    )]
    NotFinite {
        /// Where.
        example: u32,
        /// Where in it.
        position: u32,
    },
    /// The loss is no number any more.
    #[error("training lost its way in epoch {epoch}: choose a lower learning rate")]
    Diverged {
        /// When.
        epoch: usize,
    },
    /// Tensors could not be computed.
    #[error("training failed: {0}")]
    Tensors(#[from] candle_core::Error),
    /// The weights make no router.
    #[error("the trained router {0}")]
    Router(#[from] Flaw),
}

fn needs(objective: Objective) -> &'static str {
    match objective {
        Objective::Citer => "labels trust and ask",
        Objective::CiterS => "labels trust and ask that need no roll-out",
        Objective::CoLlm => "log-probabilities of both models",
        Objective::Agree => "whether the cloud agrees",
    }
}

/// Trains a router. Calls `progress` after each epoch.
pub fn train(
    samples: &[Sample],
    about: About,
    options: &Options,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Trained, TrainError> {
    options.validate()?;
    let objective = options.objective;
    if !samples.iter().any(|sample| objective.target(sample).is_some()) {
        return Err(TrainError::NoSamples { all: samples.len(), objective });
    }
    data::check(samples, about.hidden)?;
    let parts = split(samples.iter().map(|s| s.example), options.held_out, options.seed)?;
    let training = options.limit(tasks(samples, &parts, Part::Training, objective));
    let tuning = tasks(samples, &parts, Part::Tuning, objective);
    both_classes("training", objective, training.iter().map(|task| task.sample))?;
    both_classes("tuning", objective, tuning.iter().map(|task| task.sample))?;
    let reported: Vec<&Sample> = samples.iter().filter(|s| is(&parts, s, Part::Report)).collect();
    both_classes("report", objective, reported.iter().copied())?;

    let fitted_to: Vec<&Sample> = training.iter().map(|task| task.sample).collect();
    let width = options.inputs.width(about.hidden).unwrap_or(about.hidden);
    let standard = Standard::measure(options.inputs, width, &fitted_to);
    let mut epochs = vec![];
    let fitted = fit(&training, &tuning, &standard, about.hidden, options, &mut |epoch| {
        epochs.push(epoch);
        progress(epoch);
    })?;

    let known = tuning.iter().zip(&fitted.outputs);
    let known = known.filter_map(|(task, &z)| Some((z, objective.truth(task.sample)?)));
    let (outputs, truths): (Vec<f32>, Vec<bool>) = known.unzip();
    let platt = Platt::fit(&outputs, &truths);
    let layers = fitted.folded.scaled(platt);

    let metadata = Metadata {
        format: FORMAT,
        hidden: about.hidden,
        inputs: options.inputs,
        model: about.model,
        model_name: about.model_name,
        objective,
        data: about.data,
        ids: about.ids,
        calibration: Default::default(),
        report: Report {
            samples: training.len(),
            examples: fitted_to.iter().map(|s| s.example).collect::<HashSet<_>>().len(),
            held_out: 0,
            loss: 0.0,
            auc: 0.0,
            average_precision: 0.0,
            ece: 0.0,
        },
    };
    let unjudged = RouterFile::new(metadata.clone(), layers.clone())?;
    let mlp = Mlp::new(&unjudged);
    let score = |sample: &Sample| mlp.score_sample(sample).value();
    let pairs = tuning.iter().zip(&fitted.outputs);
    let rounding = pairs.map(|(task, &z)| (score(task.sample) - platt.score(z)).abs());
    let rounding = rounding.fold(0.0, f32::max);

    let reported_scores: Vec<f32> = reported.iter().map(|sample| score(sample)).collect();
    let tuned = samples.iter().filter(|s| is(&parts, s, Part::Tuning)).map(score);
    let held_out: Vec<f32> = tuned.chain(reported_scores.iter().copied()).collect();
    let known = reported.iter().zip(&reported_scores);
    let known = known.filter_map(|(sample, &score)| Some((score, objective.truth(sample)?)));
    let (scores, truths): (Vec<f32>, Vec<bool>) = known.unzip();
    let doubts: Vec<f32> = scores.iter().map(|score| 1.0 - score).collect();
    let asks: Vec<bool> = truths.iter().map(|truth| !truth).collect();
    let report = Report {
        held_out: scores.len(),
        loss: log_loss(&scores, &truths),
        auc: auc(&scores, &truths).unwrap_or(0.5),
        average_precision: average_precision(&doubts, &asks).unwrap_or(0.0),
        ece: expected_calibration_error(&scores, &truths, BINS),
        ..metadata.report
    };
    let metadata = Metadata { calibration: calibrate(&held_out), report, ..metadata };
    Ok(Trained {
        file: RouterFile::new(metadata, layers)?,
        curves: Curves {
            roc: roc(&scores, &truths),
            calibration: calibration_bins(&scores, &truths, BINS),
        },
        shares: shares(&reported_scores),
        epochs,
        rounding,
    })
}

fn is(parts: &HashMap<u32, Part>, sample: &Sample, part: Part) -> bool {
    parts.get(&sample.example) == Some(&part)
}

fn tasks<'a>(
    samples: &'a [Sample],
    parts: &HashMap<u32, Part>,
    part: Part,
    objective: Objective,
) -> Vec<Task<'a>> {
    let of_part = samples.iter().filter(|sample| is(parts, sample, part));
    let task = |sample| Some(Task { sample, target: objective.target(sample)? });
    of_part.filter_map(task).collect()
}

fn both_classes<'a>(
    part: &'static str,
    objective: Objective,
    samples: impl Iterator<Item = &'a Sample>,
) -> Result<(), TrainError> {
    let truths: Vec<bool> = samples.filter_map(|sample| objective.truth(sample)).collect();
    let trusted = truths.iter().filter(|&&truth| truth).count();
    if trusted > 0 && trusted < truths.len() {
        return Ok(());
    }
    let class = if trusted > 0 { "trust" } else { "ask" };
    Err(TrainError::OneClass { part, found: truths.len(), class })
}

impl Options {
    fn validate(&self) -> Result<(), TrainError> {
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

    /// The same samples whatever their order would be better, but their order is part of the data.
    fn limit<'a>(&self, mut tasks: Vec<Task<'a>>) -> Vec<Task<'a>> {
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

#[cfg(test)]
pub(crate) mod tests;
