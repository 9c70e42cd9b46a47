//! Whether answers that a router trusts more are right more often.
//!
//! A record knows whether answers are right, not whether tokens are. So this is the reliability of
//! an answer's scores taken together, their mean and their lowest; how far a score can be trusted
//! for a single token is measured where routers are trained.

use serde::Serialize;
use tandem::Mode;

use super::{
    grid::Grid,
    numbers::{decimal, percent},
    readings::is_random,
};
use crate::{
    eval::results::{Outcome, Point, Record},
    statistics::{auc, wilson_interval},
};

/// Fewer answers than this say nothing by themselves.
const FEWEST: usize = 8;
const MOST_BINS: usize = 8;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    pub score: f64,
    pub right: f64,
    /// Where the share of right answers lies, 95 % sure.
    pub low: f64,
    pub high: f64,
    pub answers: usize,
}

/// How an answer's tokens become one score.
#[derive(Clone, Debug, Serialize)]
pub struct Reliability {
    /// From the least trusted answers to the most trusted.
    pub bins: Vec<Bin>,
    /// How often a right answer has a higher score than a wrong one: 0.5 says nothing, 1
    /// everything. `None` where all answers are right, or none.
    pub separation: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    pub router: String,
    pub point: String,
    pub answers: usize,
    pub mean: Reliability,
    pub lowest: Reliability,
}

/// One for every router that scores, in this order; `random` knows nothing.
pub fn of(record: &Record, routers: &[&str]) -> Vec<Calibration> {
    let mut found: Vec<(f64, Calibration)> = vec![];
    let scored = record.points.iter().filter(|p| !matches!(p.mode, Mode::Verify | Mode::Large));
    for point in scored.filter(|p| !is_random(p.router.as_deref())) {
        let outcomes: Vec<_> = record.outcomes.iter().filter(|o| o.point == point.name).collect();
        let Some(calibration) = calibrate(point, &outcomes) else { continue };
        // The fewer words are the cloud's, the more the scores are about the answer itself.
        let cloud: usize = outcomes.iter().map(|o| o.costs.cloud_tokens).sum();
        let all: usize = outcomes.iter().map(|o| o.costs.tokens).sum();
        let share = cloud as f64 / all.max(1) as f64;
        match found.iter_mut().find(|(_, other)| other.router == calibration.router) {
            Some(other) if other.0 > share => *other = (share, calibration),
            Some(_) => {}
            None => found.push((share, calibration)),
        }
    }
    let place = |c: &Calibration| routers.iter().position(|r| *r == c.router);
    found.sort_by_key(|(_, calibration)| place(calibration).unwrap_or(usize::MAX));
    found.into_iter().map(|(_, calibration)| calibration).collect()
}

fn calibrate(point: &Point, outcomes: &[&Outcome]) -> Option<Calibration> {
    let mut scored = vec![];
    for outcome in outcomes {
        let scores: Vec<f64> =
            outcome.pieces.iter().filter_map(|p| p.score.map(f64::from)).collect();
        if let (Some(right), false) = (outcome.right, scores.is_empty()) {
            let mean = scores.iter().sum::<f64>() / scores.len() as f64;
            let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
            scored.push((mean, lowest, right));
        }
    }
    if scored.is_empty() {
        return None;
    }
    let by = |score: fn(&(f64, f64, bool)) -> f64| {
        let mut pairs: Vec<_> = scored.iter().map(|s| (score(s), s.2)).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Reliability { bins: bins(&pairs), separation: auc(&pairs) }
    };
    Some(Calibration {
        router: point.router.clone().unwrap_or_else(|| point.name.clone()),
        point: point.name.clone(),
        answers: scored.len(),
        mean: by(|s| s.0),
        lowest: by(|s| s.1),
    })
}

/// Bins of about equally many answers; equal scores stay together.
fn bins(sorted: &[(f64, bool)]) -> Vec<Bin> {
    let count = (sorted.len() / FEWEST).clamp(1, MOST_BINS);
    let mut bins = vec![];
    let mut from = 0;
    for number in 1..=count {
        let mut to = (sorted.len() * number / count).max(from);
        while to > from && to < sorted.len() && sorted[to].0 == sorted[to - 1].0 {
            to += 1;
        }
        if to > from {
            let of = &sorted[from..to];
            let right = of.iter().filter(|(_, right)| *right).count();
            let (low, high) = wilson_interval(right, of.len());
            bins.push(Bin {
                score: of.iter().map(|(score, _)| score).sum::<f64>() / of.len() as f64,
                right: right as f64 / of.len() as f64,
                low,
                high,
                answers: of.len(),
            });
        }
        from = to;
    }
    bins
}

/// How well each router's scores tell right answers from wrong ones.
pub fn separations(calibrations: &[Calibration]) -> Grid {
    Grid::new(
        calibrations,
        &[
            ("point", &|c| Some(c.point.clone())),
            ("answers", &|c| Some(c.answers.to_string())),
            ("by mean score", &|c| c.mean.separation.map(decimal::<2>)),
            ("by lowest score", &|c| c.lowest.separation.map(decimal::<2>)),
        ],
    )
}

pub fn bins_of(calibrations: &[Calibration]) -> Grid {
    let mut rows = vec![];
    for calibration in calibrations {
        for (what, by) in [("mean", &calibration.mean), ("lowest", &calibration.lowest)] {
            rows.extend(by.bins.iter().map(|bin| (&calibration.point, what, bin)));
        }
    }
    Grid::new(
        &rows,
        &[
            ("point", &|(point, ..)| Some((*point).clone())),
            ("score of an answer", &|(_, what, _)| Some((*what).to_owned())),
            ("on average", &|(.., bin)| Some(decimal::<3>(bin.score))),
            ("answers", &|(.., bin)| Some(bin.answers.to_string())),
            ("right", &|(.., bin)| Some(percent(bin.right))),
            ("95 % interval", &|(.., bin)| {
                Some(format!("{} – {}", percent(bin.low), percent(bin.high)))
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_like_scores() {
        let sorted: Vec<_> = (0..40).map(|i| (f64::from(i) / 40.0, i >= 20)).collect();
        let found = bins(&sorted);
        assert_eq!(found.iter().map(|b| b.answers).collect::<Vec<_>>(), [8; 5]);
        assert_eq!((found[0].right, found[2].right, found[4].right), (0.0, 0.5, 1.0));
        assert!(found.windows(2).all(|pair| pair[0].score < pair[1].score));
        let level = bins(&[(0.5, true); 40]);
        assert_eq!((level.len(), level[0].answers), (1, 40));
        assert_eq!(bins(&[(0.3, true)]).len(), 1);
    }
}
