//! What an answer tells of itself: the same in `--json`, in the API and in traces.

use decode::{Accepted, Exchange, FinishReason, Stats};
use serde::Serialize;

use crate::{Generation, Mode, Pair};

/// What there is to say of a text besides its words.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Who wrote.
    pub mode: Mode,
    /// Who judged, in mode joint.
    pub router: Option<String>,
    /// Why that one judged, where it stands in for a trained one that is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_fallback: Option<String>,
    /// As it stands at the end, where it follows a budget.
    pub threshold: Option<f64>,
    /// The share of tokens that was to come from the cloud, if one was given.
    pub budget: Option<f64>,
    /// What really came from it, over every text that shares the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_realised: Option<f64>,
    /// The same seed gives the same text.
    pub seed: u64,
    /// What travelled to the cloud, if it was asked.
    pub exchange: Option<Exchange>,
    /// The cloud's last failure, whether or not it came back.
    pub cloud_error: Option<String>,
    /// Counts and times.
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

/// A whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its words.
    pub text: String,
    /// Why it ends.
    pub finish_reason: FinishReason,
    /// Every token, where it came from and where its time went.
    pub tokens: Vec<Accepted>,
    /// Everything else.
    #[serde(flatten)]
    pub summary: Summary,
}

impl Answer {
    /// Of a text as it stands.
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

/// As people wrote it: 0.2, not 0.20000000298.
pub fn plain(value: f32) -> f64 {
    (f64::from(value) * 1e6).round() / 1e6
}
