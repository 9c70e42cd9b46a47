//! Answers to look at: where both models together did better than the small one, and where worse.

use std::collections::HashMap;

use serde::Serialize;
use tandem::Mode;

use super::{measure::Measure, numbers::decimal};
use crate::eval::results::{Outcome, Question, Record, TokenRecord};

/// How many of each kind are shown, where there are as many.
const EACH: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Won,
    Lost,
    Missed,
    Likelier,
    Unlikelier,
}

impl Reason {
    pub fn words(self) -> &'static str {
        match self {
            Self::Won => "won: small alone was wrong, together right",
            Self::Lost => "lost: small alone was right, together wrong",
            Self::Missed => "missed: wrong together, large alone was right",
            Self::Likelier => "likelier than the small model's own",
            Self::Unlikelier => "less likely than the small model's own",
        }
    }

    fn is_good(self) -> bool {
        matches!(self, Self::Won | Self::Likelier)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Token {
    pub text: String,
    /// Who wrote it: one of our own words, never the record's.
    pub source: &'static str,
    /// What a pointer on it is told.
    pub hint: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    pub name: String,
    pub verdict: String,
    pub tokens: Vec<Token>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Example {
    pub reason: &'static str,
    /// Whether it speaks for joint decoding.
    pub good: bool,
    pub id: String,
    pub prompt: String,
    pub right: Option<String>,
    pub joint: Answer,
    pub alone: Vec<Answer>,
}

/// How often help helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Questions answered by small alone and together.
    pub questions: usize,
    /// Right only together; or likelier.
    pub won: usize,
    /// Right only alone; or less likely.
    pub lost: usize,
    /// Wrong both times, where large alone was right.
    pub missed: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Examples {
    pub point: String,
    pub changes: Changes,
    pub shown: Vec<Example>,
}

#[derive(Clone, Copy)]
struct Case<'a> {
    question: &'a Question,
    small: &'a Outcome,
    joint: &'a Outcome,
    large: Option<&'a Outcome>,
}

/// Examples of a point, in the order of the questions: nobody picked them. Texts without a right
/// answer are taken by how far their likelihood moved.
pub fn of(record: &Record, point: &str, measure: Measure) -> Examples {
    let mut all: Vec<(Reason, f64, Case)> = vec![];
    let mut changes = Changes::default();
    for case in cases(record, point) {
        let worth = |outcome| measure.weigh(outcome);
        let Some((small, joint)) = worth(case.small).zip(worth(case.joint)) else { continue };
        changes.questions += 1;
        let Some(reason) = case.reason(measure, joint - small) else { continue };
        match reason {
            Reason::Missed => changes.missed += 1,
            _ if reason.is_good() => changes.won += 1,
            _ => changes.lost += 1,
        }
        all.push((reason, (joint - small).abs(), case));
    }
    // Answers are right or wrong, so that these keep their order; what was lost comes before what
    // was only missed.
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (good, bad): (Vec<_>, Vec<_>) = all.into_iter().partition(|(reason, ..)| reason.is_good());
    let more_good = EACH.max((2 * EACH).saturating_sub(bad.len()));
    let good: Vec<_> = good.into_iter().take(more_good).collect();
    let bad = bad.into_iter().take(2 * EACH - good.len().min(2 * EACH));
    let shown =
        good.iter().copied().chain(bad).map(|(reason, _, case)| case.example(reason)).collect();
    Examples { point: point.to_owned(), changes, shown }
}

fn cases<'a>(record: &'a Record, point: &str) -> Vec<Case<'a>> {
    let answers = |name: Option<&str>| -> HashMap<&str, &Outcome> {
        let of = record.outcomes.iter().filter(|o| Some(o.point.as_str()) == name);
        of.map(|o| (o.id.as_str(), o)).collect()
    };
    let alone = |mode: Mode| {
        answers(record.points.iter().find(|p| p.mode == mode).map(|p| p.name.as_str()))
    };
    let (small, joint, large) = (alone(Mode::Small), answers(Some(point)), alone(Mode::Large));
    let case = |question: &'a Question| {
        let id = question.id.as_str();
        let (small, joint) = (small.get(id).copied()?, joint.get(id).copied()?);
        Some(Case { question, small, joint, large: large.get(id).copied() })
    };
    record.questions.iter().filter_map(case).collect()
}

impl Case<'_> {
    fn reason(&self, measure: Measure, gain: f64) -> Option<Reason> {
        let large = self.large.and_then(|o| o.right) == Some(true);
        match measure {
            Measure::Accuracy if gain > 0.0 => Some(Reason::Won),
            Measure::Accuracy if gain < 0.0 => Some(Reason::Lost),
            Measure::Accuracy => {
                (large && self.joint.right == Some(false)).then_some(Reason::Missed)
            }
            Measure::Likelihood if gain > 0.0 => Some(Reason::Likelier),
            Measure::Likelihood if gain < 0.0 => Some(Reason::Unlikelier),
            Measure::Likelihood => None,
        }
    }

    fn example(&self, reason: Reason) -> Example {
        Example {
            reason: reason.words(),
            good: reason.is_good(),
            id: self.question.id.clone(),
            prompt: self.question.prompt.clone(),
            right: self.question.right.clone(),
            joint: answer(self.joint),
            alone: [Some(self.small), self.large].into_iter().flatten().map(answer).collect(),
        }
    }
}

fn answer(outcome: &Outcome) -> Answer {
    let mut verdict: Vec<String> = vec![];
    verdict.extend(outcome.right.map(|right| if right { "right" } else { "wrong" }.to_owned()));
    verdict.extend(outcome.conclusion.as_ref().map(|said| format!("said {said}")));
    verdict.extend(outcome.likelihood.map(|l| format!("log-likelihood {}", decimal::<2>(l))));
    if outcome.finish == "length" {
        verdict.push("cut at the limit".into());
    }
    Answer {
        name: outcome.point.clone(),
        verdict: verdict.join(", "),
        tokens: outcome.pieces.iter().map(token).collect(),
    }
}

fn token(piece: &TokenRecord) -> Token {
    let source = match piece.source.as_str() {
        "edge" => "edge",
        "cloud" => "cloud",
        "fallback" => "fallback",
        _ => "other",
    };
    let trust = piece.score.map(|score| format!(", trust in the edge {score:.3}"));
    let hint = format!("{source}{}", trust.unwrap_or_default());
    Token { text: piece.text.clone(), source, hint }
}
