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

    /// How it is named, written and drawn.
    pub fn presentation(self) -> &'static Presentation {
        match self {
            Self::Accuracy => &ACCURACY,
            Self::Likelihood => &LIKELIHOOD,
        }
    }
}

/// How a measure is named, written and drawn.
pub struct Presentation {
    /// As a title begins.
    pub title: &'static str,
    /// As an axis names it.
    pub name: &'static str,
    pub possible: Range<f64>,
    /// No axis of it is shorter.
    pub least: f64,
    /// A value in a sentence.
    pub number: fn(f64) -> String,
    /// A value on an axis.
    pub tick: fn(f64) -> String,
    /// What it cannot tell.
    pub limits: Option<&'static str>,
}

static ACCURACY: Presentation = Presentation {
    title: "Accuracy",
    name: "right answers",
    possible: 0.0..1.0,
    least: 0.1,
    number: percent,
    tick: short_percent,
    limits: None,
};

static LIKELIHOOD: Presentation = Presentation {
    title: "Likelihood",
    name: "log-likelihood a character",
    possible: f64::NEG_INFINITY..0.0,
    least: 0.05,
    number: decimal::<3>,
    tick: decimal::<2>,
    limits: Some(
        "Likelihood is the large model’s own opinion: it favours texts like its own, common words \
         and repetition. A text is not good because the large model finds it likely; read it beside \
         distinctness, length and the texts themselves.",
    ),
};
