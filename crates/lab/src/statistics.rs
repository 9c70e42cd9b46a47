//! How good scores are against what was right, and how sure a mean is.
//!
//! Scores come as pairs of the score and whether what it believes in was so. Equal scores are judged
//! together: the order of the pairs changes nothing. Percentiles are those of
//! [`decode::statistics`], which the program without a workshop needs too.

use decode::sampling;
pub use decode::statistics::{median, percentile};

/// A score, and whether what it believes in was so.
pub type Scored = (f64, bool);

/// One point of the receiver operating characteristic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// Share of the negatives with at least this score.
    pub false_positive: f64,
    /// Share of the positives with at least this score.
    pub true_positive: f64,
}

/// Scores that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    pub score: f64,
    /// The share of them that was positive.
    pub observed: f64,
    pub count: usize,
}

/// How many positives and negatives each score has, the highest first.
fn ties(scored: &[Scored]) -> Vec<(f64, f64)> {
    let mut sorted = scored.to_vec();
    sorted.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    sorted.chunk_by(|a, b| a.0 == b.0).map(count).collect()
}

fn count(scored: &[Scored]) -> (f64, f64) {
    let positives = scored.iter().filter(|pair| pair.1).count();
    (positives as f64, (scored.len() - positives) as f64)
}

/// How many positives and negatives there are; `None` unless there are both.
fn totals(scored: &[Scored]) -> Option<(f64, f64)> {
    Some(count(scored)).filter(|&(positives, negatives)| positives > 0.0 && negatives > 0.0)
}

/// The area under the ROC curve: over all pairs of a positive and a negative, how often the positive
/// has the higher score, equal scores counting half. 0.5 says nothing, 1 everything; `None` unless
/// there are both classes.
pub fn auc(scored: &[Scored]) -> Option<f64> {
    let (positives, negatives) = totals(scored)?;
    let (mut above, mut won) = (0.0, 0.0);
    for (positive, negative) in ties(scored) {
        won += negative * (above + positive / 2.0);
        above += positive;
    }
    Some(won / (positives * negatives))
}

/// The area under precision over recall, as a sum of steps; `None` unless there are both classes.
pub fn average_precision(scored: &[Scored]) -> Option<f64> {
    let (positives, _) = totals(scored)?;
    let (mut found, mut taken, mut area) = (0.0, 0.0, 0.0);
    for (positive, negative) in ties(scored) {
        found += positive;
        taken += positive + negative;
        area += positive / positives * (found / taken);
    }
    Some(area)
}

/// The curve from (0, 0) to (1, 1), one point for each distinct score; empty unless there are both
/// classes.
pub fn roc(scored: &[Scored]) -> Vec<RocPoint> {
    let Some((positives, negatives)) = totals(scored) else { return vec![] };
    let mut curve = vec![RocPoint { false_positive: 0.0, true_positive: 0.0 }];
    let (mut hits, mut alarms) = (0.0, 0.0);
    for (positive, negative) in ties(scored) {
        hits += positive;
        alarms += negative;
        let (false_positive, true_positive) = (alarms / negatives, hits / positives);
        curve.push(RocPoint { false_positive, true_positive });
    }
    curve
}

/// Scores in 0..=1 in this many equally wide bins; empty bins are left out.
pub fn calibration_bins(scored: &[Scored], bins: usize) -> Vec<Bin> {
    let mut sums = vec![(0.0f64, 0usize, 0usize); bins.max(1)];
    let last = sums.len() - 1;
    for &(score, positive) in scored {
        let (sum, hits, count) = &mut sums[((score * (last + 1) as f64) as usize).min(last)];
        *sum += score;
        *hits += usize::from(positive);
        *count += 1;
    }
    let bin = |(sum, hits, count): (f64, usize, usize)| {
        let n = count as f64;
        Bin { score: sum / n, observed: hits as f64 / n, count }
    };
    sums.into_iter().filter(|&(.., count)| count > 0).map(bin).collect()
}

/// How far scores are from the shares they promise, bin by bin, weighted by size.
pub fn expected_calibration_error(scored: &[Scored], bins: usize) -> f64 {
    let gap = |bin: &Bin| (bin.score - bin.observed).abs() * bin.count as f64;
    calibration_bins(scored, bins).iter().map(gap).sum::<f64>() / scored.len().max(1) as f64
}

/// The mean negative logarithm of the probability given to what was so.
pub fn log_loss(scored: &[Scored]) -> f64 {
    let loss = |&(score, positive): &Scored| {
        let right = if positive { score } else { 1.0 - score };
        // One certain mistake must not hide every other number.
        -right.max(1e-7).ln()
    };
    scored.iter().map(loss).sum::<f64>() / scored.len().max(1) as f64
}

/// How many times values are drawn again for an interval.
const DRAWS: usize = 2000;

/// A mean and where 95 % of its redrawn values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// The mean of values, one a question, with a bootstrap interval; `None` of nothing.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let mean = |sum: f64| sum / values.len() as f64;
    let mut random = Random(seed);
    let means: Vec<f64> = (0..DRAWS)
        .map(|_| mean((0..values.len()).map(|_| values[random.below(values.len())]).sum()))
        .collect();
    let low = percentile(means.iter().copied(), 0.025)?;
    let high = percentile(means, 0.975)?;
    Some(Estimate { mean: mean(values.iter().sum()), low, high })
}

/// A small generator of numbers: the same seed draws the same questions.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        let drawn = sampling::split_mix_next(&mut self.0) % bound.max(1) as u64;
        usize::try_from(drawn).unwrap_or(0)
    }
}

/// Wilson's 95 % interval of a share: unlike drawing again it is not certain of eight out of eight.
pub fn wilson_interval(right: usize, all: usize) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let n = all.max(1) as f64;
    let share = right as f64 / n;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORED: [Scored; 4] = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn four_scores_by_hand() {
        // Of the four pairs only (0.35, 0.4) is in the wrong order.
        near(auc(&SCORED).unwrap(), 0.75);
        // 0.8 is right (1/1), then 0.4 is wrong, then 0.35 is right (2/3).
        near(average_precision(&SCORED).unwrap(), 0.5 * (1.0 + 2.0 / 3.0));
        let curve = roc(&SCORED);
        let points: Vec<_> = curve.iter().map(|p| (p.false_positive, p.true_positive)).collect();
        assert_eq!(points, [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)]);
        assert_eq!(auc(&[(0.1, false), (0.2, true)]), Some(1.0));
        assert_eq!(auc(&[(0.1, true), (0.2, false)]), Some(0.0));
    }

    #[test]
    fn equal_scores_count_half_in_any_order() {
        for positive in [[true, false, true, false], [false, true, false, true]] {
            let level = positive.map(|positive| (0.5, positive));
            near(auc(&level).unwrap(), 0.5);
            near(average_precision(&level).unwrap(), 0.5);
            assert_eq!(roc(&level).len(), 2);
        }
        // Pairs: (0.5, 0.5) is half a win, (0.9, 0.5) a whole one.
        near(auc(&[(0.5, true), (0.5, false), (0.9, true)]).unwrap(), 0.75);
    }

    #[test]
    fn one_class_alone_cannot_be_told_apart() {
        assert_eq!(auc(&[(0.1, true), (0.2, true)]), None);
        assert_eq!(average_precision(&[]), None);
        assert!(roc(&[(0.3, false)]).is_empty());
        assert_eq!(expected_calibration_error(&[], 10), 0.0);
        assert_eq!(log_loss(&[]), 0.0);
    }

    #[test]
    fn calibration_by_hand() {
        let scored = [(0.05, false), (0.05, true), (0.95, true), (1.0, true)];
        let bins = calibration_bins(&scored, 10);
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].count, bins[0].observed), (2, 0.5));
        near(bins[1].score, 0.975);
        near(expected_calibration_error(&scored, 10), 0.5 * 0.45 + 0.5 * 0.025);
        near(log_loss(&[(0.5, true), (0.5, false)]), 2f64.ln());
        assert!(log_loss(&[(1.0, false)]).is_finite());
    }

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
    fn wilsons_interval_of_known_counts() {
        let (low, high) = wilson_interval(8, 10);
        assert!((low - 0.4902).abs() < 1e-3 && (high - 0.9433).abs() < 1e-3, "{low} {high}");
        let (low, high) = wilson_interval(10, 10);
        assert!((low - 0.7225).abs() < 1e-3 && high > 0.999, "{low} {high}");
    }
}
