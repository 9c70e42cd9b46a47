//! What results say: accuracy with its interval, shares, the gap recovered.

/// How many times results are drawn again for an interval.
const DRAWS: usize = 2000;

/// A mean and where 95 % of its redrawn values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// 2.5 % of redrawn means are below.
    pub low: f64,
    /// 2.5 % of redrawn means are above.
    pub high: f64,
}

/// The mean of values, one a question, with a bootstrap interval; `None` of nothing.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let mean = |sum: f64| sum / values.len() as f64;
    let mut lot = Lot(seed);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| mean((0..values.len()).map(|_| values[lot.below(values.len())]).sum()))
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((DRAWS as f64 * share) as usize).min(DRAWS - 1)];
    Some(Estimate { mean: mean(values.iter().sum()), low: at(0.025), high: at(0.975) })
}

/// How much of the way from the small model's accuracy to the large one's was made.
pub fn gap_recovered(small: f64, joint: f64, large: f64) -> Option<f64> {
    let gap = large - small;
    (gap.abs() > 1e-9).then(|| (joint - small) / gap)
}

/// A small generator of numbers: the same seed draws the same questions.
struct Lot(u64);

impl Lot {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (z ^ (z >> 31)) % bound.max(1) as u64;
        usize::try_from(drawn).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_about_two_standard_errors_wide() {
        // 400 questions, half right: the standard error is 0.025.
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let estimate = estimate(&values, 1).unwrap();
        assert_eq!(estimate.mean, 0.5);
        assert!((0.04..0.06).contains(&(estimate.high - estimate.mean)), "{estimate:?}");
        assert!((0.04..0.06).contains(&(estimate.mean - estimate.low)), "{estimate:?}");
        assert_eq!(super::estimate(&values, 1), Some(estimate));
        assert_eq!(super::estimate(&[], 1), None);
    }

    #[test]
    fn the_gap() {
        assert!((gap_recovered(0.4, 0.55, 0.7).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(gap_recovered(0.4, 0.5, 0.4), None);
    }
}
