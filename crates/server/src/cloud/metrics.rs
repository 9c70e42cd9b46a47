//! Figures for Prometheus.

use std::sync::{Arc, atomic::Ordering};

use ::cloud::{
    protocol::Cost,
    service::{Collector, Observer},
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::http::metrics::RequestCounter;

pub(crate) struct Metrics {
    registry: Registry,
    pub requests: RequestCounter,
    prefilled: Counter,
    cached: Counter,
    decoded: Counter,
    sessions: Gauge,
    queued: Histogram,
    work: Histogram,
    collector: Option<Arc<dyn Collector>>,
    collected: Counter,
    lost: Counter,
}

impl Metrics {
    pub fn new(collector: Option<Arc<dyn Collector>>) -> Self {
        let times = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
        let mut metrics = Self {
            registry: Registry::with_prefix("tandem_cloud"),
            requests: RequestCounter::default(),
            prefilled: Counter::default(),
            cached: Counter::default(),
            decoded: Counter::default(),
            sessions: Gauge::default(),
            queued: Histogram::new(times),
            work: Histogram::new(times),
            collector,
            collected: Counter::default(),
            lost: Counter::default(),
        };
        let r = &mut metrics.registry;
        metrics.requests.register(r);
        r.register("prefilled_tokens", "Tokens read for answers", metrics.prefilled.clone());
        r.register("cached_tokens", "Tokens found in the cache", metrics.cached.clone());
        r.register("decoded_tokens", "Tokens written", metrics.decoded.clone());
        r.register("sessions", "Sessions that are open", metrics.sessions.clone());
        let help = "What an ask waited for others";
        r.register_with_unit("queued", help, Unit::Seconds, metrics.queued.clone());
        let help = "What an ask took to read and write";
        r.register_with_unit("work", help, Unit::Seconds, metrics.work.clone());
        if metrics.collector.is_some() {
            let help = "Samples of live use taken for training";
            r.register("collected_samples", help, metrics.collected.clone());
            let help = "Samples of live use that could not be kept";
            r.register("lost_samples", help, metrics.lost.clone());
        }
        metrics
    }

    /// All of it, with what is going on at this moment.
    pub fn registry(&self, sessions: usize) -> &Registry {
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        if let Some(collector) = &self.collector {
            // The collector counts for itself; this is where the two are brought together.
            let counts = collector.counts();
            self.collected.inner().store(counts.taken, Ordering::Relaxed);
            self.lost.inner().store(counts.lost, Ordering::Relaxed);
        }
        &self.registry
    }
}

impl Observer for Metrics {
    fn answered(&self, cost: &Cost) {
        self.prefilled.inc_by(cost.prefilled as u64);
        self.cached.inc_by(cost.cached as u64);
        self.decoded.inc_by(cost.decoded as u64);
        self.queued.observe(cost.queued_ms / 1000.0);
        self.work.observe((cost.prefill_ms + cost.decode_ms) / 1000.0);
    }
}
