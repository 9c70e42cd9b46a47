//! From samples to rows of numbers.

use half::slice::HalfFloatSliceExt;
use router::Inputs;

use super::TrainError;
use crate::collect::Sample;

/// No number is stretched more than this: weights must fit in half precision after it is undone.
const MOST_STRETCHED: f64 = 1e4;

/// Means and inverse deviations of the inputs, from the training samples.
pub(super) struct Standard {
    pub(super) inputs: Inputs,
    pub(super) mean: Vec<f32>,
    /// 0 for an input that never changes: it says nothing.
    pub(super) inverse: Vec<f32>,
}

impl Standard {
    pub(super) fn measure(inputs: Inputs, hidden: usize, samples: &[&Sample]) -> Self {
        let width = inputs.width(hidden).unwrap_or(hidden);
        let (mut sum, mut squares) = (vec![0.0f64; width], vec![0.0f64; width]);
        let mut row = vec![0.0; width];
        for sample in samples {
            fill(inputs, sample, &mut row);
            for ((sum, square), &x) in sum.iter_mut().zip(&mut squares).zip(&row) {
                *sum += f64::from(x);
                *square += f64::from(x) * f64::from(x);
            }
        }
        let n = samples.len().max(1) as f64;
        let mean: Vec<f64> = sum.iter().map(|sum| sum / n).collect();
        let inverse = |(square, mean): (&f64, &f64)| {
            let deviation = (square / n - mean * mean).max(0.0).sqrt();
            let constant = deviation <= 1e-6 * mean.abs() || deviation == 0.0;
            if constant { 0.0 } else { (1.0 / deviation).min(MOST_STRETCHED) as f32 }
        };
        let inverse = squares.iter().zip(&mean).map(inverse).collect();
        Self { inputs, mean: mean.iter().map(|&mean| mean as f32).collect(), inverse }
    }

    pub(super) fn width(&self) -> usize {
        self.mean.len()
    }

    /// The standardised inputs of these samples, row after row in one buffer.
    pub(super) fn rows<'a>(&self, samples: impl ExactSizeIterator<Item = &'a Sample>) -> Vec<f32> {
        let mut rows = vec![0.0; samples.len() * self.width()];
        for (row, sample) in rows.chunks_exact_mut(self.width()).zip(samples) {
            fill(self.inputs, sample, row);
            for ((x, mean), inverse) in row.iter_mut().zip(&self.mean).zip(&self.inverse) {
                *x = (*x - mean) * inverse;
            }
        }
        rows
    }
}

fn fill(inputs: Inputs, sample: &Sample, row: &mut [f32]) {
    let (hidden, rest) = row.split_at_mut(sample.hidden.len());
    sample.hidden.convert_to_f32_slice(hidden);
    if inputs == Inputs::HiddenLogits {
        rest.copy_from_slice(&sample.features);
    }
}

/// Refuses samples of another model, and numbers that are none.
pub(super) fn check(samples: &[Sample], hidden: usize) -> Result<(), TrainError> {
    if hidden == 0 {
        let (name, range) = ("the length of hidden states", "1 or more");
        return Err(TrainError::Option { name, range, given: 0.0 });
    }
    for sample in samples {
        let Sample { example, position, .. } = *sample;
        if sample.hidden.len() != hidden {
            let found = sample.hidden.len();
            return Err(TrainError::HiddenSize { example, position, found, wanted: hidden });
        }
        let finite = sample.hidden.iter().all(|x| x.is_finite())
            && sample.features.iter().all(|x| x.is_finite());
        if !finite {
            return Err(TrainError::NotFinite { example, position });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::train::tests::sample;
    use router::FEATURES;

    #[test]
    fn rows_have_no_mean_and_unit_deviation_and_constants_say_nothing() {
        let samples: Vec<Sample> = (0..50)
            .map(|i| {
                let hidden = [i as f32 * 3.0 + 100.0, 7.0].map(f16::from_f32).to_vec();
                Sample { hidden, ..sample(i, 2) }
            })
            .collect();
        let all: Vec<&Sample> = samples.iter().collect();
        let standard = Standard::measure(Inputs::HiddenLogits, 2, &all);
        let rows = standard.rows(samples.iter());
        let first: Vec<f32> = rows.iter().step_by(2 + FEATURES).copied().collect();
        let mean = first.iter().sum::<f32>() / 50.0;
        let variance = first.iter().map(|x| x * x).sum::<f32>() / 50.0;
        assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-3, "{mean} {variance}");
        assert!(rows.iter().skip(1).step_by(2 + FEATURES).all(|&x| x == 0.0));
    }
}
