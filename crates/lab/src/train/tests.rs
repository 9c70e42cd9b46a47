//! Training on problems whose answers are known.

use decode::sampling::uniform;
use half::f16;
use router::{FEATURES, Inputs};

use super::*;
use crate::{
    calibrate::SHARES,
    collect::{Label, LabelSource},
};

const HIDDEN: usize = 32;

/// A sample about which nothing is known.
pub(crate) fn sample(example: u32, hidden: usize) -> Sample {
    Sample {
        hidden: vec![f16::ZERO; hidden],
        features: [0.0; FEATURES],
        label: Label::Unknown,
        label_source: LabelSource::Edge,
        edge_logprob: f32::NAN,
        cloud_logprob: f32::NAN,
        agrees: None,
        example,
        position: 0,
    }
}

/// Some dimensions have a mean far larger than their deviation, as hidden states do.
fn mean(d: usize) -> f32 {
    if d.is_multiple_of(7) { 40.0 } else { 0.0 }
}

fn deviation(d: usize) -> f32 {
    (1 + d % 3) as f32
}

fn hidden(seed: u64) -> Vec<f32> {
    let normal = |d: usize| {
        let sum: f64 = (0..6).map(|i| uniform(seed ^ 0x5eed, d * 6 + i) - 0.5).sum();
        sum as f32 * 1.41
    };
    (0..HIDDEN).map(|d| normal(d) * deviation(d) + mean(d)).collect()
}

/// How far along the planted direction a state lies: about −3 to 3.
fn planted(hidden: &[f32]) -> f32 {
    let standard = |d: usize| (hidden[d] - mean(d)) / deviation(d);
    (standard(0) - standard(4) + standard(9) - standard(17)) / 2.0
}

/// Examples of five positions each; `label` is given the planted value and a number in 0..1.
fn problem(count: u32, label: impl Fn(f32, f64) -> bool) -> Vec<Sample> {
    let one = |i: u32| {
        let hidden = hidden(u64::from(i));
        let trust = label(planted(&hidden), uniform(99, i as usize));
        Sample {
            hidden: hidden.into_iter().map(f16::from_f32).collect(),
            label: if trust { Label::Trust } else { Label::Ask },
            position: i % 5,
            ..sample(i / 5, HIDDEN)
        }
    };
    (0..count).map(one).collect()
}

fn about() -> SampleOrigin {
    let (model, model_name) = ("print".into(), "small".into());
    SampleOrigin { hidden: HIDDEN, model, model_name, data: "digest".into(), ids: false }
}

fn options() -> Options {
    Options { batch: 128, epochs: 12, patience: 4, held_out: 0.3, seed: 1, ..Options::default() }
}

fn trained(samples: &[Sample], options: &Options) -> Trained {
    train(samples, about(), options, &mut |_| {}).unwrap()
}

#[test]
fn a_planted_direction_is_found() {
    let samples = problem(4000, |x, _| x > -0.5);
    for inputs in [Inputs::Hidden, Inputs::HiddenLogits] {
        let trained = trained(&samples, &Options { inputs, ..options() });
        let metadata = trained.file.metadata();
        assert!(metadata.report.auc > 0.95, "{:?}", metadata.report);
        assert!(metadata.report.average_precision > 0.85, "{:?}", metadata.report);
        assert!(trained.rounding < 0.01, "{}", trained.rounding);
        assert_eq!(metadata.calibration.points().len(), SHARES.len());
        assert_eq!(trained.shares.len(), 9);
        assert_eq!((metadata.inputs, metadata.hidden), (inputs, HIDDEN));
        assert_eq!(metadata.report.examples, 560);
        assert!(trained.epochs.iter().any(|epoch| epoch.best));
    }
}

#[test]
fn shuffled_labels_teach_nothing() {
    let samples = problem(6000, |_, random| random < 0.6);
    let auc = trained(&samples, &options()).file.metadata().report.auc;
    assert!((0.4..0.6).contains(&auc), "{auc}");
}

#[test]
fn scores_are_probabilities_whether_classes_are_balanced_or_not() {
    // Four in five are trusted, so that balancing shifts the raw outputs a lot.
    let samples =
        problem(12_000, |x, random| random < objective::sigmoid(1.5 * f64::from(x) + 1.7));
    for balance in [true, false] {
        let trained = trained(&samples, &Options { balance, ..options() });
        let report = trained.file.metadata().report;
        assert!(report.ece <= 0.05, "{report:?}");
        let total: usize = trained.curves.calibration.iter().map(|bin| bin.count).sum();
        assert_eq!(total, report.held_out);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let samples = problem(1500, |x, _| x > 0.0);
    let options = Options { epochs: 2, ..options() };
    let bytes = |options: &Options| trained(&samples, options).file.bytes().unwrap();
    assert_eq!(bytes(&options), bytes(&options));
    assert_ne!(bytes(&options), bytes(&Options { seed: 2, ..options.clone() }));
}

#[test]
fn co_llm_asks_where_the_cloud_knows_better() {
    let mut samples = problem(4000, |x, _| x > 0.0);
    for sample in &mut samples {
        let (edge, cloud) = match sample.label {
            Label::Trust => (-0.2, -1.5),
            _ => (-2.5, -0.3),
        };
        (sample.edge_logprob, sample.cloud_logprob) = (edge, cloud);
        // Some labels are not known; the log-probabilities are.
        if sample.position == 0 {
            sample.label = Label::Unknown;
        }
    }
    let trained = trained(&samples, &Options { objective: Objective::CoLlm, ..options() });
    assert!(trained.file.metadata().report.auc > 0.95);
    let mlp = Mlp::new(&trained.file);
    let asked = |sample: &&Sample| sample.score(&mlp).value() < 0.5;
    let right = samples.iter().filter(|s| asked(s) == (s.cloud_logprob > s.edge_logprob)).count();
    assert!(right as f32 > 0.93 * samples.len() as f32, "{right}");
}

#[test]
fn agreement_is_learnt_without_labels() {
    let mut samples = problem(3000, |x, _| x > 0.3);
    for sample in &mut samples {
        sample.agrees = (sample.position != 3).then_some(sample.label == Label::Trust);
        sample.label = Label::Unknown;
    }
    let trained = trained(&samples, &Options { objective: Objective::Agree, ..options() });
    assert!(trained.file.metadata().report.auc > 0.95);
    assert_eq!(trained.file.metadata().report.samples, 1680);
}

#[test]
fn what_cannot_be_trained_on_is_named() {
    let fails = |samples: &[Sample], options: &Options| {
        train(samples, about(), options, &mut |_| {}).unwrap_err().to_string()
    };
    let good = problem(200, |x, _| x > 0.0);
    let one_class = problem(200, |_, _| true);
    let mut short = good.clone();
    short[7].hidden.pop();
    let mut infinite = good.clone();
    infinite[8].hidden[0] = f16::INFINITY;
    let use_alone: Vec<Sample> = good
        .iter()
        .map(|s| {
            let (label, found) = (Label::Unknown, LabelSource::Traffic);
            Sample { label, label_source: found, agrees: Some(true), ..s.clone() }
        })
        .collect();
    let options = options();
    let cases = [
        (fails(&use_alone, &options), "train with --objective agree"),
        (fails(&[], &options), "none of the 0 samples"),
        (fails(&good, &Options { objective: Objective::CoLlm, ..options.clone() }), "co-llm"),
        (fails(&good[..10], &options), "2 examples"),
        (fails(&one_class, &options), "says ask"),
        (fails(&short, &options), "31 numbers"),
        (fails(&infinite, &options), "example 1, position 3"),
        (fails(&good, &Options { held_out: 1.0, ..options.clone() }), "held-out"),
        (fails(&good, &Options { batch: 0, ..options.clone() }), "batch"),
        (fails(&good, &Options { learning_rate: f32::NAN, ..options.clone() }), "learning-rate"),
    ];
    for (error, says) in cases {
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// A hidden state as long as a real one: what is learnt there must survive the width, and the
/// rounding to half precision with it.
#[test]
fn a_direction_in_576_dimensions_is_found() {
    const WIDE: usize = 576;
    let wide = |i: u32| {
        let hidden: Vec<f16> =
            (0..WIDE).map(|d| f16::from_f32(uniform(u64::from(i), d) as f32 - 0.5)).collect();
        let trust = hidden[..40].iter().map(|x| x.to_f32()).sum::<f32>() > -1.0;
        let label = if trust { Label::Trust } else { Label::Ask };
        Sample { hidden, label, ..sample(i / 50, WIDE) }
    };
    let samples: Vec<Sample> = (0..12_000).map(wide).collect();
    let origin = SampleOrigin { hidden: WIDE, ..about() };
    let options = Options { epochs: 3, ..Options::default() };
    let trained = train(&samples, origin, &options, &mut |_| {}).unwrap();
    let report = trained.file.metadata().report;
    assert_eq!(trained.epochs.len(), 3);
    assert!(report.auc > 0.9, "{report:?}");
    assert!(trained.rounding < 0.01, "{}", trained.rounding);
}
