//! From samples to a router file.
//!
//! The way of the samples, and the module that holds each part of it:
//!
//! - `gather`: samples of several collections
//! - [`mod@split`]: which examples are for what
//! - `objective`: what is learnt from a sample, and how wrong an output is
//! - `data`: rows of standardised numbers
//! - `network`: the network; `fit`: the loop that trains it
//! - `platt`: outputs become probabilities
//! - `fold`: everything becomes three affine maps
//! - `judge`: how good they are
//!
//! The same samples, options and number of threads give the same file, byte for byte.

mod data;
mod error;
mod fit;
mod fold;
mod gather;
mod judge;
mod network;
mod objective;
mod options;
mod platt;
pub mod plot;
mod random;
pub mod split;

use decode::Exchange;
use router::{Metadata, Mlp, Objective, Point, RouterFile};

use self::{
    data::Standard,
    fit::{Problem, Task, fit},
    judge::{calibrate, curves, report, shares},
    objective::{target, truth},
    platt::Platt,
};
use crate::{
    collect::{Collection, LabelSource, Sample},
    statistics::{Bin, RocPoint, Scored},
};

pub use error::TrainError;
pub use gather::gather;
pub use options::Options;
pub use split::{Part, split};

#[derive(Clone, Debug)]
pub struct SampleOrigin {
    pub hidden: usize,
    /// The fingerprint of the model and its adapters.
    pub model: String,
    pub model_name: String,
    /// A digest of the samples.
    pub data: String,
    /// Whether positions are every token rather than word boundaries.
    pub ids: bool,
}

impl SampleOrigin {
    /// Of samples of several collections with these digests, of which this is one.
    pub fn new(collection: &Collection, digests: &[String]) -> Self {
        let info = collection.info();
        Self {
            hidden: info.hidden,
            model: info.model.clone(),
            model_name: info.model_name.clone(),
            data: digests.join("+"),
            ids: info.exchange == Exchange::Ids,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// From 1.
    pub number: usize,
    pub training_loss: f32,
    /// Mean loss on the tuning examples afterwards.
    pub tuning_loss: f32,
    /// Whether that was the least so far.
    pub best: bool,
}

#[derive(Clone, Debug)]
pub struct Trained {
    pub file: RouterFile,
    /// How it does on the report examples.
    pub curves: Curves,
    /// The share of positions asked at for thresholds 0.1 to 0.9, on the report examples.
    pub shares: Vec<Point>,
    pub epochs: Vec<Epoch>,
    /// The largest difference between a score of the file and of the network it was made from, on
    /// the tuning examples: what half precision costs.
    pub rounding: f32,
}

/// Curves to look at; see [`plot`].
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Trusting what can be trusted, against trusting what cannot.
    pub roc: Vec<RocPoint>,
    /// Scores against what was so.
    pub calibration: Vec<Bin>,
}

/// Trains a router. Calls `progress` after each epoch.
pub fn train(
    samples: &[Sample],
    about: SampleOrigin,
    options: &Options,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Trained, TrainError> {
    options.validate()?;
    let objective = options.objective;
    if !samples.iter().any(|sample| target(objective, sample).is_some()) {
        let all = samples.len();
        let traffic =
            all > 0 && samples.iter().all(|sample| sample.label_source == LabelSource::Traffic);
        if traffic && objective != Objective::Agree {
            return Err(TrainError::OnlyTraffic { all, objective });
        }
        return Err(TrainError::NoSamples { all, objective });
    }
    data::check(samples, about.hidden)?;
    let parts = split(samples.iter().map(|s| s.example), options.held_out, options.seed)?;
    let of = |part| -> Vec<&Sample> {
        samples.iter().filter(|sample| parts.get(&sample.example) == Some(&part)).collect()
    };
    let (tuning, reporting) = (of(Part::Tuning), of(Part::Report));
    let training = tasks(&of(Part::Training), objective);
    let fitted_to: Vec<&Sample> = training.iter().map(|task| task.sample).collect();
    both_classes("training", objective, &fitted_to)?;
    let tuned_on = tasks(&tuning, objective);
    both_classes("tuning", objective, &tuned_on.iter().map(|t| t.sample).collect::<Vec<_>>())?;
    both_classes("report", objective, &reporting)?;

    let standard = Standard::measure(options.inputs, about.hidden, &fitted_to);
    let mut epochs = vec![];
    let problem = Problem { training: &training, tuning: &tuned_on, standard: &standard };
    let fitted = fit(problem, about.hidden, options, &mut |epoch| {
        epochs.push(epoch);
        progress(epoch);
    })?;
    let tuned_on: Vec<&Sample> = tuned_on.iter().map(|task| task.sample).collect();
    let platt = Platt::fit(&known(objective, &tuned_on, &fitted.outputs));

    // From here on it is the router as it will be used that is judged, rounding and all.
    let mlp = Mlp::from_layers(about.hidden, options.inputs, fitted.folded.scaled(platt));
    let scores = |samples: &[&Sample]| -> Vec<f32> {
        samples.iter().map(|sample| sample.score(&mlp).value()).collect()
    };
    let (rounded, unrounded) = (scores(&tuned_on), fitted.outputs.iter().map(|&z| platt.score(z)));
    let rounding = rounded.iter().zip(unrounded).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let reported = scores(&reporting);
    let held_out = [scores(&tuning), reported.clone()].concat();
    let scored = known(objective, &reporting, &reported);

    let metadata = Metadata {
        format: options.inputs.format(),
        hidden: about.hidden,
        inputs: options.inputs,
        model: about.model,
        model_name: about.model_name,
        objective,
        data: about.data,
        ids: about.ids,
        calibration: calibrate(&held_out),
        report: report(&scored, &fitted_to),
    };
    Ok(Trained {
        file: RouterFile::new(metadata, mlp.into_layers(), None)?,
        curves: curves(&scored),
        shares: shares(&reported),
        epochs,
        rounding,
    })
}

fn tasks<'a>(samples: &[&'a Sample], objective: Objective) -> Vec<Task<'a>> {
    let task = |&sample: &&'a Sample| Some(Task { sample, target: target(objective, sample)? });
    samples.iter().filter_map(task).collect()
}

/// The values of those samples about which the truth is known, and that truth.
fn known(objective: Objective, samples: &[&Sample], values: &[f32]) -> Vec<Scored> {
    let pairs = samples.iter().zip(values);
    pairs.filter_map(|(s, &value)| Some((f64::from(value), truth(objective, s)?))).collect()
}

fn both_classes(
    part: &'static str,
    objective: Objective,
    samples: &[&Sample],
) -> Result<(), TrainError> {
    let truths: Vec<bool> = samples.iter().filter_map(|sample| truth(objective, sample)).collect();
    let trusted = truths.iter().filter(|&&truth| truth).count();
    if trusted > 0 && trusted < truths.len() {
        return Ok(());
    }
    let missing = if trusted == 0 { "trust" } else { "ask" };
    Err(TrainError::OneClass { part, found: truths.len(), missing })
}

#[cfg(test)]
pub(crate) mod tests;
