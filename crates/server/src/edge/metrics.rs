//! Figures for Prometheus.

use std::time::Duration;

use decode::Stats;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::http::metrics::{HistogramFamily, RequestCounter, register, seconds_by};

/// By pair.
type ByPair<M> = Family<[(&'static str, String); 1], M>;

/// By pair and something else.
type ByPairAnd<M> = Family<[(&'static str, String); 2], M>;

/// The metrics of all pairs, with the name of the pair as a label, and those of the whole server.
pub struct Metrics {
    registry: Registry,
    pub requests: RequestCounter,
    tokens: ByPairAnd<Counter>,
    asks: ByPair<Counter>,
    speculation: ByPairAnd<Counter>,
    provisional: ByPair<Counter>,
    void_steps: ByPair<Counter>,
    fallbacks: ByPair<Counter>,
    failovers: ByPair<Counter>,
    cancelled: ByPair<Counter>,
    prefilled: ByPairAnd<Counter>,
    cached: ByPairAnd<Counter>,
    sent: ByPair<Counter>,
    running: ByPair<Gauge>,
    queued: ByPair<Gauge>,
    first: HistogramFamily<1>,
    between: HistogramFamily<1>,
}

const FIRST_BUCKETS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const BETWEEN_BUCKETS: &[f64] = &[0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tandem");
        let r = &mut registry;
        let fallbacks = "Times the edge stood in for a cloud that could not be reached";
        let provisional = "Tokens the edge read ahead while an answer was on its way";
        let speculation = "Asks during which the edge read ahead, by what the answer was";
        let prefilled = "Tokens read before the first was written, by side";
        let first = "Time from taking a seat to the first token";
        let between = "Time between one accepted span and the next";
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
                let counter: ByPair<Counter> = Family::default();
                let help = "Data sent from this device to the cloud";
                r.register_with_unit("sent", help, Unit::Bytes, counter.clone());
                counter
            },
            running: register(r, "running", "Texts being written"),
            queued: register(r, "queued", "Requests waiting for a seat"),
            first: seconds_by(r, "time_to_first_token", first, FIRST_BUCKETS),
            between: seconds_by(r, "time_between_tokens", between, BETWEEN_BUCKETS),
            registry,
        }
    }
}

impl Metrics {
    /// The figures of one pair. They are told from now on, as zeros until something happens.
    pub fn of_pair(&self, name: &str) -> PairMetrics {
        let pair = [("pair", name.to_owned())];
        let counter = |family: &ByPair<Counter>| family.get_or_create(&pair).clone();
        let gauge = |family: &ByPair<Gauge>| family.get_or_create(&pair).clone();
        PairMetrics {
            name: name.to_owned(),
            tokens: self.tokens.clone(),
            asks: counter(&self.asks),
            speculation: self.speculation.clone(),
            provisional: counter(&self.provisional),
            void_steps: counter(&self.void_steps),
            fallbacks: counter(&self.fallbacks),
            failovers: counter(&self.failovers),
            cancelled: counter(&self.cancelled),
            prefilled: self.prefilled.clone(),
            cached: self.cached.clone(),
            sent: counter(&self.sent),
            running: gauge(&self.running),
            queued: gauge(&self.queued),
            first: self.first.get_or_create(&pair).clone(),
            between: self.between.get_or_create(&pair).clone(),
        }
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// The figures of one pair.
pub struct PairMetrics {
    name: String,
    tokens: ByPairAnd<Counter>,
    asks: Counter,
    speculation: ByPairAnd<Counter>,
    provisional: Counter,
    void_steps: Counter,
    fallbacks: Counter,
    failovers: Counter,
    cancelled: Counter,
    prefilled: ByPairAnd<Counter>,
    cached: ByPairAnd<Counter>,
    sent: Counter,
    running: Gauge,
    queued: Gauge,
    first: Histogram,
    between: Histogram,
}

impl PairMetrics {
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
            self.count(&self.tokens, ("source", source), count);
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
            self.count(&self.speculation, ("outcome", outcome), count);
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
            self.count(&self.prefilled, ("side", side), prefilled);
            self.count(&self.cached, ("side", side), cached);
        }
    }

    fn count(
        &self,
        family: &ByPairAnd<Counter>,
        (label, value): (&'static str, &str),
        count: usize,
    ) {
        let labels = [("pair", self.name.clone()), (label, value.to_owned())];
        family.get_or_create(&labels).inc_by(count as u64);
    }

    pub fn cancelled(&self) {
        self.cancelled.inc();
    }

    /// What is going on at this moment.
    pub fn now(&self, running: usize, queued: usize) {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        self.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_came_of_going_on_is_counted() {
        let metrics = Metrics::default();
        let (pair, _other) = (metrics.of_pair("tandem"), metrics.of_pair("maths"));
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
        pair.text(&stats);
        let mut text = String::new();
        encode(&mut text, metrics.registry()).unwrap();
        for (name, count) in [
            ("provisional_tokens_total{pair=\"tandem\"}", 1),
            ("asks_hidden_total{pair=\"tandem\",outcome=\"confirmed\"}", 2),
            ("asks_hidden_total{pair=\"tandem\",outcome=\"branch\"}", 3),
            ("asks_hidden_total{pair=\"tandem\",outcome=\"contradicted\"}", 4),
            ("asks_hidden_total{pair=\"tandem\",outcome=\"foreseen\"}", 5),
            ("asks_hidden_total{pair=\"tandem\",outcome=\"void\"}", 6),
            ("void_steps_total{pair=\"tandem\"}", 7),
            ("asks_hidden_total{pair=\"tandem\",outcome=\"judged\"}", 8),
            // The other pair wrote nothing.
            ("void_steps_total{pair=\"maths\"}", 0),
        ] {
            assert!(text.contains(&format!("\ntandem_{name} {count}\n")), "{name}: {text}");
        }
    }
}
