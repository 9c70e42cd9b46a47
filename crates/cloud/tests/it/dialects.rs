//! The loop over every dialect gives what the same model gives without a network between.
#![allow(clippy::unwrap_used, clippy::panic)]

use decode::{
    AnswerLength, Ask, Cloud, Exchange, FinishReason, Limits, Message, OnCloudError, Relay, Router,
    Routing, Sampling, Score, Session, SessionInput, Source, Step, Threshold, Token,
    fake::{FakeCloud, FakeEdge, FakeModel},
};
use tandem_cloud::{Engine, Remote, Salts, Settings};

use crate::common::{Dialect, Fake, PIECES, model, prompt};

const OTHER_PIECES: &[&str] = &[" the", " dog", " ran", ".", "\n", " on", "s", "中国", "7", " a"];

/// Trust is the likeliest token's probability.
struct Top1;

impl Router for Top1 {
    fn score(&self, step: &Step) -> Score {
        Score::new(step.distribution().top1)
    }
}

struct Outcome {
    tokens: Vec<Token>,
    text: String,
    cloud: usize,
    fallbacks: usize,
    /// What was exchanged for each token that is the cloud's.
    exchanged: Vec<Exchange>,
    reason: Option<FinishReason>,
}

async fn joint<C: Cloud>(edge: FakeModel, cloud: C, tau: f32) -> Outcome {
    going_on(edge, cloud, tau, 0).await
}

async fn going_on<C: Cloud>(edge: FakeModel, cloud: C, tau: f32, asks: usize) -> Outcome {
    let prompt = prompt(&edge.vocabulary, &[Message::user("Hello")]);
    let threshold = Threshold::new(tau).unwrap();
    let routing =
        Routing { router: Top1, policy: threshold.into(), cloud, on_error: OnCloudError::Keep };
    let limits = Limits { max_tokens: 40, stops: vec![] };
    let plan = SessionInput { prompt, written: vec![], sampling: Sampling::default(), limits };
    let session = Session::new(FakeEdge::new(edge, 1000), Some(routing), plan).unwrap();
    let mut session = session.with_asks_in_flight(asks);
    while session.next().await.unwrap().is_some() {}
    let transcript = session.transcript();
    let count = |source| transcript.shown().iter().filter(|t| t.source == source).count();
    Outcome {
        tokens: transcript.tokens().to_vec(),
        text: transcript.text(),
        cloud: count(Source::Cloud),
        fallbacks: count(Source::Fallback),
        exchanged: transcript.shown().iter().filter_map(|t| t.exchange).collect(),
        reason: transcript.finish_reason(),
    }
}

#[tokio::test]
async fn who_answers_is_found_out() {
    for dialect in Dialect::ALL {
        let fake = Fake::start(dialect, 1).await;
        let remote = fake.remote(fake.settings());
        let introduction = remote.identify().await.unwrap();
        assert_eq!(introduction.engine, dialect.engine());
        let matched = introduction.matched.unwrap();
        assert_eq!(matched.vocabulary.is_ok(), dialect != Dialect::OpenAi, "{matched:?}");
        assert_eq!(matched.template.is_ok(), dialect != Dialect::OpenAi, "{matched:?}");
    }
}

#[tokio::test]
async fn one_vocabulary_ids_travel_and_nothing_differs() {
    for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::OpenAi) {
        for seed in 0..12 {
            let fake = Fake::start(dialect, 100 + seed).await;
            for tau in [0.4, 1.0] {
                let here = FakeCloud::new(model(100 + seed), fake.prompt(), Exchange::Ids);
                let expected = joint(model(seed), here, tau).await;
                for asks in [0, 3] {
                    let remote = fake.remote(fake.settings());
                    let there = going_on(model(seed), remote, tau, asks).await;
                    assert_eq!(there.tokens, expected.tokens, "{dialect:?} {seed} {tau} {asks}");
                    assert_eq!((there.cloud, there.reason), (expected.cloud, expected.reason));
                    assert_eq!(there.exchanged, vec![Exchange::Ids; there.cloud]);
                    assert_eq!(there.fallbacks, 0);
                }
            }
        }
    }
}

#[tokio::test]
async fn other_vocabularies_text_travels_and_the_trace_says_so() {
    let mut exchanged = 0;
    for dialect in Dialect::ALL {
        for seed in 0..12 {
            let fake = Fake::start(dialect, 100 + seed).await;
            let edge = FakeModel::new(seed, OTHER_PIECES);
            let here = FakeCloud::new(model(100 + seed), fake.prompt(), Exchange::Text);
            let expected = joint(edge.clone(), here, 1.0).await;
            for asks in [0, 3] {
                let remote = Remote::new(fake.settings(), fake.opening(OTHER_PIECES)).unwrap();
                let there = going_on(edge.clone(), remote, 1.0, asks).await;
                assert_eq!(there.text, expected.text, "{dialect:?} {seed} {asks}");
                assert_eq!((there.cloud, there.fallbacks), (expected.cloud, 0));
                assert_eq!(there.exchanged, vec![Exchange::Text; there.cloud]);
                exchanged += there.cloud;
            }
        }
    }
    assert!(exchanged > 200, "{exchanged}");
}

#[tokio::test]
async fn a_cloud_alone_writes_the_same_text() {
    for dialect in Dialect::ALL {
        for seed in 0..12 {
            let fake = Fake::start(dialect, seed).await;
            let limits = || Limits { max_tokens: 40, stops: vec![] };
            let here = FakeCloud::new(model(seed), fake.prompt(), Exchange::Ids);
            let mut expected = Relay::new(here, Sampling::default(), limits());
            while expected.next().await.unwrap().is_some() {}
            let mut opening = fake.opening(PIECES);
            opening.edge = None;
            let remote = Remote::new(fake.settings(), opening).unwrap();
            let mut there = Relay::new(remote, Sampling::default(), limits());
            while there.next().await.unwrap().is_some() {}
            let (there, expected) = (there.transcript(), expected.transcript());
            assert_eq!(there.text(), expected.text(), "{dialect:?} {seed}");
            assert_eq!(there.finish_reason(), expected.finish_reason(), "{dialect:?} {seed}");
        }
    }
}

#[tokio::test]
async fn a_session_is_sent_only_what_is_new() {
    let fake = Fake::start(Dialect::SglangStreaming, 5).await;
    let mut remote = fake.remote(fake.settings());
    remote.open().await.unwrap();
    let sampling = Sampling::default();
    let mut tokens = vec![];
    for _ in 0..4 {
        let ask =
            Ask { tokens: &tokens, text: "", want: AnswerLength::Tokens(1), sampling: &sampling };
        let answer = remote.next(ask).await.unwrap();
        tokens.extend(answer.tokens.iter().filter_map(|t| t.id));
        tokens.extend([Token(258), Token(259)]);
    }
    let carried = fake.carried.lock().unwrap().clone();
    assert_eq!(carried, [fake.prompt().len(), 2, 2, 2]);
    // What it wrote was not accepted: the session cannot go back, and all is sent from now on.
    for length in [3, 4] {
        let tokens = &tokens[..length];
        let ask = Ask { tokens, text: "", want: AnswerLength::Tokens(1), sampling: &sampling };
        remote.next(ask).await.unwrap();
        assert_eq!(fake.carried.lock().unwrap().last(), Some(&(fake.prompt().len() + length)));
    }
}

#[tokio::test]
async fn an_engine_that_is_named_is_believed() {
    let fake = Fake::start(Dialect::LlamaServer, 1).await;
    let settings = Settings { engine: Some(Engine::Sglang), ..fake.settings() };
    let error = fake.remote(settings).open().await.unwrap_err().to_string();
    assert!(error.contains("404"), "{error}");
}

/// Two asks of one conversation: what its cache was told apart by, and what it is said to have held.
async fn kept_apart(
    dialect: Dialect,
    salted: bool,
) -> (Vec<[Option<String>; 2]>, Vec<Option<usize>>) {
    let fake = Fake::start(dialect, 5).await;
    let mut remote = fake.remote(fake.settings());
    let salts = Salts::random().unwrap();
    remote.separate(salted.then(|| salts.of(1)));
    // Also behind a conversation of somebody else, with what is known of the engine already.
    remote.open().await.unwrap();
    remote.separate(salted.then(|| salts.of(2)));
    remote.reopen(fake.opening(PIECES));
    remote.open().await.unwrap();
    let (sampling, mut cached) = (Sampling::default(), vec![]);
    let want = match dialect {
        Dialect::OpenAi => AnswerLength::Word,
        _ => AnswerLength::Tokens(1),
    };
    for text in ["", " the"] {
        let ask = Ask { tokens: &[], text, want, sampling: &sampling };
        let usage = remote.next(ask).await.unwrap().usage;
        assert_eq!(usage.cached.is_some(), usage.prefilled.is_some(), "{dialect:?}");
        cached.push(usage.cached);
    }
    let sent = fake.salts.lock().unwrap().clone();
    (sent, cached)
}

#[tokio::test]
async fn conversations_of_several_owners_share_no_cache_and_no_count() {
    for dialect in Dialect::ALL {
        let (sent, cached) = kept_apart(dialect, true).await;
        let alike = sent.windows(2).all(|two| two[0] == two[1]);
        assert!(sent.len() >= 2 && alike, "{dialect:?}: {sent:?}");
        let [salt, extra] = &sent[0];
        match dialect {
            Dialect::VllmGenerate | Dialect::VllmCompletions => {
                assert!(salt.as_ref().is_some_and(|salt| salt.len() == 64), "{salt:?}");
                assert!(cached.iter().all(Option::is_some), "{dialect:?}");
            }
            Dialect::Sglang | Dialect::SglangStreaming => {
                // Versions differ in which of the two they read.
                assert!(salt.is_some() && salt == extra, "{salt:?} {extra:?}");
                assert!(cached.iter().all(Option::is_some), "{dialect:?}");
            }
            // They keep nothing apart, so nobody is told what they found.
            Dialect::LlamaServer | Dialect::OpenAi => {
                assert_eq!((salt, extra), (&None, &None), "{dialect:?}");
                assert!(cached.iter().all(Option::is_none), "{dialect:?}: {cached:?}");
            }
        }
        let (sent, cached) = kept_apart(dialect, false).await;
        assert!(sent.iter().flatten().all(Option::is_none), "{dialect:?}: {sent:?}");
        assert!(cached.iter().all(Option::is_some), "{dialect:?}: {cached:?}");
    }
}

/// Only one slot of an engine holds what a conversation left there, and another owner's next one must
/// not be sent to it.
#[tokio::test]
async fn a_conversation_that_is_closed_leaves_its_slot() {
    let fake = Fake::start(Dialect::LlamaServer, 5).await;
    let mut remote = fake.remote(fake.settings());
    let sampling = Sampling::default();
    let mut slots = vec![];
    for _ in 0..2 {
        remote.open().await.unwrap();
        for _ in 0..2 {
            let want = AnswerLength::Tokens(1);
            remote.next(Ask { tokens: &[], text: "", want, sampling: &sampling }).await.unwrap();
            slots.push(fake.slots.lock().unwrap().pop().unwrap());
        }
        remote.close().await;
        remote.reopen(fake.opening(PIECES));
    }
    assert_eq!(slots, [None, Some(0), None, Some(0)]);
}
