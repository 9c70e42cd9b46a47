//! What an answer tells of itself besides its text: the field `tandem`.

use decode::{Accepted, Cloud, Edge, Exchange, Generation, Router, Stats};
use serde::Serialize;

use super::{config::Mode, error::public, request::GenerationRequest};

/// The field `tandem` of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    mode: Mode,
    router: Option<String>,
    /// As it stands at the end, where it follows a budget.
    threshold: Option<f64>,
    budget: Option<f64>,
    exchange: Option<Exchange>,
    /// `text` where ids could not travel.
    degraded: Option<Exchange>,
    cloud_error: Option<String>,
    /// The figures.
    pub stats: Stats,
    /// Every token, where that was asked for and the answer is told all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<Accepted>>,
}

impl Summary {
    /// Of a text as it stands.
    pub fn new<E: Edge, R: Router, C: Cloud>(
        request: &GenerationRequest,
        generation: &Generation<E, R, C>,
    ) -> Self {
        let joint = request.mode == Mode::Joint;
        let exchange = generation.exchange();
        Self {
            mode: request.mode,
            router: joint.then(|| request.judge.name().to_owned()),
            threshold: joint.then(|| plain(request.policy.threshold().value())),
            budget: request.policy.current_budget().filter(|_| joint).map(|b| plain(b.share())),
            exchange,
            degraded: exchange.filter(|e| *e == Exchange::Text),
            cloud_error: generation.cloud_error().map(public),
            stats: generation.transcript().stats(),
            trace: None,
        }
    }
}

/// As people wrote it: 0.2, not 0.20000000298.
pub fn plain(value: f32) -> f64 {
    (f64::from(value) * 1e6).round() / 1e6
}
