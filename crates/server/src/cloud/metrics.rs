//! Figures for Prometheus.

use std::sync::{Arc, atomic::Ordering};

use ::cloud::{
    protocol::Cost,
    service::{Collector, Observer},
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::http::metrics::{RequestCounter, register, seconds};

pub(crate) struct Metrics {
    registry: Registry,
    pub requests: RequestCounter,
    prefilled: Counter,
    cached: Counter,
    decoded: Counter,
    sessions: Gauge,
    queued: Histogram,
    work: Histogram,
    /// With what it took and what it lost.
    collector: Option<(Arc<dyn Collector>, Counter, Counter)>,
}

impl Metrics {
    pub fn new(collector: Option<Arc<dyn Collector>>) -> Self {
        let mut registry = Registry::with_prefix("tandem_cloud");
        let r = &mut registry;
        let times = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
        Self {
            requests: RequestCounter::new(r),
            prefilled: register(r, "prefilled_tokens", "Tokens read for answers"),
            cached: register(r, "cached_tokens", "Tokens found in the cache"),
            decoded: register(r, "decoded_tokens", "Tokens written"),
            sessions: register(r, "sessions", "Sessions that are open"),
            queued: seconds(r, "queued", "Time an ask waited for others", &times),
            work: seconds(r, "work", "Time an ask took to read and write", &times),
            collector: collector.map(|collector| {
                let help = "Samples of live use taken for training";
                let collected = register(r, "collected_samples", help);
                let help = "Samples of live use that could not be kept";
                (collector, collected, register(r, "lost_samples", help))
            }),
            registry,
        }
    }

    /// All of it, with what is going on at this moment.
    pub fn registry(&self, sessions: usize) -> &Registry {
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        if let Some((collector, collected, lost)) = &self.collector {
            // The collector counts for itself; this is where the two are brought together.
            let counts = collector.counts();
            collected.inner().store(counts.taken, Ordering::Relaxed);
            lost.inner().store(counts.lost, Ordering::Relaxed);
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
