//! The whole loop with real models: the small one as its own cloud, over real HTTP.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloud::Remote;
use decode::{
    Accepted, Edge, EdgeError, FinishReason, Limits, Message, OnCloudError, Relay, Routing,
    Sampling, Session, SessionInput, Source, Stats, Step, Threshold, Token, Vocabulary,
};
use engine::{Model, Sequence};
use router::RouterKind;
use tandem_server::cloud::Config;

use super::edge;
use crate::common::{self, remote, small, start};

const QUESTION: &str = "Why is the sky blue? Explain briefly.";

fn limits() -> Limits {
    Limits { max_tokens: 32, stops: vec![] }
}

fn ids(tokens: &[Accepted]) -> Vec<Token> {
    tokens.iter().filter_map(|t| t.id).collect()
}

struct Run {
    tokens: Vec<Accepted>,
    text: String,
    reason: Option<FinishReason>,
    cloud_error: Option<String>,
    /// Tokens the engine was given behind the prompt.
    edge_reads: usize,
}

/// An edge whose engine's count of what it read is added up.
struct Counted<'a> {
    sequence: &'a mut Sequence,
    read: usize,
}

impl Edge for Counted<'_> {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.sequence.vocabulary()
    }

    fn context(&self) -> usize {
        self.sequence.context()
    }

    fn held(&self) -> &[Token] {
        self.sequence.held()
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        self.sequence.keep_common(context)
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        let step = self.sequence.step(unread).await?;
        self.read += step.reading.tokens;
        Ok(step)
    }
}

async fn joint(
    model: &Model,
    cloud: &mut Remote,
    router: RouterKind,
    tau: f32,
    sampling: Sampling,
) -> Run {
    let mut sequence = model.open().await.unwrap();
    let prompt = model.vocabulary().prompt(&common::messages(QUESTION)).unwrap();
    let threshold = Threshold::new(tau).unwrap();
    let routing = Routing {
        router: router.build(sampling.seed),
        policy: threshold.into(),
        cloud,
        on_error: OnCloudError::Keep,
    };
    let plan = SessionInput { prompt: prompt.clone(), written: vec![], sampling, limits: limits() };
    let mut edge = Counted { sequence: &mut sequence, read: 0 };
    let mut session = Session::new(&mut edge, Some(routing), plan).unwrap();
    let mut streamed = String::new();
    while let Some(span) = session.next().await.unwrap() {
        streamed += &span.text();
    }
    let transcript = session.transcript();
    assert_eq!(streamed, transcript.text());
    let (tokens, text) = (transcript.shown().to_vec(), transcript.text());
    let (reason, error) =
        (transcript.finish_reason(), session.cloud_error().map(ToString::to_string));
    drop(session);
    let edge_reads = edge.read - prompt.len();
    Run { tokens, text, reason, cloud_error: error, edge_reads }
}

async fn small_alone(model: &Model, sampling: Sampling) -> Vec<Token> {
    let mut sequence = model.open().await.unwrap();
    let prompt = model.vocabulary().prompt(&common::messages(QUESTION)).unwrap();
    let plan = SessionInput { prompt, written: vec![], sampling, limits: limits() };
    let mut session =
        Session::<_, Box<dyn decode::Router>, Remote>::new(&mut sequence, None, plan).unwrap();
    while session.next().await.unwrap().is_some() {}
    session.transcript().tokens().to_vec()
}

fn samplings() -> [Sampling; 2] {
    let warm = Sampling { temperature: 0.9, top_p: 0.95, seed: 5, ..Sampling::default() };
    [Sampling::default(), Sampling { repetition_penalty: 1.2, ..warm }]
}

#[tokio::test]
async fn tau_0_is_small_and_the_cloud_is_never_opened() {
    let model = edge().await;
    // Nobody listens there, and nobody notices.
    let nowhere = "http://127.0.0.1:9".parse().unwrap();
    for sampling in samplings() {
        let mut cloud = remote(&nowhere, Some(&model), QUESTION);
        let run = joint(&model, &mut cloud, RouterKind::Top1, 0.0, sampling).await;
        assert_eq!(ids(&run.tokens), small_alone(&model, sampling).await);
        assert!(run.cloud_error.is_none());
    }
}

#[tokio::test]
async fn tau_1_is_large_token_for_token() {
    let model = edge().await;
    let address = start(small(), Config::default()).await;
    for sampling in samplings() {
        let mut cloud = remote(&address, Some(&model), QUESTION);
        let run = joint(&model, &mut cloud, RouterKind::Top1, 1.0, sampling).await;
        assert!(run.tokens.iter().all(|t| t.source == Source::Cloud));
        let mut relay = Relay::new(remote(&address, None, QUESTION), sampling, limits());
        while relay.next().await.unwrap().is_some() {}
        assert_eq!(ids(&run.tokens), relay.transcript().tokens());
        assert_eq!(run.text, relay.transcript().text());
    }
}

#[tokio::test]
async fn a_higher_threshold_asks_no_less_on_the_same_states() {
    let model = edge().await;
    let nowhere = "http://127.0.0.1:9".parse().unwrap();
    for router in
        [RouterKind::Top1, RouterKind::Margin, RouterKind::Entropy, RouterKind::Random(None)]
    {
        let mut cloud = remote(&nowhere, Some(&model), QUESTION);
        let states = joint(&model, &mut cloud, router, 0.0, Sampling::default()).await.tokens;
        let asks = |tau: f32| {
            let tau = Threshold::new(tau).unwrap();
            states.iter().filter(|t| tau.decide(t.score.unwrap()) == decode::Decision::Ask).count()
        };
        let counts: Vec<_> = (0..=20).map(|i| asks(i as f32 / 20.0)).collect();
        assert!(counts.is_sorted(), "{router}: {counts:?}");
        assert_eq!((counts[0], counts[20]), (0, states.len()), "{router}");
        assert!(counts[10] > 0 && counts[10] < states.len(), "{router}: {counts:?}");
    }
}

#[tokio::test]
async fn same_seed_same_text_and_another_seed_another() {
    let model = edge().await;
    let address = start(small(), Config::default()).await;
    let [_, warm] = samplings();
    let mut texts = vec![];
    for seed in [1, 1, 2] {
        let mut cloud = remote(&address, Some(&model), QUESTION);
        let sampling = Sampling { seed, ..warm };
        texts.push(
            joint(&model, &mut cloud, RouterKind::Random(Some(0.3)), 0.5, sampling).await.text,
        );
    }
    assert_eq!(texts[0], texts[1]);
    assert_ne!(texts[0], texts[2]);
}

/// The most that was prefilled beyond what was accepted since the ask before.
async fn worst_excess(reuse: bool) -> i64 {
    let model = edge().await;
    let address = start(small(), Config { reuse, ..Config::default() }).await;
    let mut cloud = remote(&address, Some(&model), QUESTION);
    let run =
        joint(&model, &mut cloud, RouterKind::Random(Some(0.3)), 0.5, Sampling::default()).await;
    let asks: Vec<_> = run
        .tokens
        .iter()
        .filter_map(|t| t.cloud.map(|u| (t.index, u.prefilled.unwrap())))
        .collect();
    assert!(asks.len() > 4, "{asks:?}");
    // The first ask reads the prompt.
    let later = asks.windows(2).map(|w| w[1].1 as i64 - (w[1].0 - w[0].0) as i64);
    later.max().unwrap()
}

#[tokio::test]
async fn an_ask_prefills_what_is_new_and_no_more() {
    assert!(worst_excess(true).await <= 2);
}

#[tokio::test]
async fn without_reuse_that_would_not_hold() {
    assert!(worst_excess(false).await > 20);
}

#[tokio::test]
async fn the_edge_reads_a_routed_word_once() {
    let model = edge().await;
    let address = start(small(), Config::default()).await;
    let mut cloud = remote(&address, Some(&model), QUESTION);
    let run =
        joint(&model, &mut cloud, RouterKind::Random(Some(0.3)), 0.5, Sampling::default()).await;
    // Each accepted token once; the last only if it was to be gone on from.
    let accepted = run.tokens.len();
    assert!(
        (accepted - 1..=accepted).contains(&run.edge_reads),
        "{} of {accepted}",
        run.edge_reads
    );
    assert!(run.tokens.iter().any(|t| t.source == Source::Cloud));
}

#[tokio::test]
async fn a_cloud_that_dies_is_survived() {
    let model = edge().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let lazy = tandem_server::cloud::LazyModel::new(common::compute(), small());
    let app = tandem_server::cloud::app(lazy, Config::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(tandem_server::cloud::run(listener, app, async {
        stopped.await.ok();
    }));
    let mut sequence = model.open().await.unwrap();
    let prompt = model.vocabulary().prompt(&common::messages(QUESTION)).unwrap();
    let cloud = remote(&address, Some(&model), QUESTION);
    // So high that it is asked again and again, whatever the text.
    let threshold = Threshold::new(0.95).unwrap();
    let routing = Routing {
        router: RouterKind::Top1.build(0),
        policy: threshold.into(),
        cloud,
        on_error: OnCloudError::Keep,
    };
    let plan =
        SessionInput { prompt, written: vec![], sampling: Sampling::default(), limits: limits() };
    let mut session = Session::new(&mut sequence, Some(routing), plan).unwrap();
    while !session.transcript().shown().iter().any(|t| t.source == Source::Cloud) {
        session.next().await.unwrap().unwrap();
    }
    stop.send(()).unwrap();
    server.abort();
    drop(server.await);
    while session.next().await.unwrap().is_some() {}
    let shown = session.transcript().shown();
    let fallback = shown.iter().position(|t| t.source == Source::Fallback).unwrap();
    assert!(shown[fallback..].iter().all(|t| t.source != Source::Cloud));
    assert!(session.cloud_error().is_some());
    assert!(matches!(
        session.transcript().finish_reason(),
        Some(FinishReason::Length | FinishReason::Stop)
    ));
}

#[tokio::test]
async fn something_else_at_the_address_is_named() {
    let model = edge().await;
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            "does not answer like any engine we know",
        ),
        (
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "does not answer like any engine we know",
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "redirects",
        ),
        ("SSH-2.0-OpenSSH\r\n", "cannot be reached"),
        ("", "cannot be reached"),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = [0; 4096];
                drop(stream.read(&mut buffer).await);
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        let mut cloud = remote(&address, Some(&model), QUESTION);
        let run = joint(&model, &mut cloud, RouterKind::Always, 0.5, Sampling::default()).await;
        assert!(run.tokens.iter().all(|t| t.source == Source::Fallback));
        assert!(matches!(run.reason, Some(FinishReason::Length | FinishReason::Stop)));
        let error = run.cloud_error.unwrap();
        assert!(error.contains(expected), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn a_cloud_that_never_answers_is_given_up_soon() {
    let model = edge().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let mut cloud = remote(&address, Some(&model), QUESTION);
    let started = Instant::now();
    small_alone(&model, Sampling::default()).await;
    let alone = started.elapsed();
    let started = Instant::now();
    let run = joint(&model, &mut cloud, RouterKind::Always, 0.5, Sampling::default()).await;
    // One question of five seconds, perhaps a second one; not one a token.
    let waited = started.elapsed().saturating_sub(alone * 2);
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    assert!(run.cloud_error.unwrap().contains("did not answer within 5 s"));
    drop(listener);
}

/// What each of two turns of a chat cost the edge, by the engine's own count.
async fn two_turns(between: impl Fn(&mut Sequence)) -> [Stats; 2] {
    let model = edge().await;
    let mut sequence = model.open().await.unwrap();
    let mut messages = common::messages("Name three fruits and say a word about each of them.");
    let mut turns = vec![];
    for follow_up in ["Which is the sweetest?", ""] {
        let prompt = model.vocabulary().prompt(&messages).unwrap();
        let length = prompt.len();
        let plan = SessionInput {
            prompt,
            written: vec![],
            sampling: Sampling::default(),
            limits: limits(),
        };
        let mut counted = Counted { sequence: &mut sequence, read: 0 };
        let mut session =
            Session::<_, Box<dyn decode::Router>, Remote>::new(&mut counted, None, plan).unwrap();
        while session.next().await.unwrap().is_some() {}
        let stats = session.transcript().stats();
        messages.push(Message::assistant(session.transcript().text()));
        messages.push(Message::user(follow_up));
        drop(session);
        // The session says what the engine says: all it read but its own tokens.
        let own = counted.read - stats.edge_prefilled;
        assert!((stats.tokens - 1..=stats.tokens).contains(&own), "{own} {stats:?}");
        assert_eq!(stats.edge_prefilled + stats.edge_cached, length);
        turns.push(stats);
        between(&mut sequence);
    }
    turns.try_into().unwrap()
}

#[tokio::test]
async fn a_second_turn_reads_only_what_is_new() {
    let [first, second] = two_turns(|_| {}).await;
    assert!(first.edge_cached == 0 && second.edge_prefilled < 25, "{second:?}");
}

#[tokio::test]
async fn without_its_cache_that_would_not_hold() {
    let [first, second] = two_turns(|sequence| sequence.truncate(0)).await;
    assert!(second.edge_prefilled > first.edge_prefilled + 25, "{second:?}");
}
