//! What makes one way to decode better than another: right answers, or, where none is right, what
//! the large model thinks of a text.

use std::ops::Range;

use serde::Serialize;

use super::numbers::{decimal, percent, short_percent};
use crate::{
    eval::{
        results::{Outcome, Record},
        table::Row,
    },
    statistics::{Estimate, estimate},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    Accuracy,
    /// The log-likelihood a character under the large model.
    Likelihood,
}

impl Measure {
    /// Likelihood only where no answer is right or wrong.
    pub fn of(record: &Record) -> Self {
        let judged = record.outcomes.iter().any(|o| o.right.is_some());
        let weighed = record.outcomes.iter().any(|o| o.likelihood.is_some());
        if weighed && !judged { Self::Likelihood } else { Self::Accuracy }
    }

    /// What a row is worth; `None` where that is not known.
    pub fn read(self, row: &Row, record: &Record) -> Option<Estimate> {
        match self {
            Self::Accuracy => Some(Estimate {
                mean: row.accuracy?,
                low: row.accuracy_low?,
                high: row.accuracy_high?,
            }),
            Self::Likelihood => {
                let of = record.outcomes.iter().filter(|o| o.point == row.name);
                let values: Option<Vec<f64>> = of.map(|o| o.likelihood).collect();
                estimate(&values?, record.about.seed)
            }
        }
    }

    /// What one answer is worth.
    pub fn weigh(self, outcome: &Outcome) -> Option<f64> {
        match self {
            Self::Accuracy => outcome.accuracy(),
            Self::Likelihood => outcome.likelihood,
        }
    }

    /// As an axis names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "right answers",
            Self::Likelihood => "log-likelihood a character",
        }
    }

    /// As a title begins.
    pub fn title(self) -> &'static str {
        match self {
            Self::Accuracy => "Accuracy",
            Self::Likelihood => "Likelihood",
        }
    }

    /// Its values that can be.
    pub fn possible(self) -> Range<f64> {
        match self {
            Self::Accuracy => 0.0..1.0,
            Self::Likelihood => f64::NEG_INFINITY..0.0,
        }
    }

    /// No plot of it is narrower.
    pub fn least(self) -> f64 {
        match self {
            Self::Accuracy => 0.1,
            Self::Likelihood => 0.05,
        }
    }

    /// What it cannot tell.
    pub fn limits(self) -> Option<&'static str> {
        match self {
            Self::Accuracy => None,
            Self::Likelihood => Some(
                "Likelihood is the large model’s own opinion: it favours texts like its own, \
                 common words and repetition. A text is not good because the large model finds it \
                 likely; read it beside distinctness, length and the texts themselves.",
            ),
        }
    }

    /// A value in a sentence.
    pub fn number(self, value: f64) -> String {
        match self {
            Self::Accuracy => percent(value),
            Self::Likelihood => decimal::<3>(value),
        }
    }

    /// A value on an axis.
    pub fn tick(self) -> fn(f64) -> String {
        match self {
            Self::Accuracy => short_percent,
            Self::Likelihood => decimal::<2>,
        }
    }
}
