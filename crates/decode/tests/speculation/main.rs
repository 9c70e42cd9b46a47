//! Whatever comes when: a session that goes on while answers are on their way writes the tokens of
//! one that waits for them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod network;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use network::{Network, SlowEdge};
use proptest::prelude::*;
use tandem_decode::{
    Accepted, Budget, BudgetState, Exchange, FinishReason, Limits, OnCloudError, Router, Routing,
    Sampling, Score, Session, SessionError, SessionInput, Stats, Step, Threshold, ThresholdPolicy,
    Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
    trace::Speculation,
};

const PIECES: &[&str] = &[
    " the", " cat", " sat", ".", ",", "\n", " (", "A", ")", "中", "文", "é", " 1", "9", "ing",
    "😀", " ",
];

/// Trust is the gap between the two highest probabilities.
struct Margin;

impl Router for Margin {
    fn score(&self, step: &Step) -> Score {
        let distribution = step.distribution();
        Score::new(distribution.top1 - distribution.top2)
    }
}

#[derive(Clone, Debug)]
struct Case {
    edge: u64,
    cloud: u64,
    network: u64,
    slowest: usize,
    dead: u64,
    sampling: Sampling,
    limits: Limits,
    context: usize,
    exchange: Exchange,
    threshold: f32,
    /// Share, and whether it is strict.
    budget: Option<(f32, bool)>,
    on_error: OnCloudError,
}

fn cases() -> impl Strategy<Value = Case> {
    let models = (any::<u64>(), any::<u64>(), any::<u64>(), 0usize..40);
    let dead = prop_oneof![3 => Just(0u64), 1 => 2u64..9];
    let stops = prop_oneof![3 => Just(vec![]), 1 => Just(vec![" cat.".to_owned(), "中文".into()])];
    let how = (0..3, any::<u64>(), 1usize..80, stops, prop_oneof![Just(1000usize), 8usize..60]);
    let budget = prop_oneof![Just(None), (0.05f32..0.9, any::<bool>()).prop_map(Some)];
    let exchange = prop_oneof![Just(Exchange::Ids), Just(Exchange::Text)];
    let on_error = prop_oneof![Just(OnCloudError::Keep), Just(OnCloudError::Fail)];
    (models, dead, how, 0f32..=1.0, budget, exchange, on_error).prop_map(
        |(models, dead, how, threshold, budget, exchange, on_error)| {
            let (edge, cloud, network, slowest) = models;
            let (warm, seed, max_tokens, stops, context) = how;
            let repetition_penalty = if warm == 2 { 1.3 } else { 1.0 };
            let temperature = warm as f32 * 0.6;
            Case {
                edge,
                cloud,
                network,
                slowest,
                dead,
                sampling: Sampling { temperature, repetition_penalty, seed, ..Sampling::default() },
                limits: Limits { max_tokens, stops },
                context,
                exchange,
                threshold,
                budget,
                on_error,
            }
        },
    )
}

#[derive(Debug)]
struct Outcome {
    tokens: Vec<Accepted>,
    streamed: String,
    text: String,
    reason: Option<FinishReason>,
    error: Option<String>,
    budget: Option<BudgetState>,
    stats: Stats,
    /// Prompt and text, and how much of it is in the edge's cache.
    context: Vec<Token>,
    cache: Vec<Token>,
    most_on_their_way: usize,
    /// How many requests were made, and how many of them judged several places.
    requests: usize,
    judgements: usize,
    forks: usize,
}

/// How a session goes on while it waits.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    asks: usize,
    tokens: usize,
    warm: bool,
    branches: usize,
    judges: bool,
}

/// Waits for every answer.
const WAITS: Way = Way { asks: 0, tokens: 1, warm: false, branches: 0, judges: false };

fn ways() -> impl Strategy<Value = Way> {
    let way = (0usize..5, 1usize..5, any::<bool>(), 0usize..4, any::<bool>());
    way.prop_map(|(asks, tokens, warm, branches, judges)| Way {
        asks,
        tokens,
        warm,
        branches,
        judges,
    })
}

impl Case {
    fn run(&self, way: Way) -> Outcome {
        let model = FakeModel::new(self.edge, PIECES);
        let prompt = model.vocabulary.encode("Hello");
        let other = FakeModel::new(self.cloud, PIECES);
        let accepted = Arc::new(AtomicUsize::new(0));
        let mut network = Network {
            agrees: FakeCloud::new(model.clone(), prompt.clone(), self.exchange),
            differs: FakeCloud::new(other, prompt.clone(), self.exchange),
            seed: self.network,
            slowest: self.slowest,
            dead: self.dead,
            judges: way.judges,
            judgements: 0,
            asks: 0,
            accepted: accepted.clone(),
            on_their_way: Arc::default(),
            most: 0,
        };
        let edge = FakeEdge::new(model, self.context);
        let (seed, forks) = (self.network, Arc::new(AtomicUsize::new(0)));
        let edge = SlowEdge { edge, seed, steps: 0, forks: forks.clone(), fork: false };
        let policy = match self.budget {
            Some((share, true)) => ThresholdPolicy::budget(Budget::new(share, []).strict()),
            Some((share, false)) => ThresholdPolicy::budget(Budget::new(share, [])),
            None => Threshold::new(self.threshold).unwrap().into(),
        };
        let on_error = self.on_error;
        let routing =
            Routing { router: Margin, policy: policy.clone(), cloud: &mut network, on_error };
        let mut context = prompt.clone();
        let input = SessionInput {
            prompt,
            written: vec![],
            sampling: self.sampling,
            limits: self.limits.clone(),
        };
        let session = Session::new(edge, Some(routing), input).unwrap();
        let session = session.with_asks_in_flight(way.asks).with_branches(way.branches);
        let session = session.with_judged_asks(way.judges);
        let mut session = session.with_ask_tokens(way.tokens);
        if way.warm {
            session = session.with_warm_cloud();
        }
        let mut streamed = String::new();
        let error = block_on(async {
            loop {
                match session.next().await {
                    Ok(Some(span)) => streamed += &span.text(),
                    Ok(None) => return None,
                    Err(SessionError::Cloud(error)) => return Some(error.to_string()),
                    Err(error) => panic!("{error}"),
                }
                accepted.store(session.transcript().tokens().len(), Ordering::Relaxed);
            }
        });
        let (edge, _, transcript) = session.into_parts();
        context.extend(transcript.tokens());
        Outcome {
            tokens: transcript.shown().to_vec(),
            streamed,
            text: transcript.text(),
            reason: transcript.finish_reason(),
            error,
            budget: policy.current_budget().map(|budget| budget.state()),
            stats: transcript.stats(),
            context,
            cache: edge.edge.cache,
            most_on_their_way: network.most,
            requests: network.asks,
            judgements: network.judgements,
            forks: forks.load(Ordering::Relaxed),
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_tokens_are_those_of_the_loop_that_waits(case in cases(), way in ways()) {
        let waits = Way { branches: way.branches, judges: way.judges, ..WAITS };
        let (waiting, going_on) = (case.run(waits), case.run(way));
        // Whether a cloud could be asked is known sooner where it is warm.
        let told = |tokens: &[Accepted]| -> Vec<_> {
            let eligible = |t: &Accepted| t.eligible.filter(|_| !way.warm);
            tokens.iter().map(|t| (t.id, t.text.clone(), t.source, t.score, eligible(t))).collect()
        };
        prop_assert_eq!(told(&going_on.tokens), told(&waiting.tokens));
        prop_assert_eq!(&going_on.text, &waiting.text);
        prop_assert_eq!(&going_on.streamed, &waiting.streamed);
        prop_assert_eq!(going_on.reason, waiting.reason);
        prop_assert_eq!(going_on.error, waiting.error);
        prop_assert_eq!(going_on.budget, waiting.budget);
        prop_assert_eq!(going_on.stats.asks + going_on.stats.foreseen_asks, waiting.stats.asks);
        prop_assert_eq!(going_on.stats.fallbacks, waiting.stats.fallbacks);
        // Nothing provisional is left behind, and no more is on its way than was allowed.
        prop_assert!(going_on.context.starts_with(&going_on.cache));
        prop_assert!(going_on.cache.starts_with(&waiting.cache));
        // Asking ahead for the prompt's sake comes on top.
        prop_assert!(going_on.most_on_their_way <= way.asks.max(1) + usize::from(way.warm));
        // Whoever waits has no branches, and nothing to judge.
        prop_assert_eq!(waiting.forks + waiting.judgements, 0);
        let void = [waiting.stats.void_asks, waiting.stats.void_steps];
        prop_assert_eq!(void, [0, 0]);
        prop_assert!(waiting.tokens.iter().all(|t| t.speculation.is_none()));
    }
}

#[test]
fn a_warm_cloud_is_opened_and_asked_while_the_edge_reads() {
    let mut warmed = 0;
    for seed in 0..40 {
        let case = Case {
            edge: seed,
            cloud: seed + 1000,
            network: seed,
            slowest: 0,
            dead: 0,
            sampling: Sampling::default(),
            limits: Limits { max_tokens: 1, stops: vec![] },
            context: 1000,
            exchange: Exchange::Ids,
            threshold: 0.0,
            budget: None,
            on_error: OnCloudError::Keep,
        };
        // Nothing is doubtful, so whatever is asked is asked ahead, and void.
        assert_eq!(case.run(Way { asks: 3, ..WAITS }).stats.void_asks, 0);
        warmed += case.run(Way { asks: 3, warm: true, ..WAITS }).stats.void_asks;
    }
    assert!(warmed > 5, "{warmed}");
}

/// The property would hold for a loop that never goes on.
#[test]
fn it_does_go_on_in_both_exchanges() {
    for exchange in [Exchange::Ids, Exchange::Text] {
        let mut sum = Stats::default();
        let (mut hit, mut spared) = (0, 0);
        for seed in 0..60 {
            let case = Case {
                edge: seed,
                cloud: seed + 1000,
                network: seed,
                slowest: 30,
                dead: 0,
                sampling: Sampling::default(),
                limits: Limits { max_tokens: 60, stops: vec![] },
                context: 1000,
                exchange,
                threshold: 0.4,
                budget: None,
                on_error: OnCloudError::Keep,
            };
            let Outcome { stats, most_on_their_way, .. } = case.run(Way { asks: 3, ..WAITS });
            assert_eq!(stats.branch_asks, 0);
            sum.foreseen_asks += case.run(Way { asks: 3, tokens: 3, ..WAITS }).stats.foreseen_asks;
            // With one ask at a time the own way soon has to wait, and the time is the branches': then
            // it does not depend on what a batch costs here.
            let plain = case.run(Way { asks: 1, ..WAITS }).stats.contradicted_asks;
            let branching = case.run(Way { asks: 1, branches: 3, ..WAITS }).stats;
            sum.branch_asks += branching.branch_asks;
            spared += plain.saturating_sub(branching.contradicted_asks);
            hit += usize::from(most_on_their_way == 3);
            sum.confirmed_asks += stats.confirmed_asks;
            sum.contradicted_asks += stats.contradicted_asks;
            sum.void_asks += stats.void_asks;
            sum.void_steps += stats.void_steps;
            sum.asks += stats.asks;
        }
        let Stats { asks, confirmed_asks, contradicted_asks, void_asks, void_steps, .. } = sum;
        let told = format!(
            "{exchange:?}: {asks} asks, {confirmed_asks} confirmed, {contradicted_asks} \
             contradicted, {void_asks} void, {void_steps} steps in vain, {hit} times three at once; {} \
             hit a branch, {spared} fewer contradicted",
            sum.branch_asks,
        );
        println!("{told}");
        // Words come one by one.
        assert_eq!(sum.foreseen_asks > 20, exchange == Exchange::Ids, "{}", sum.foreseen_asks);
        assert!(confirmed_asks > 20 && contradicted_asks > 20, "{told}");
        assert!(sum.branch_asks > 10 && spared > 10, "{told}");
        assert!(void_asks > 0 && void_steps > 0 && hit > 0, "{told}");
    }
}

/// The property would hold for a loop that never has anything judged.
#[test]
fn places_close_together_are_judged_with_one_request() {
    for exchange in [Exchange::Ids, Exchange::Text] {
        for asks in [1, 3] {
            let mut sum = Stats::default();
            let (mut judgements, mut requests, mut one_by_one) = (0, 0, 0);
            for seed in 0..60 {
                let case = Case {
                    edge: seed,
                    cloud: seed + 1000,
                    network: seed,
                    slowest: 30,
                    dead: 0,
                    sampling: Sampling::default(),
                    limits: Limits { max_tokens: 60, stops: vec![] },
                    context: 1000,
                    exchange,
                    threshold: 0.6,
                    budget: None,
                    on_error: OnCloudError::Keep,
                };
                let judging = case.run(Way { asks, judges: true, ..WAITS });
                judgements += judging.judgements;
                requests += judging.requests;
                one_by_one += case.run(Way { asks, ..WAITS }).requests;
                let Stats { judged_asks, contradicted_asks, void_asks, .. } = judging.stats;
                sum.judged_asks += judged_asks;
                sum.contradicted_asks += contradicted_asks;
                sum.void_asks += void_asks;
                // The trace marks every one of them.
                let marked = judging.tokens.iter().map(|t| t.speculation);
                let marked = marked.filter(|told| *told == Some(Speculation::Judged)).count();
                assert_eq!(marked, judged_asks);
            }
            let told = format!(
                "{exchange:?}, {asks} on their way: {judgements} judgements, {} places confirmed, {} \
                 contradicted, {} void; {requests} requests instead of {one_by_one}",
                sum.judged_asks, sum.contradicted_asks, sum.void_asks,
            );
            println!("{told}");
            // Words are asked for one by one.
            let ids = exchange == Exchange::Ids;
            assert_eq!(judgements > 20 && sum.judged_asks > 20, ids, "{told}");
            assert!(ids || judgements + sum.judged_asks == 0, "{told}");
            assert!(!ids || asks > 1 || requests < one_by_one, "{told}");
        }
    }
}

/// A judgement that ends early has places asked for again while requests behind them are under way.
#[test]
fn a_place_that_is_asked_for_again_is_not_one_request_too_many() {
    let case = Case {
        edge: 5_136_355_014_857_899_970,
        cloud: 10_041_244_979_505_742_180,
        network: 1_316_116_005_308_198_178,
        slowest: 12,
        dead: 0,
        sampling: Sampling { seed: 6, ..Sampling::default() },
        limits: Limits { max_tokens: 17, stops: vec![] },
        context: 1000,
        exchange: Exchange::Ids,
        threshold: 0.743_906_9,
        budget: None,
        on_error: OnCloudError::Keep,
    };
    let way = Way { asks: 1, tokens: 1, warm: false, branches: 1, judges: true };
    // How far it goes on depends on how long a step takes here, so it is tried more than once.
    for _ in 0..20 {
        assert_eq!(case.run(way).most_on_their_way, 1);
    }
}
