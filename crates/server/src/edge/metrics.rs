//! Figures for Prometheus.

use std::{sync::atomic::AtomicU64, time::Duration};

use decode::{Source, Stats};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::http::metrics::RequestCounter;

type Labelled = Family<[(&'static str, String); 1], Counter>;

pub struct Metrics {
    registry: Registry,
    pub requests: RequestCounter,
    tokens: Labelled,
    asks: Counter,
    fallbacks: Counter,
    cancelled: Counter,
    prefilled: Labelled,
    cached: Labelled,
    sent: Counter,
    running: Gauge,
    queued: Gauge,
    first: Histogram,
    between: Histogram,
}

fn histogram(buckets: &[f64]) -> Histogram {
    Histogram::new(buckets.iter().copied())
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("tandem"),
            requests: RequestCounter::default(),
            tokens: Family::default(),
            asks: Counter::default(),
            fallbacks: Counter::default(),
            cancelled: Counter::default(),
            prefilled: Family::default(),
            cached: Family::default(),
            sent: Counter::default(),
            running: Gauge::default(),
            queued: Gauge::default(),
            first: histogram(&[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]),
            between: histogram(&[0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0]),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let r = &mut self.registry;
        self.requests.register(r);
        r.register("tokens", "Tokens written, by who wrote them", self.tokens.clone());
        r.register("asks", "Times the cloud answered", self.asks.clone());
        let help = "Times the edge stood in for a cloud that could not be had";
        r.register("fallbacks", help, self.fallbacks.clone());
        r.register("cancelled", "Texts whose readers went away", self.cancelled.clone());
        let help = "Tokens read before the first was written, by side";
        r.register("prefilled_tokens", help, self.prefilled.clone());
        let help = "Tokens found in a cache instead, by side";
        r.register("cached_tokens", help, self.cached.clone());
        let help = "What left this device for the cloud";
        r.register_with_unit("sent", help, Unit::Bytes, self.sent.clone());
        r.register("running", "Texts being made", self.running.clone());
        r.register("queued", "Requests waiting for a seat", self.queued.clone());
        let help = "From taking a seat to the first token";
        r.register_with_unit("time_to_first_token", help, Unit::Seconds, self.first.clone());
        let help = "Between one accepted span and the next";
        r.register_with_unit("time_between_tokens", help, Unit::Seconds, self.between.clone());
    }

    /// A span came, so long after the one before it; the first, so long after the beginning.
    pub fn span(&self, first: bool, took: Duration) {
        let histogram = if first { &self.first } else { &self.between };
        histogram.observe(took.as_secs_f64());
    }

    /// A text is over.
    pub fn text(&self, stats: &Stats) {
        let cloud = stats.cloud_tokens;
        let edge = stats.tokens - cloud - stats.fallback_tokens;
        let counts = [
            (Source::Edge, edge),
            (Source::Cloud, cloud),
            (Source::Fallback, stats.fallback_tokens),
        ];
        for (source, count) in counts {
            let name = match source {
                Source::Edge => "edge",
                Source::Cloud => "cloud",
                Source::Fallback => "fallback",
            };
            add(self.tokens.get_or_create(&[("source", name.into())]).inner(), count);
        }
        add(self.asks.inner(), stats.asks);
        add(self.fallbacks.inner(), stats.fallbacks);
        add(self.sent.inner(), stats.sent_bytes);
        let side = |side: &str| [("side", side.to_owned())];
        add(self.prefilled.get_or_create(&side("edge")).inner(), stats.edge_prefilled);
        add(self.cached.get_or_create(&side("edge")).inner(), stats.edge_cached);
        let (prefilled, cached) = (stats.cloud_prefilled, stats.cloud_cached);
        add(self.prefilled.get_or_create(&side("cloud")).inner(), prefilled.unwrap_or(0));
        add(self.cached.get_or_create(&side("cloud")).inner(), cached.unwrap_or(0));
    }

    pub fn cancelled(&self) {
        self.cancelled.inc();
    }

    /// All of it, with what is going on at this moment.
    pub fn registry(&self, running: usize, queued: usize) -> &Registry {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        self.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        &self.registry
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
}
