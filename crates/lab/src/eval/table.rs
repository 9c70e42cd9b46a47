//! The table: what a record says, point by point.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use decode::{FinishReason, Pace};
use serde::Serialize;
use tandem::Mode;

use crate::{
    eval::{
        costs::TimeSplit,
        price::Price,
        results::{Outcome, Point, Record, Spent},
    },
    statistics::{estimate, median, percentile},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    Small,
    /// Both, token by token.
    Joint,
    /// The large model's text: drafts of the small one, judged in passes over whole drafts.
    Verify,
    /// Both, token by token, by an oracle that knows how likely the large model finds every proposal of
    /// the small one, as no router can.
    #[serde(rename = "token-oracle")]
    TokenOracle,
    Large,
    /// Whole answers, each from one of the two models; chosen afterwards from their answers.
    Query,
    /// Whole answers, each from a model that was right, if one was: no choice between whole answers
    /// does better.
    Oracle,
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub mode: RowKind,
    pub router: Option<String>,
    /// The threshold, fixed or as a budget left it.
    pub threshold: Option<f32>,
    pub budget: Option<f32>,
    /// The time between tokens that was aimed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace_ms: Option<f64>,
    /// Why it was not held within 15 %; `None` where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace_miss: Option<String>,
    pub rtt_ms: Option<f64>,
    /// The simulated network, where the mean does not tell all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    pub questions: usize,
    /// Answers that were cut at the limit of tokens, and judged as they are.
    pub cut: usize,
    /// Share of right answers; `None` for open-ended texts.
    pub accuracy: Option<f64>,
    /// From here to `accuracy_high` lie 95 % of redrawn accuracies.
    pub accuracy_low: Option<f64>,
    pub accuracy_high: Option<f64>,
    /// The part of the way from small to large, in right answers or, for open-ended texts, in likelihood.
    pub gap_recovered: Option<f64>,
    /// Tokens from the cloud, divided by all.
    pub routed_share: f64,
    pub cloud_calls: usize,
    /// Tokens the cloud wrote, look-ahead included.
    pub cloud_tokens: usize,
    /// Tokens the cloud read, where it said so.
    pub cloud_prefilled: Option<usize>,
    /// Tokens the cloud found in its cache, where it said so.
    pub cloud_cached: Option<usize>,
    /// Bytes that left this device, an answer.
    pub sent_bytes_per_answer: f64,
    /// What a thousand answers cost, at the prices that were stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_per_thousand: Option<f64>,
    pub tokens_per_answer: f64,
    pub characters_per_answer: f64,
    /// Gigabytes of weights and caches moved through memory an answer, on both sides.
    pub gigabytes_per_answer: Option<f64>,
    /// What this machine's processors used for an answer, where that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joules_per_answer: Option<f64>,
    /// From the prompt, which neither model has read before, to the first token: the middle of all
    /// answers.
    pub first_token_ms: Option<f64>,
    /// From the first token to the last, divided by the tokens behind the first.
    pub between_tokens_mean_ms: Option<f64>,
    pub between_tokens_p50_ms: Option<f64>,
    pub between_tokens_p95_ms: Option<f64>,
    pub tokens_per_second: Option<f64>,
    /// Milliseconds a token, by where they went.
    pub split: Option<TimeSplit>,
    /// Log-likelihood a character under the large model, for open-ended texts.
    pub likelihood: Option<f64>,
    /// Pairs of words that occur once, divided by all pairs, for open-ended texts.
    pub distinct: Option<f64>,
}

/// One router against another at the same budget, on the same questions.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub of: String,
    pub to: String,
    /// Accuracy of the first less that of the second.
    pub accuracy: f64,
    /// From here to `high` lie 95 % of redrawn differences.
    pub low: f64,
    pub high: f64,
}

/// All rows, and how the first router stands against the others.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Small first, large last, points in the order of their run between them.
    #[serde(rename = "points")]
    pub rows: Vec<Row>,
    /// The first router against every other at the same budget or threshold.
    pub differences: Vec<Difference>,
}

impl Table {
    pub fn of(record: &Record) -> Self {
        Self::priced(record, None)
    }

    /// With what answers cost at these prices.
    pub fn priced(record: &Record, price: Option<Price>) -> Self {
        let rule = Rule { seed: record.about.seed, price };
        let by_point = ByPoint::new(record);
        let alone = &ModelsAlone::new(by_point.first(Mode::Small), by_point.first(Mode::Large));
        let mut rows = vec![];
        for mode in [Mode::Small, Mode::Joint, Mode::Verify, Mode::Large] {
            for point in record.points.iter().filter(|p| p.mode == mode) {
                rows.extend(row(point, by_point.get(&point.name), alone, rule));
            }
        }
        rows.extend(whole_answers(record, &by_point, alone, rule));
        Self { rows, differences: differences(record, &by_point) }
    }
}

/// What each model's answer alone was worth, by question: a gap is that of the questions a point
/// answered.
struct ModelsAlone<'a>(HashMap<&'a str, (f64, f64)>);

impl<'a> ModelsAlone<'a> {
    fn new(small: &[&'a Outcome], large: &[&'a Outcome]) -> Self {
        let large: HashMap<_, _> =
            large.iter().filter_map(|o| Some((o.id.as_str(), worth(o)?))).collect();
        let both = |o: &&'a Outcome| {
            let id = o.id.as_str();
            Some((id, (worth(o)?, *large.get(id)?)))
        };
        Self(small.iter().filter_map(both).collect())
    }

    fn gap(&self, outcomes: &[&Outcome], joint: f64) -> Option<f64> {
        let (mut small, mut large) = (0.0, 0.0);
        for outcome in outcomes {
            let (s, l) = self.0.get(outcome.id.as_str())?;
            (small, large) = (small + s, large + l);
        }
        let count = outcomes.len() as f64;
        gap_recovered(small / count, joint, large / count)
    }
}

/// What an answer is worth: whether it was right or, where none is, how likely the large model finds it.
fn worth(outcome: &Outcome) -> Option<f64> {
    outcome.accuracy().or(outcome.likelihood)
}

/// How much of the way from what the small model's answers are worth to the large one's was made.
fn gap_recovered(small: f64, joint: f64, large: f64) -> Option<f64> {
    let gap = large - small;
    (gap.abs() > 1e-9).then(|| (joint - small) / gap)
}

/// A record, and its answers by the names of their points.
struct ByPoint<'a>(&'a Record, HashMap<&'a str, Vec<&'a Outcome>>);

impl<'a> ByPoint<'a> {
    fn new(record: &'a Record) -> Self {
        let mut by_point: HashMap<_, Vec<_>> = HashMap::new();
        for outcome in &record.outcomes {
            by_point.entry(outcome.point.as_str()).or_default().push(outcome);
        }
        Self(record, by_point)
    }

    fn get(&self, name: &str) -> &[&'a Outcome] {
        self.1.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Those of the first point of this mode.
    fn first(&self, mode: Mode) -> &[&'a Outcome] {
        let point = self.0.points.iter().find(|p| p.mode == mode);
        point.map(|point| self.get(&point.name)).unwrap_or_default()
    }
}

/// How answers become numbers.
#[derive(Clone, Copy)]
struct Rule {
    /// Which answers are redrawn for the intervals.
    seed: u64,
    price: Option<Price>,
}

fn row(point: &Point, outcomes: &[&Outcome], alone: &ModelsAlone, rule: Rule) -> Option<Row> {
    let Rule { seed, price } = rule;
    if outcomes.is_empty() {
        return None;
    }
    let right: Option<Vec<f64>> = outcomes.iter().map(|o| o.accuracy()).collect();
    let accuracy = right.and_then(|right| estimate(&right, seed));
    let count = outcomes.len() as f64;
    let sum = |f: fn(&Outcome) -> usize| outcomes.iter().map(|o| f(o)).sum::<usize>();
    let tokens = sum(|o| o.costs.tokens).max(1);
    let total = |f: fn(&Outcome) -> Option<f64>| outcomes.iter().map(|o| f(o)).sum::<Option<f64>>();
    let between: Vec<f64> =
        outcomes.iter().flat_map(|o| o.costs.between_ms.iter().copied()).collect();
    let behind_first = sum(|o| o.costs.tokens.saturating_sub(1));
    let total_ms: f64 = outcomes.iter().map(|o| o.costs.total_ms).sum();
    let bytes = total(|o| {
        // Bytes of a whole sweep are far below the numbers a float holds exactly.
        o.costs.cloud_bytes.map(|cloud| (cloud + o.costs.edge_bytes) as f64)
    });
    let spent = outcomes.last().and_then(|o| o.spent);
    let likelihood = total(|o| o.likelihood).map(|sum| sum / count);
    let worth = accuracy.map(|e| e.mean).or(likelihood);
    Some(Row {
        name: point.name.clone(),
        mode: match point.mode {
            Mode::Small => RowKind::Small,
            Mode::Joint => RowKind::Joint,
            Mode::Verify if point.oracle.is_some() => RowKind::TokenOracle,
            Mode::Verify => RowKind::Verify,
            Mode::Large => RowKind::Large,
        },
        router: point.router.clone(),
        threshold: point.threshold.or(spent.map(|s| s.threshold)),
        budget: point.budget,
        pace_ms: point.pace_ms,
        pace_miss: pace_miss(point, spent),
        rtt_ms: point.rtt_ms,
        network: point.network.clone(),
        questions: outcomes.len(),
        cut: outcomes.iter().filter(|o| o.finish == FinishReason::Length.name()).count(),
        accuracy: accuracy.map(|e| e.mean),
        accuracy_low: accuracy.map(|e| e.low),
        accuracy_high: accuracy.map(|e| e.high),
        gap_recovered: worth.and_then(|worth| alone.gap(outcomes, worth)),
        routed_share: sum(|o| o.costs.cloud_tokens) as f64 / tokens as f64,
        cloud_calls: sum(|o| o.costs.asks),
        cloud_tokens: sum(|o| o.costs.cloud_decoded),
        cloud_prefilled: outcomes.iter().map(|o| o.costs.cloud_prefilled).sum(),
        cloud_cached: outcomes.iter().map(|o| o.costs.cloud_cached).sum(),
        sent_bytes_per_answer: sum(|o| o.costs.sent_bytes) as f64 / count,
        money_per_thousand: price.and_then(|price| {
            let all: Option<f64> = outcomes.iter().map(|o| price.of(&o.costs)).sum();
            all.map(|all| all / count * 1000.0)
        }),
        tokens_per_answer: tokens as f64 / count,
        characters_per_answer: sum(|o| o.costs.characters) as f64 / count,
        gigabytes_per_answer: bytes.map(|b| b / count / 1e9),
        joules_per_answer: total(|o| o.costs.joules).map(|sum| sum / count),
        first_token_ms: median(outcomes.iter().map(|o| o.costs.first_token_ms)),
        between_tokens_mean_ms: (behind_first > 0 && !between.is_empty())
            .then(|| between.iter().sum::<f64>() / behind_first as f64),
        between_tokens_p50_ms: median(between.iter().copied()),
        between_tokens_p95_ms: percentile(between, 0.95),
        tokens_per_second: (total_ms > 0.0).then(|| tokens as f64 / total_ms * 1000.0),
        split: Some(TimeSplit::per_token(outcomes.iter().map(|o| &o.costs.split), tokens)),
        likelihood,
        distinct: outcomes[0].likelihood.and_then(|_| {
            let texts: Vec<f64> = outcomes.iter().filter_map(|o| distinct(&o.text())).collect();
            estimate(&texts, seed).map(|e| e.mean)
        }),
    })
}

/// Why a point did not hold its pace, by what its policy had seen behind the last answer.
fn pace_miss(point: &Point, spent: Option<Spent>) -> Option<String> {
    let aim = Duration::try_from_secs_f64(point.pace_ms? / 1000.0).ok()?;
    let mut pace = Pace::new(aim, point.least_share.unwrap_or_default());
    pace.resume(spent?.pace?);
    pace.miss().map(|miss| miss.to_string())
}

/// Pairs of words that occur once, divided by all; `None` of fewer than two words.
fn distinct(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut pairs: HashMap<(&str, &str), usize> = HashMap::new();
    for pair in words.windows(2) {
        *pairs.entry((pair[0], pair[1])).or_default() += 1;
    }
    let all: usize = pairs.values().sum();
    (all > 0).then(|| pairs.values().filter(|&&n| n == 1).count() as f64 / all as f64)
}

/// Choices between whole answers: by each router's trust over the prompt at each budget, and by an
/// oracle.
fn whole_answers(record: &Record, by_point: &ByPoint, alone: &ModelsAlone, rule: Rule) -> Vec<Row> {
    let answers = |mode: Mode| -> HashMap<&str, &Outcome> {
        by_point.first(mode).iter().map(|&o| (o.id.as_str(), o)).collect()
    };
    let (small, large) = (answers(Mode::Small), answers(Mode::Large));
    let mut budgets: Vec<f32> = record.points.iter().filter_map(|p| p.budget).collect();
    budgets.sort_by(f32::total_cmp);
    budgets.dedup();
    let both: Vec<_> = record
        .questions
        .iter()
        .filter_map(|q| Some((q, *small.get(q.id.as_str())?, *large.get(q.id.as_str())?)))
        .filter(|(_, small, large)| small.right.is_some() && large.right.is_some())
        .collect();
    let mut orders: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (question, ..) in &both {
        for (router, trust) in &question.trust {
            orders.entry(router).or_default().push(*trust);
        }
    }
    // A router is only compared where it has judged every prompt.
    orders.retain(|_, trust| trust.len() == both.len());
    let mut rows = vec![];
    for budget in budgets {
        let choose = |name: String, mode: RowKind, router: Option<&str>, trust: &[f64]| {
            let mut order: Vec<usize> = (0..both.len()).collect();
            order.sort_by(|&a, &b| trust[a].total_cmp(&trust[b]));
            let pairs: Vec<_> = order.iter().map(|&i| (both[i].1, both[i].2)).collect();
            let chosen = spend(&pairs, budget, mode == RowKind::Oracle);
            let (router, budget) = (router.map(str::to_owned), Some(budget));
            let point = Point { name, mode: Mode::Joint, router, budget, ..Point::default() };
            let row = row(&point, &chosen, alone, rule)?;
            Some(Row { mode, threshold: None, ..row })
        };
        let percent = f64::from((budget * 10_000.0).round()) / 100.0;
        for (router, trust) in &orders {
            let name = format!("whole answers by {router} {percent}%");
            rows.extend(choose(name, RowKind::Query, Some(router), trust));
        }
        // Answers that only the large model got right come first, the cheapest of them first.
        let gain: Vec<f64> = both
            .iter()
            .map(|(_, small, large)| match (small.right, large.right) {
                (Some(false), Some(true)) => large.costs.tokens as f64,
                _ => f64::INFINITY,
            })
            .collect();
        let name = format!("whole answers by an oracle {percent}%");
        rows.extend(choose(name, RowKind::Oracle, None, &gain));
    }
    rows
}

/// Takes the large model's answers from the front until the next would overspend.
fn spend<'a>(
    pairs: &[(&'a Outcome, &'a Outcome)],
    budget: f32,
    only_gains: bool,
) -> Vec<&'a Outcome> {
    let mut tokens: usize = pairs.iter().map(|(small, _)| small.costs.tokens).sum();
    let mut routed = 0;
    let mut open = true;
    let mut chosen = vec![];
    for (small, large) in pairs {
        let after = tokens - small.costs.tokens + large.costs.tokens;
        let spent = (routed + large.costs.tokens) as f64 / after.max(1) as f64;
        open &= spent <= f64::from(budget);
        let gains = small.right == Some(false) && large.right == Some(true);
        if open && (gains || !only_gains) {
            (tokens, routed) = (after, routed + large.costs.tokens);
            chosen.push(*large);
        } else {
            chosen.push(*small);
        }
    }
    chosen
}

fn differences(record: &Record, by_point: &ByPoint) -> Vec<Difference> {
    let right = |name: &str| -> BTreeMap<&str, f64> {
        let outcomes = by_point.get(name).iter();
        outcomes.filter_map(|o| Some((o.id.as_str(), o.accuracy()?))).collect()
    };
    let joint: Vec<&Point> = record.points.iter().filter(|p| p.mode == Mode::Joint).collect();
    let Some(first) = joint.first().map(|p| p.router.clone()) else { return vec![] };
    let mut differences = vec![];
    for one in joint.iter().filter(|p| p.router == first) {
        let ours = right(&one.name);
        let same = |p: &&&Point| {
            let aims = |p: &Point| (p.budget, p.threshold, p.pace_ms, p.least_share);
            let policy = p.like.is_none() && aims(p) == aims(one);
            let network = p.rtt_ms == one.rtt_ms && p.network == one.network;
            (policy || p.like.as_ref() == Some(&one.name)) && network
        };
        for other in joint.iter().filter(same).filter(|p| p.name != one.name) {
            let theirs = right(&other.name);
            let both: Vec<f64> =
                ours.iter().filter_map(|(id, a)| Some(a - theirs.get(id)?)).collect();
            differences.extend(estimate(&both, record.about.seed).map(|e| Difference {
                of: one.name.clone(),
                to: other.name.clone(),
                accuracy: e.mean,
                low: e.low,
                high: e.high,
            }));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap() {
        assert!((gap_recovered(0.4, 0.55, 0.7).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(gap_recovered(0.4, 0.5, 0.4), None);
    }

    #[test]
    fn open_texts_have_a_gap_in_likelihood() {
        let point = |name: &str, mode| Point { name: name.into(), mode, ..Point::default() };
        let points = [("small", Mode::Small), ("top1", Mode::Joint), ("large", Mode::Large)];
        let outcome = |id: &str, point: &str, likelihood| Outcome {
            id: id.into(),
            point: point.into(),
            likelihood: Some(likelihood),
            ..Outcome::default()
        };
        let record = Record {
            points: points.into_iter().map(|(name, mode)| point(name, mode)).collect(),
            outcomes: vec![
                outcome("a", "small", -2.0),
                outcome("b", "small", -1.0),
                outcome("a", "top1", -1.4),
                outcome("b", "top1", -0.6),
                outcome("a", "large", -0.8),
                outcome("b", "large", -0.2),
            ],
            ..Record::default()
        };
        let table = Table::of(&record);
        let gap = |name: &str| {
            let row = table.rows.iter().find(|row| row.name == name).unwrap();
            assert_eq!(row.accuracy, None);
            row.gap_recovered.unwrap()
        };
        // From −1.5 to −0.5 on the mean, and at −1.0.
        assert!((gap("top1") - 0.5).abs() < 1e-9, "{}", gap("top1"));
        assert!(gap("small").abs() < 1e-9 && (gap("large") - 1.0).abs() < 1e-9);
    }
}
