//! How good scores are, against what was right.
//!
//! `positive[i]` says whether the thing that `scores[i]` believes in was so. Equal scores are
//! judged together: their order in the slice changes nothing.

/// One point of the receiver operating characteristic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// Share of the negatives with at least this score.
    pub false_positive: f32,
    /// Share of the positives with at least this score.
    pub true_positive: f32,
}

/// Samples with similar scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Their mean score.
    pub score: f32,
    /// How many of them, as a share, were positive.
    pub observed: f32,
    /// How many there are.
    pub count: usize,
}

/// What lies at one score: positives and negatives.
struct Tie {
    positive: usize,
    negative: usize,
}

/// Groups of equal scores, the highest first.
fn ties(scores: &[f32], positive: &[bool]) -> Vec<Tie> {
    let mut pairs: Vec<(f32, bool)> =
        scores.iter().copied().zip(positive.iter().copied()).collect();
    pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let tie = |equal: &[(f32, bool)]| {
        let positive = equal.iter().filter(|pair| pair.1).count();
        Tie { positive, negative: equal.len() - positive }
    };
    pairs.chunk_by(|a, b| a.0 == b.0).map(tie).collect()
}

fn totals(ties: &[Tie]) -> Option<(f64, f64)> {
    let positives: usize = ties.iter().map(|tie| tie.positive).sum();
    let negatives: usize = ties.iter().map(|tie| tie.negative).sum();
    (positives > 0 && negatives > 0).then_some((positives as f64, negatives as f64))
}

/// The probability that a positive scores above a negative, ties counting half; `None` unless
/// there are both.
pub fn auc(scores: &[f32], positive: &[bool]) -> Option<f32> {
    let ties = ties(scores, positive);
    let (positives, negatives) = totals(&ties)?;
    let (mut above, mut won) = (0.0, 0.0);
    for tie in &ties {
        won += tie.negative as f64 * (above + tie.positive as f64 / 2.0);
        above += tie.positive as f64;
    }
    Some((won / (positives * negatives)) as f32)
}

/// The area under precision over recall, as a sum of steps; `None` unless there are both classes.
pub fn average_precision(scores: &[f32], positive: &[bool]) -> Option<f32> {
    let ties = ties(scores, positive);
    let (positives, _) = totals(&ties)?;
    let (mut found, mut taken, mut area) = (0.0, 0.0, 0.0);
    for tie in &ties {
        found += tie.positive as f64;
        taken += (tie.positive + tie.negative) as f64;
        area += tie.positive as f64 / positives * (found / taken);
    }
    Some(area as f32)
}

/// The curve from (0, 0) to (1, 1), one point for each distinct score; empty unless there are both
/// classes.
pub fn roc(scores: &[f32], positive: &[bool]) -> Vec<RocPoint> {
    let ties = ties(scores, positive);
    let Some((positives, negatives)) = totals(&ties) else { return vec![] };
    let mut curve = vec![RocPoint { false_positive: 0.0, true_positive: 0.0 }];
    let (mut hits, mut alarms) = (0.0, 0.0);
    for tie in &ties {
        hits += tie.positive as f64;
        alarms += tie.negative as f64;
        curve.push(RocPoint {
            false_positive: (alarms / negatives) as f32,
            true_positive: (hits / positives) as f32,
        });
    }
    curve
}

/// Scores in 0..=1 in this many equally wide bins; empty bins are left out.
pub fn calibration_bins(scores: &[f32], positive: &[bool], bins: usize) -> Vec<Bin> {
    let mut sums = vec![(0.0f64, 0usize, 0usize); bins.max(1)];
    let last = sums.len() - 1;
    for (&score, &positive) in scores.iter().zip(positive) {
        let (sum, hits, count) = &mut sums[((score * (last + 1) as f32) as usize).min(last)];
        *sum += f64::from(score);
        *hits += usize::from(positive);
        *count += 1;
    }
    let bin = |(sum, hits, count): (f64, usize, usize)| Bin {
        score: (sum / count as f64) as f32,
        observed: (hits as f64 / count as f64) as f32,
        count,
    };
    sums.into_iter().filter(|&(.., count)| count > 0).map(bin).collect()
}

/// How far scores are from the shares they promise, bin by bin, weighted by size.
pub fn expected_calibration_error(scores: &[f32], positive: &[bool], bins: usize) -> f32 {
    let bins = calibration_bins(scores, positive, bins);
    let total: usize = bins.iter().map(|bin| bin.count).sum();
    let gap = |bin: &Bin| (bin.score - bin.observed).abs() * bin.count as f32;
    bins.iter().map(gap).sum::<f32>() / total.max(1) as f32
}

/// The mean negative logarithm of the probability given to what was so.
pub fn log_loss(scores: &[f32], positive: &[bool]) -> f32 {
    let loss = |(&score, &positive): (&f32, &bool)| {
        let right = f64::from(if positive { score } else { 1.0 - score });
        // One certain mistake must not hide every other number.
        -right.max(1e-7).ln()
    };
    let total: f64 = scores.iter().zip(positive).map(loss).sum();
    (total / scores.len().max(1) as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f32; 4] = [0.1, 0.4, 0.35, 0.8];
    const POSITIVE: [bool; 4] = [false, false, true, true];

    fn near(a: f32, b: f32) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }

    #[test]
    fn four_scores_by_hand() {
        // Of the four pairs only (0.35, 0.4) is in the wrong order.
        near(auc(&SCORES, &POSITIVE).unwrap(), 0.75);
        // 0.8 is right (1/1), then 0.4 is wrong, then 0.35 is right (2/3).
        near(average_precision(&SCORES, &POSITIVE).unwrap(), 0.5 * (1.0 + 2.0 / 3.0));
        let curve = roc(&SCORES, &POSITIVE);
        let points: Vec<_> = curve.iter().map(|p| (p.false_positive, p.true_positive)).collect();
        assert_eq!(points, [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)]);
    }

    #[test]
    fn equal_scores_count_half_in_any_order() {
        for positive in [[true, false, true, false], [false, true, false, true]] {
            near(auc(&[0.5; 4], &positive).unwrap(), 0.5);
            near(average_precision(&[0.5; 4], &positive).unwrap(), 0.5);
            assert_eq!(roc(&[0.5; 4], &positive).len(), 2);
        }
        // Pairs: (0.5, 0.5) is half a win, (0.9, 0.5) a whole one.
        near(auc(&[0.5, 0.5, 0.9], &[true, false, true]).unwrap(), 0.75);
    }

    #[test]
    fn one_class_alone_cannot_be_told_apart() {
        assert_eq!(auc(&[0.1, 0.2], &[true, true]), None);
        assert_eq!(average_precision(&[], &[]), None);
        assert!(roc(&[0.3], &[false]).is_empty());
        assert_eq!(expected_calibration_error(&[], &[], 10), 0.0);
        assert_eq!(log_loss(&[], &[]), 0.0);
    }

    #[test]
    fn calibration_by_hand() {
        let (scores, positive) = ([0.05, 0.05, 0.95, 1.0], [false, true, true, true]);
        let bins = calibration_bins(&scores, &positive, 10);
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].count, bins[0].observed), (2, 0.5));
        near(bins[1].score, 0.975);
        near(expected_calibration_error(&scores, &positive, 10), 0.5 * 0.45 + 0.5 * 0.025);
        near(log_loss(&[0.5, 0.5], &[true, false]), 2f32.ln());
        assert!(log_loss(&[1.0], &[false]).is_finite());
    }
}
