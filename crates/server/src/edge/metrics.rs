//! Figures for Prometheus.

use std::time::Duration;

use decode::Stats;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::http::metrics::{RequestCounter, register, seconds};

type Labelled = Family<[(&'static str, String); 1], Counter>;

pub struct Metrics {
    registry: Registry,
    pub requests: RequestCounter,
    tokens: Labelled,
    asks: Counter,
    speculation: Labelled,
    provisional: Counter,
    void_steps: Counter,
    fallbacks: Counter,
    failovers: Counter,
    cancelled: Counter,
    prefilled: Labelled,
    cached: Labelled,
    sent: Counter,
    running: Gauge,
    queued: Gauge,
    first: Histogram,
    between: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tandem");
        let r = &mut registry;
        let fallbacks = "Times the edge stood in for a cloud that could not be reached";
        let provisional = "Tokens the edge read ahead while an answer was on its way";
        let speculation = "Asks during which the edge read ahead, by what the answer was";
        let prefilled = "Tokens read before the first was written, by side";
        let first = "Time from taking a seat to the first token";
        let first_buckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
        let between = "Time between one accepted span and the next";
        let between_buckets = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];
        Self {
            requests: RequestCounter::new(r),
            tokens: register(r, "tokens", "Tokens written, by who wrote them"),
            asks: register(r, "asks", "Times the cloud answered"),
            speculation: register(r, "asks_hidden", speculation),
            provisional: register(r, "provisional_tokens", provisional),
            void_steps: register(r, "void_steps", "Tokens the edge read ahead for nothing"),
            fallbacks: register(r, "fallbacks", fallbacks),
            failovers: register(r, "cloud_failovers", "Times another of several clouds took over"),
            cancelled: register(r, "cancelled", "Texts whose clients disconnected"),
            prefilled: register(r, "prefilled_tokens", prefilled),
            cached: register(r, "cached_tokens", "Tokens found in a cache instead, by side"),
            sent: {
                let counter: Counter = Counter::default();
                let help = "Data sent from this device to the cloud";
                r.register_with_unit("sent", help, Unit::Bytes, counter.clone());
                counter
            },
            running: register(r, "running", "Texts being written"),
            queued: register(r, "queued", "Requests waiting for a seat"),
            first: seconds(r, "time_to_first_token", first, &first_buckets),
            between: seconds(r, "time_between_tokens", between, &between_buckets),
            registry,
        }
    }
}

impl Metrics {
    /// A span came, so long after the one before it; the first, so long after the beginning.
    pub fn span(&self, first: bool, took: Duration) {
        let histogram = if first { &self.first } else { &self.between };
        histogram.observe(took.as_secs_f64());
    }

    /// A text is over.
    pub fn text(&self, stats: &Stats) {
        let (cloud, fallback) = (stats.cloud_tokens, stats.fallback_tokens);
        let edge = stats.tokens - cloud - fallback;
        for (source, count) in [("edge", edge), ("cloud", cloud), ("fallback", fallback)] {
            self.tokens.get_or_create(&[("source", source.into())]).inc_by(count as u64);
        }
        self.asks.inc_by(stats.asks as u64);
        for (outcome, count) in [
            ("confirmed", stats.confirmed_asks),
            ("branch", stats.branch_asks),
            ("judged", stats.judged_asks),
            ("contradicted", stats.contradicted_asks),
            ("foreseen", stats.foreseen_asks),
            ("void", stats.void_asks),
        ] {
            self.speculation.get_or_create(&[("outcome", outcome.into())]).inc_by(count as u64);
        }
        self.provisional.inc_by(stats.provisional_tokens as u64);
        self.void_steps.inc_by(stats.void_steps as u64);
        self.fallbacks.inc_by(stats.fallbacks as u64);
        self.failovers.inc_by(stats.failovers as u64);
        self.sent.inc_by(stats.sent_bytes as u64);
        for (side, prefilled, cached) in [
            ("edge", stats.edge_prefilled, stats.edge_cached),
            ("cloud", stats.cloud_prefilled.unwrap_or(0), stats.cloud_cached.unwrap_or(0)),
        ] {
            let side = [("side", side.to_owned())];
            self.prefilled.get_or_create(&side).inc_by(prefilled as u64);
            self.cached.get_or_create(&side).inc_by(cached as u64);
        }
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

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_came_of_going_on_is_counted() {
        let metrics = Metrics::default();
        let stats = Stats {
            provisional_tokens: 1,
            confirmed_asks: 2,
            branch_asks: 3,
            contradicted_asks: 4,
            foreseen_asks: 5,
            void_asks: 6,
            void_steps: 7,
            judged_asks: 8,
            ..Stats::default()
        };
        metrics.text(&stats);
        let mut text = String::new();
        encode(&mut text, metrics.registry(0, 0)).unwrap();
        for (name, count) in [
            ("provisional_tokens_total", 1),
            ("asks_hidden_total{outcome=\"confirmed\"}", 2),
            ("asks_hidden_total{outcome=\"branch\"}", 3),
            ("asks_hidden_total{outcome=\"contradicted\"}", 4),
            ("asks_hidden_total{outcome=\"foreseen\"}", 5),
            ("asks_hidden_total{outcome=\"void\"}", 6),
            ("void_steps_total", 7),
            ("asks_hidden_total{outcome=\"judged\"}", 8),
        ] {
            assert!(text.contains(&format!("\ntandem_{name} {count}\n")), "{name}: {text}");
        }
    }
}
