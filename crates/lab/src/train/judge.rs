//! How good a router is, and which thresholds ask at which shares.

use std::collections::HashSet;

use router::{Calibration, Point, Report};

use super::Curves;
use crate::{
    calibrate::thresholds,
    collect::Sample,
    statistics::{
        Scored, auc, average_precision, calibration_bins, expected_calibration_error, log_loss, roc,
    },
};

const BINS: usize = 10;

/// From scores and whether keeping was right.
pub(super) fn report(scored: &[Scored], fitted_to: &[&Sample]) -> Report {
    let asks: Vec<Scored> = scored.iter().map(|(score, truth)| (1.0 - score, !truth)).collect();
    Report {
        samples: fitted_to.len(),
        examples: fitted_to.iter().map(|s| s.example).collect::<HashSet<_>>().len(),
        held_out: scored.len(),
        loss: log_loss(scored) as f32,
        // There are both classes, or training would not have begun.
        auc: auc(scored).unwrap_or(0.5) as f32,
        average_precision: average_precision(&asks).unwrap_or(0.0) as f32,
        ece: expected_calibration_error(scored, BINS) as f32,
    }
}

pub(super) fn curves(scored: &[Scored]) -> Curves {
    Curves { roc: roc(scored), calibration: calibration_bins(scored, BINS) }
}

/// Thresholds by the share of positions they ask at.
pub(super) fn calibrate(scores: &[f32]) -> Calibration {
    let positions: Vec<_> = scores.iter().map(|&score| (score, 1.0)).collect();
    thresholds(&positions, positions.len() as f32)
}

/// The share of scores below 0.1, 0.2 … 0.9.
pub(super) fn shares(scores: &[f32]) -> Vec<Point> {
    let point = |tenth: u8| {
        let threshold = f32::from(tenth) / 10.0;
        let below = scores.iter().filter(|&&score| score < threshold).count();
        Point { share: below as f32 / scores.len().max(1) as f32, threshold }
    };
    (1..10).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_scores_below_a_threshold() {
        assert_eq!(shares(&[0.05, 0.15, 0.95]).len(), 9);
        assert!((shares(&[0.05, 0.15, 0.95])[1].share - 2.0 / 3.0).abs() < 1e-6);
    }
}
