//! The summary of an answer: the same fields in `--json`, in the API and in traces.

use decode::{Accepted, Exchange, FinishReason, Stats};
use serde::Serialize;

use crate::{Generation, Mode, Pair};

/// How a text was generated, without the text itself.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = TextSummary))]
pub struct Summary {
    /// Which models could write.
    pub mode: Mode,
    /// The router's name, in mode joint.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub router: Option<String>,
    /// Why no trained router was used, if it is a substitute for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_fallback: Option<String>,
    /// The threshold at the end of the text; a budget may have moved it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub threshold: Option<f64>,
    /// The largest share of tokens from the cloud, if a budget was given.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub budget: Option<f64>,
    /// The share that really came from it, over every text with the same budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_realised: Option<f64>,
    /// The seed of the text, with which it can be generated again.
    pub seed: u64,
    /// Whether ids or text were exchanged with the cloud, if it was asked.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub exchange: Option<Exchange>,
    /// The cloud's last failure, even if it has recovered since.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub cloud_error: Option<String>,
    /// Counts, speeds and times.
    pub stats: Stats,
}

impl Summary {
    pub(crate) fn new<P: Pair>(generation: &Generation<P>) -> Self {
        let request = generation.request();
        let joint = request.mode == Mode::Joint;
        let budget = request.policy.current_budget().filter(|_| joint);
        Self {
            mode: request.mode,
            router: joint.then(|| request.router.name().to_owned()),
            router_fallback: request.router.fallback().filter(|_| joint).map(String::from),
            threshold: joint.then(|| plain(request.policy.threshold().value())),
            budget: budget.as_ref().map(|budget| plain(budget.share())),
            budget_realised: budget.and_then(|budget| budget.realised()),
            seed: request.sampling.seed,
            exchange: generation.exchange(),
            cloud_error: generation.cloud_error().map(ToString::to_string),
            stats: generation.transcript().stats(),
        }
    }
}

/// A finished answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The text that was shown.
    pub text: String,
    /// Why the text ended.
    pub finish_reason: FinishReason,
    /// Every token with its source, score and times.
    pub tokens: Vec<Accepted>,
    /// How the text was generated.
    #[serde(flatten)]
    pub summary: Summary,
}

impl Answer {
    /// The answer as far as it has been generated.
    pub fn new<P: Pair>(generation: &Generation<P>) -> Self {
        let transcript = generation.transcript();
        Self {
            text: transcript.text(),
            finish_reason: transcript.finish_reason().unwrap_or(FinishReason::Error),
            tokens: transcript.shown().to_vec(),
            summary: generation.summary(),
        }
    }
}

/// Rounds a number so that it prints as people wrote it: 0.2, not 0.20000000298.
pub fn plain(value: f32) -> f64 {
    (f64::from(value) * 1e6).round() / 1e6
}
