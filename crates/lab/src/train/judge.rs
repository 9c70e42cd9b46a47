//! How good a router is, and which thresholds ask at which shares.

use std::collections::HashSet;

use router::{Calibration, Point, Report};

use super::Curves;
use crate::{
    collect::Sample,
    statistics::{
        auc, average_precision, calibration_bins, expected_calibration_error, log_loss, roc,
    },
};

/// Bins of the calibration curve.
const BINS: usize = 10;

/// Scores, and whether keeping was right.
pub(super) struct Judged {
    scores: Vec<f32>,
    truths: Vec<bool>,
}

impl Judged {
    pub(super) fn new((scores, truths): (Vec<f32>, Vec<bool>)) -> Self {
        Self { scores, truths }
    }

    pub(super) fn report(&self, fitted_to: &[&Sample]) -> Report {
        let Self { scores, truths } = self;
        let doubts: Vec<f32> = scores.iter().map(|score| 1.0 - score).collect();
        let asks: Vec<bool> = truths.iter().map(|truth| !truth).collect();
        Report {
            samples: fitted_to.len(),
            examples: fitted_to.iter().map(|s| s.example).collect::<HashSet<_>>().len(),
            held_out: scores.len(),
            loss: log_loss(scores, truths),
            // There are both classes, or training would not have begun.
            auc: auc(scores, truths).unwrap_or(0.5),
            average_precision: average_precision(&doubts, &asks).unwrap_or(0.0),
            ece: expected_calibration_error(scores, truths, BINS),
        }
    }

    pub(super) fn curves(&self) -> Curves {
        Curves {
            roc: roc(&self.scores, &self.truths),
            calibration: calibration_bins(&self.scores, &self.truths, BINS),
        }
    }
}

const SHARES: [f32; 10] = [0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30, 0.50];

/// For each share, the threshold below which that share of the scores lies.
pub(super) fn calibrate(scores: &[f32]) -> Calibration {
    let mut sorted = scores.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let threshold = |share: f32| {
        let below = (share * sorted.len() as f32).round() as usize;
        let (last, next) = (sorted.get(below.wrapping_sub(1)), sorted.get(below));
        // Between two scores, so that rounding on neither side matters.
        match (last, next) {
            (Some(last), Some(next)) => Some((last + next) / 2.0),
            (one, other) => one.or(other).copied(),
        }
    };
    let point = |share| Some(Point { share, threshold: threshold(share)? });
    Calibration::new(SHARES.into_iter().filter_map(point).collect())
}

/// The share of scores below 0.1, 0.2 … 0.9.
pub(super) fn shares(scores: &[f32]) -> Vec<Point> {
    let below = |threshold: f32| scores.iter().filter(|&&score| score < threshold).count();
    (1..10)
        .map(|tenth| tenth as f32 / 10.0)
        .map(|threshold| {
            let share = below(threshold) as f32 / scores.len().max(1) as f32;
            Point { share, threshold }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_ask_at_their_share() {
        let scores: Vec<f32> = (0..1000).map(|i| ((i * 37) % 1000) as f32 / 1000.0).collect();
        let calibration = calibrate(&scores);
        for share in SHARES {
            let threshold = calibration.threshold(share).unwrap();
            let asked = scores.iter().filter(|&&score| score < threshold).count();
            assert_eq!(asked, (share * 1000.0).round() as usize);
        }
        assert!(calibrate(&[]).points().is_empty());
        assert_eq!(calibrate(&[0.5]).threshold(0.1), Some(0.5));
        assert_eq!(shares(&[0.05, 0.15, 0.95]).len(), 9);
        assert!((shares(&[0.05, 0.15, 0.95])[1].share - 2.0 / 3.0).abs() < 1e-6);
    }
}
