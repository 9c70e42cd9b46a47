//! What a router file says about itself.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{features::FEATURES, tokens::TOKEN_WIDTH};

/// The latest format this program reads; it writes the first that knows the [inputs](Inputs::format).
pub const FORMAT: u32 = 2;

/// What a router file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    pub format: u32,
    /// The length of the model's hidden state.
    pub hidden: usize,
    pub inputs: Inputs,
    /// The fingerprint of the model and its adapters: no other model's states mean the same.
    pub model: String,
    /// The model's name, for people.
    pub model_name: String,
    pub objective: Objective,
    /// A digest of the samples.
    pub data: String,
    /// Whether the samples were every token rather than word boundaries.
    pub ids: bool,
    pub calibration: Calibration,
    pub report: Report,
}

/// What the first layer is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inputs {
    #[serde(rename = "hidden")]
    Hidden,
    /// The hidden state followed by the [features](mod@crate::features) of the logits.
    #[serde(rename = "hidden+logits")]
    HiddenLogits,
    /// The same, followed by what stands for the [best two tokens](crate::tokens). Such a router is
    /// read but not trained here: samples do not hold tokens.
    #[serde(rename = "hidden+logits+tokens")]
    HiddenLogitsTokens,
}

/// What a router is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Objective {
    /// The preference between keeping and asking, roll-outs included.
    #[serde(rename = "citer")]
    Citer,
    /// The same without any roll-out.
    #[serde(rename = "citer-s")]
    CiterS,
    /// The likelihood of the reference under the mixture of both models.
    #[serde(rename = "co-llm")]
    CoLlm,
    /// Whether the cloud would have said the same.
    #[serde(rename = "agree")]
    Agree,
    /// Whether the small model's whole answer will do, judged behind the prompt.
    #[serde(rename = "query")]
    Query,
}

/// Numbers from training, on examples that neither the weights nor the calibration have seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Samples the weights were fitted to.
    pub samples: usize,
    /// Examples those are from.
    pub examples: usize,
    /// Samples these numbers are from.
    pub held_out: usize,
    /// Mean log loss of the scores.
    pub loss: f32,
    /// Area under the ROC curve.
    pub auc: f32,
    /// Average precision of finding the positions to ask at.
    pub average_precision: f32,
    /// Expected calibration error, in ten bins.
    pub ece: f32,
}

/// From shares of asked positions to thresholds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    points: Vec<Point>,
}

/// One measured pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Share of positions asked at, in 0..=1.
    pub share: f32,
    /// The threshold that gives it.
    pub threshold: f32,
}

impl Calibration {
    /// Sorts the points by share. Points outside 0..=1 are left out.
    pub fn new(mut points: Vec<Point>) -> Self {
        points.retain(Point::valid);
        points.sort_by(|a, b| a.share.total_cmp(&b.share));
        Self { points }
    }

    /// The points, sorted by share.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether it is as [`Calibration::new`] makes it: files may hold anything.
    pub(crate) fn valid(&self) -> bool {
        self.points.iter().all(Point::valid) && self.points.is_sorted_by_key(|point| point.share)
    }
}

impl Point {
    fn valid(&self) -> bool {
        (0.0..=1.0).contains(&self.share) && (0.0..=1.0).contains(&self.threshold)
    }
}

impl Report {
    pub(crate) fn valid(&self) -> bool {
        [self.loss, self.auc, self.average_precision, self.ece].iter().all(|n| n.is_finite())
    }
}

impl Inputs {
    /// The first format of router files that has them.
    pub fn format(self) -> u32 {
        match self {
            Self::Hidden | Self::HiddenLogits => 1,
            Self::HiddenLogitsTokens => 2,
        }
    }

    /// How many numbers the first layer is given; `None` when they are too many to count.
    pub fn width(self, hidden: usize) -> Option<usize> {
        match self {
            Self::Hidden => Some(hidden),
            Self::HiddenLogits => hidden.checked_add(FEATURES),
            Self::HiddenLogitsTokens => hidden.checked_add(FEATURES + 2 * TOKEN_WIDTH),
        }
    }
}

/// A name that is not one of those there are.
#[derive(Debug, Error)]
#[error("there is no {what} {given:?}: choose {choices}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    choices: &'static str,
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for Inputs {
    type Err = UnknownName;

    /// Reads the name of inputs that a router can be trained with here.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let choices = "hidden or hidden+logits";
        [Self::Hidden, Self::HiddenLogits]
            .into_iter()
            .find(|inputs| inputs.to_string() == text)
            .ok_or(UnknownName { what: "router input", given: text.into(), choices })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for Objective {
    type Err = UnknownName;

    /// Reads what a router of tokens can be trained for.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let choices = "citer, citer-s, co-llm or agree";
        [Self::Citer, Self::CiterS, Self::CoLlm, Self::Agree]
            .into_iter()
            .find(|objective| objective.to_string() == text)
            .ok_or(UnknownName { what: "objective", given: text.into(), choices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_sorted_and_those_outside_are_left_out() {
        let point = |share, threshold| Point { share, threshold };
        let calibration = Calibration::new(vec![point(0.2, 0.6), point(0.1, 0.4), point(2.0, 0.1)]);
        assert_eq!(calibration.points(), [point(0.1, 0.4), point(0.2, 0.6)]);
    }

    #[test]
    fn names_are_the_same_in_files_and_arguments() {
        for name in ["citer", "citer-s", "co-llm", "agree"] {
            let objective: Objective = name.parse().unwrap();
            assert_eq!(serde_json::to_string(&objective).unwrap(), format!("{name:?}"));
        }
        for name in ["hidden", "hidden+logits"] {
            let inputs: Inputs = name.parse().unwrap();
            assert_eq!(serde_json::to_string(&inputs).unwrap(), format!("{name:?}"));
        }
        assert!("dpo".parse::<Objective>().unwrap_err().to_string().contains("co-llm"));
        assert!("logits".parse::<Inputs>().unwrap_err().to_string().contains("hidden+logits"));
    }
}
