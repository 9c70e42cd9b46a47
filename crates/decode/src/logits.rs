//! Sums and maxima over a whole vocabulary.
//!
//! They run at every step over tens of thousands of numbers, so they are written in lanes that
//! become vector instructions; one at a time, the router alone would cost 2 % of a step.

const LANES: usize = 16;

/// The highest logit; NaN loses every comparison.
pub fn highest(logits: &[f32]) -> f32 {
    highest_below(logits, f32::INFINITY)
}

/// The highest logit below a bound.
pub fn highest_below(logits: &[f32], bound: f32) -> f32 {
    let better = |best: f32, logit: f32| if logit > best && logit < bound { logit } else { best };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for (best, &logit) in lanes.iter_mut().zip(chunk) {
            *best = better(*best, logit);
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, better)
}

/// With d = logit − max: Σ e^d and Σ d·e^d.
pub fn exponential_sums(logits: &[f32], max: f32) -> (f32, f32) {
    let (mut z, mut weighted) = ([0.0f32; LANES], [0.0f32; LANES]);
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let d = (chunk[lane] - max).max(-80.0);
            let e = exp(d);
            z[lane] += e;
            weighted[lane] += d * e;
        }
    }
    let (mut z, mut weighted) = (z.iter().sum::<f32>(), weighted.iter().sum::<f32>());
    for &logit in rest {
        let d = (logit - max).max(-80.0);
        z += exp(d);
        weighted += d * exp(d);
    }
    (z, weighted)
}

/// e^x for x in −80..=0, to about six digits, without a branch.
fn exp(x: f32) -> f32 {
    // Adding this rounds to a whole number, which is then found in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let power = x * std::f32::consts::LOG2_E;
    let rounded = power + ROUND;
    let f = power - (rounded - ROUND);
    // 2^f for f in −0.5..=0.5, by the series of e^(f·ln 2).
    let fraction = 1.0
        + f * (std::f32::consts::LN_2
            + f * (0.240_226_5 + f * (0.055_504_11 + f * (0.009_618_13 + f * 0.001_333_36))));
    let exponent = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1f32.to_bits()));
    exponent * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_right_to_six_digits() {
        for i in 0..=8000 {
            let x = -f64::from(i) / 100.0;
            let (ours, true_one) = (f64::from(exp(x as f32)), x.exp());
            assert!((ours / true_one - 1.0).abs() < 1e-5, "{x}: {ours} {true_one}");
        }
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn maxima_whatever_the_length() {
        for length in 0..70usize {
            let logits: Vec<f32> = (0..length).map(|i| ((i * 37) % 61) as f32).collect();
            let slow = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(highest(&logits), slow);
            let second = logits.iter().copied().filter(|&l| l < slow);
            assert_eq!(highest_below(&logits, slow), second.fold(f32::NEG_INFINITY, f32::max));
        }
        assert_eq!(highest(&[f32::NAN, 1.0, f32::NAN]), 1.0);
    }

    #[test]
    fn sums_whatever_the_length() {
        for length in 1..40usize {
            let logits: Vec<f32> = (0..length).map(|i| (i as f32 * 0.7).sin() * 20.0).collect();
            let max = highest(&logits);
            let (z, weighted) = exponential_sums(&logits, max);
            let slow: f64 = logits.iter().map(|l| f64::from(l - max).exp()).sum();
            assert!((f64::from(z) / slow - 1.0).abs() < 1e-5);
            let d = |l: &f32| f64::from(l - max);
            let slow: f64 = logits.iter().map(|l| d(l) * d(l).exp()).sum();
            assert!((f64::from(weighted) - slow).abs() < 1e-4);
        }
    }
}
