//! Platt scaling: a line through the outputs, so that their sigmoids are probabilities.

use super::objective::sigmoid;
use crate::statistics::Scored;

/// a·z + b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Platt {
    pub(super) slope: f32,
    pub(super) offset: f32,
}

/// Scaling may flatten a useless router, but never turn it around.
const FLATTEST: f64 = 1e-3;

impl Platt {
    /// The line under which what was so is most likely, by Newton's method.
    pub(super) fn fit(outputs: &[Scored]) -> Self {
        let (slope, offset) = match newton(outputs, None) {
            (slope, _) if slope < FLATTEST => newton(outputs, Some(FLATTEST)),
            line => line,
        };
        Self { slope: slope as f32, offset: offset as f32 }
    }

    pub(super) fn score(self, z: f32) -> f32 {
        sigmoid(f64::from(self.slope * z + self.offset)) as f32
    }
}

/// Slope and offset; the slope stays where it is when it is given.
fn newton(outputs: &[Scored], fixed: Option<f64>) -> (f64, f64) {
    // Platt's own targets, a little inside 0 and 1: they keep the line finite when the two classes
    // can be told apart perfectly.
    let positives = outputs.iter().filter(|(_, truth)| *truth).count() as f64;
    let negatives = outputs.len() as f64 - positives;
    let (high, low) = ((positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0));
    let pairs: Vec<(f64, f64)> =
        outputs.iter().map(|&(z, truth)| (z, if truth { high } else { low })).collect();
    let loss = |a: f64, b: f64| -> f64 {
        let one = |&(z, target): &(f64, f64)| {
            let line = a * z + b;
            line.max(0.0) - line * target + (-line.abs()).exp().ln_1p()
        };
        pairs.iter().map(one).sum()
    };

    let (mut a, mut b) = (fixed.unwrap_or(1.0), 0.0);
    let mut least = loss(a, b);
    for _ in 0..100 {
        let (mut ga, mut gb, mut haa, mut hab, mut hbb) = (0.0, 0.0, 1e-9, 0.0, 1e-9);
        for &(z, target) in &pairs {
            let p = sigmoid(a * z + b);
            let (error, weight) = (p - target, p * (1.0 - p));
            ga += error * z;
            gb += error;
            haa += weight * z * z;
            hab += weight * z;
            hbb += weight;
        }
        let determinant = haa * hbb - hab * hab;
        let (da, db) = if fixed.is_some() || determinant.abs() < 1e-12 {
            (0.0, gb / hbb)
        } else {
            ((hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant)
        };
        // Half the step until it helps.
        let step = (0..30).map(|halvings| 0.5f64.powi(halvings)).find_map(|step| {
            let now = loss(a - step * da, b - step * db);
            (now < least).then_some((step, now))
        });
        let Some((step, now)) = step else { break };
        (a, b) = (a - step * da, b - step * db);
        let gain = least - now;
        least = now;
        if gain < 1e-10 * least {
            break;
        }
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use decode::sampling::uniform;

    use super::*;

    #[test]
    fn a_known_line_is_found() {
        // Truths drawn with probability sigmoid(0.5·z − 1).
        let output = |i| {
            let z = uniform(1, i) * 12.0 - 6.0;
            (z, uniform(2, i) < sigmoid(0.5 * z - 1.0))
        };
        let platt = Platt::fit(&(0..20_000).map(output).collect::<Vec<_>>());
        assert!((platt.slope - 0.5).abs() < 0.05, "{platt:?}");
        assert!((platt.offset + 1.0).abs() < 0.1, "{platt:?}");
    }

    #[test]
    fn extremes_stay_finite_and_never_turn_around() {
        let apart = Platt::fit(&[-2.0, -1.0, 1.0, 2.0].map(|z| (z, z > 0.0)));
        assert!(apart.slope.is_finite() && apart.slope > 0.0, "{apart:?}");
        let wrong = Platt::fit(&[-2.0, -1.0, 1.0, 2.0].map(|z| (z, z < 0.0)));
        assert!(wrong.slope > 0.0 && wrong.offset.is_finite(), "{wrong:?}");
        let flat = Platt::fit(&[true, true, true, false].map(|truth| (1.0, truth)));
        assert!((flat.score(1.0) - 0.7).abs() < 0.15, "{flat:?}");
        for far in [Platt::fit(&[(900.0, false), (-900.0, true)]), Platt::fit(&[])] {
            assert!(far.slope.is_finite() && far.offset.is_finite(), "{far:?}");
        }
    }
}
