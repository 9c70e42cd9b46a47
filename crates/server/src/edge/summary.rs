//! What an answer tells of itself besides its text: the field `tandem`.

use decode::{Accepted, Cloud, Edge, Exchange, Generation, Router, Stats};
use serde::Serialize;
use utoipa::ToSchema;

use super::{config::Mode, error::public, request::GenerationRequest, schema};

/// What a text tells of itself: on its answer, or in a stream on the chunk that ends it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Summary {
    mode: Mode,
    #[schema(required = true)]
    router: Option<String>,
    /// As it stands at the end, where it follows a budget.
    #[schema(required = true)]
    threshold: Option<f64>,
    #[schema(required = true)]
    budget: Option<f64>,
    /// What travelled to the cloud, if it was asked.
    #[schema(required = true, value_type = Option<schema::Exchange>)]
    exchange: Option<Exchange>,
    /// `text` where text travels because ids cannot; no fault.
    #[schema(required = true, value_type = Option<schema::Exchange>)]
    degraded: Option<Exchange>,
    #[schema(required = true)]
    cloud_error: Option<String>,
    #[schema(value_type = schema::Stats)]
    pub stats: Stats,
    /// Every token, where that was asked for and the answer is told all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Token>>)]
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
