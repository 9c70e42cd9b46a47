//! Whatever comes when: a session that goes on while answers are on their way writes the tokens of
//! one that waits for them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use proptest::prelude::*;
use tandem_decode::{
    Accepted, Answer, AnswerLength, Ask, Budget, BudgetState, Cloud, CloudError, Edge, EdgeError,
    Exchange, FinishReason, Handshake, Limits, OnCloudError, Pending, PendingAnswer, Router,
    Routing, Sampling, Score, Session, SessionError, SessionInput, Stats, Step, Threshold,
    ThresholdPolicy, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
    sampling,
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

/// Is ready when it has been polled this often.
struct Polls(usize);

impl Future for Polls {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An edge whose steps take their time, and whose forks fail now and then.
struct SlowEdge {
    edge: FakeEdge,
    seed: u64,
    steps: usize,
    /// How many caches were made of this one, and of that it was made of.
    forks: Arc<AtomicUsize>,
    fork: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("a branch broke")]
struct Broken;

impl Edge for SlowEdge {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.edge.vocabulary()
    }

    fn context(&self) -> usize {
        self.edge.context()
    }

    fn held(&self) -> &[Token] {
        self.edge.held()
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        self.edge.keep_common(context)
    }

    async fn fork(&mut self, keep: usize) -> Option<Self> {
        let forks = self.forks.fetch_add(1, Ordering::Relaxed);
        let seed = sampling::hash(self.seed, 1000 + forks);
        if seed.is_multiple_of(97) {
            return None;
        }
        let (edge, forks) = (self.edge.fork(keep).await?, self.forks.clone());
        Some(Self { edge, seed, steps: 0, forks, fork: true })
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        self.steps += 1;
        let luck = sampling::hash(self.seed, self.steps);
        Polls(luck as usize % 4).await;
        // Where it is the text's own, it has made a step.
        if self.fork && self.steps == 1 && luck.is_multiple_of(13) {
            return Err(EdgeError::new(Broken));
        }
        self.edge.step(unread).await
    }
}

/// A cloud whose answers depend on the text alone and come when they like: it agrees with the edge at
/// about half of the places, and fails at a few.
struct Network {
    agrees: FakeCloud,
    differs: FakeCloud,
    seed: u64,
    /// The most polls an answer takes.
    slowest: usize,
    /// One in this many texts is never answered behind; 0 for none.
    dead: u64,
    asks: usize,
    /// Tokens that the session has accepted: asks behind them may be lost on the way.
    accepted: Arc<AtomicUsize>,
    on_their_way: Arc<AtomicUsize>,
    most: usize,
}

struct Travelling(Arc<AtomicUsize>);

impl Drop for Travelling {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Cloud for Network {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.agrees.open().await
    }

    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        let luck = sampling::hash(self.seed, 0);
        let (opened, polls) = (self.agrees.begin_open()?, luck as usize % 9);
        Some(Box::pin(async move {
            Polls(polls).await;
            if luck.is_multiple_of(5) { Err(FakeCloud::error()) } else { opened.await }
        }))
    }

    async fn next(&mut self, _: Ask<'_>) -> Result<Answer, CloudError> {
        panic!("asks are begun")
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        let answer = self.answer(ask);
        self.asks += 1;
        let luck = sampling::hash(self.seed, self.asks);
        let ahead = ask.tokens.len() > self.accepted.load(Ordering::Relaxed);
        let lost = ahead && luck.is_multiple_of(7);
        self.most = self.most.max(self.on_their_way.fetch_add(1, Ordering::Relaxed) + 1);
        let travelling = Travelling(self.on_their_way.clone());
        let polls = (luck >> 8) as usize % (self.slowest + 1);
        Some(Box::pin(async move {
            Polls(polls).await;
            drop(travelling);
            if lost { Err(FakeCloud::error()) } else { answer }
        }))
    }
}

impl Network {
    /// Depends on the text alone; several tokens are those of as many asks.
    fn answer(&self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let AnswerLength::Tokens(wanted) = ask.want else { return self.answer_one(ask) };
        let want = AnswerLength::Tokens(1);
        let mut answer = self.answer_one(Ask { want, ..ask })?;
        while answer.tokens.len() < wanted && !answer.end {
            let written = answer.tokens.iter().filter_map(|t| t.id);
            let tokens: Vec<_> = ask.tokens.iter().copied().chain(written).collect();
            let Ok(more) = self.answer_one(Ask { tokens: &tokens, want, ..ask }) else { break };
            answer.tokens.extend(more.tokens);
            answer.end = more.end;
        }
        Ok(answer)
    }

    fn answer_one(&self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let place = ask.tokens.iter().fold(7, |h, t| sampling::hash(h, t.index()));
        if self.dead > 0 && place % self.dead == 1 {
            return Err(FakeCloud::error());
        }
        let cloud = if place.is_multiple_of(2) { &self.agrees } else { &self.differs };
        let mut answer = Cloud::begin(&mut cloud.clone(), ask).unwrap();
        match answer.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("a fake answers at once"),
        }
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
    forks: usize,
}

impl Case {
    fn run(
        &self,
        asks_in_flight: usize,
        ask_tokens: usize,
        warm: bool,
        branches: usize,
    ) -> Outcome {
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
        let session = session.with_asks_in_flight(asks_in_flight).with_branches(branches);
        let mut session = session.with_ask_tokens(ask_tokens);
        if warm {
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
    fn the_tokens_are_those_of_the_loop_that_waits(case in cases(), asks in 0usize..5, tokens in 1usize..5, warm in any::<bool>(), branches in 0usize..4) {
        let (waiting, going_on) = (case.run(0, 1, false, branches), case.run(asks, tokens, warm, branches));
        // Whether a cloud could be asked is known sooner where it is warm.
        let told = |tokens: &[Accepted]| -> Vec<_> {
            let eligible = |t: &Accepted| t.eligible.filter(|_| !warm);
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
        prop_assert!(going_on.most_on_their_way <= asks.max(1) + usize::from(warm));
        // Whoever waits has no branches.
        prop_assert_eq!(waiting.forks, 0);
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
        assert_eq!(case.run(3, 1, false, 0).stats.void_asks, 0);
        warmed += case.run(3, 1, true, 0).stats.void_asks;
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
            let Outcome { stats, most_on_their_way, .. } = case.run(3, 1, false, 0);
            assert_eq!(stats.branch_asks, 0);
            sum.foreseen_asks += case.run(3, 3, false, 0).stats.foreseen_asks;
            // With one ask at a time the own way soon has to wait, and the time is the branches': then
            // it does not depend on what a batch costs here.
            let plain = case.run(1, 1, false, 0).stats.contradicted_asks;
            let branching = case.run(1, 1, false, 3).stats;
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
