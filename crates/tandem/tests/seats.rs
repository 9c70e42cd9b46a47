//! Seats of a pair without weights: who gets one, and when it comes back.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use decode::{
    Constraint, Exchange, Limits, OnCloudError, Sampling, Threshold, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel, FakeVocabulary},
};
use tandem::{
    Defaults, Grammar, Introduction, Mode, NamedRouter, Pair, Prompt, Request, RouterKind,
    RouterRegistry, Share, Tandem,
};

const PIECES: &[&str] = &[" the", " cat", " sat"];

struct Scripted;

/// Grammars that are compiled at this moment, and the most there ever were.
static COMPILING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

impl Pair for Scripted {
    type Edge = FakeEdge;
    type Cloud = FakeCloud;

    fn has_cloud(&self) -> bool {
        true
    }

    fn context(&self) -> usize {
        500
    }

    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, tandem::Error> {
        let Prompt::Messages(messages) = prompt else { panic!("{prompt:?}") };
        let text: String = messages.iter().map(|m| m.content.as_str()).collect();
        Ok(FakeVocabulary::new(PIECES).encode(&text))
    }

    fn constraint(&self, _: &Grammar) -> Result<Box<dyn Constraint>, tandem::Error> {
        MOST.fetch_max(COMPILING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        COMPILING.fetch_sub(1, Ordering::SeqCst);
        Err(tandem::Error::Usage("these models know no grammar".into()))
    }

    async fn load_edge(&self) -> Result<(), tandem::Error> {
        Ok(())
    }

    fn has_edge(&self) -> bool {
        true
    }

    async fn open_edge(&self) -> Result<FakeEdge, tandem::Error> {
        Ok(FakeEdge::new(FakeModel::new(7, PIECES), self.context()))
    }

    async fn open_cloud(&self) -> Result<FakeCloud, tandem::Error> {
        Ok(FakeCloud::new(FakeModel::new(11, PIECES), vec![], Exchange::Ids))
    }

    fn introduce(&self, cloud: &mut FakeCloud, to: Introduction<'_>) -> Result<(), tandem::Error> {
        cloud.reopen(self.tokens(to.prompt)?);
        Ok(())
    }

    /// Closing a session over a network takes its time.
    async fn close(&self, _: &mut FakeCloud) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn routers() -> RouterRegistry {
    let router: NamedRouter = RouterKind::Always.into();
    RouterRegistry::new(router, Threshold::ALWAYS.into())
}

fn tandem(seats: usize, queue: usize) -> Tandem<Scripted> {
    with(routers(), seats, queue)
}

fn with(routers: RouterRegistry, seats: usize, queue: usize) -> Tandem<Scripted> {
    let defaults = Defaults {
        mode: Mode::Joint,
        sampling: Sampling::default(),
        seeded: true,
        limits: Limits { max_tokens: 4, stops: vec![] },
        system: "Be brief.".into(),
        on_error: OnCloudError::Fail,
    };
    Tandem::new(Scripted, routers, defaults, (seats, queue))
}

#[tokio::test]
async fn a_request_that_comes_while_conversations_are_forgotten_waits_its_turn() {
    let tandem = tandem(1, 1);
    tandem.answer(" the cat").await.unwrap();
    let forgetting = tokio::spawn({
        let tandem = tandem.clone();
        async move { tandem.forget().await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    tandem.answer(" the cat").await.unwrap();
    forgetting.await.unwrap();
}

#[tokio::test]
async fn a_forgetting_that_is_given_up_loses_no_seat() {
    let tandem = tandem(2, 0);
    tandem.answer(" the cat").await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(10), tandem.forget()).await;
    assert!(given_up.is_err());
    let (one, other) = (tandem.generate(" the").await, tandem.generate(" cat").await);
    assert!(one.is_ok() && other.is_ok());
    // Both are taken now, and nobody may wait.
    assert!(matches!(tandem.generate(" sat").await, Err(tandem::Error::Busy)));
    drop(one);
    assert!(tandem.generate(" sat").await.is_ok());
}

#[tokio::test]
async fn a_text_that_is_dropped_half_way_gives_its_seat_back() {
    let tandem = tandem(1, 0);
    let mut generation = tandem.generate(Request::user(" the cat")).await.unwrap();
    generation.next().await.unwrap();
    assert_eq!(tandem.running(), 1);
    drop(generation);
    assert_eq!(tandem.running(), 0);
    let answer = tandem.answer(" the cat").await.unwrap();
    assert_eq!(answer.summary.stats.cloud_tokens, answer.tokens.len());
}

#[tokio::test]
async fn a_largest_share_refuses_texts_that_keep_to_none() {
    let limited = |share| with(routers().limited(Share::new(share).unwrap()), 1, 0);
    let (bounded, unbounded) = (limited(0.5), limited(1.0));
    for mode in [Mode::Large, Mode::Verify] {
        let request = Request::user(" the cat").mode(mode);
        let refused = bounded.resolve(request.clone()).await.unwrap_err();
        assert!(matches!(&refused, tandem::Error::Usage(_)), "{refused}");
        assert!(refused.to_string().contains(mode.as_str()), "{refused}");
        assert!(unbounded.resolve(request).await.is_ok());
    }
    assert!(bounded.answer(" the cat").await.is_ok());
    assert_eq!(bounded.running(), 0);
}

#[tokio::test]
async fn numbers_of_a_request_have_ranges_too() {
    let tandem = tandem(1, 0);
    let limited = |max_tokens| Request {
        limits: Some(Limits { max_tokens, stops: vec![] }),
        ..Request::user(" the cat")
    };
    let telling =
        |alternatives| Request { alternatives: Some(alternatives), ..Request::user(" the cat") };
    let drawing = |top_k| Request {
        sampling: Some(Sampling { top_k, ..Sampling::default() }),
        ..Request::user(" the cat")
    };
    for (request, told) in [
        (limited(0), "max_tokens must be from 1 to 1000000, not 0"),
        (limited(usize::MAX), "max_tokens must be from 1 to 1000000"),
        (telling(101), "alternatives must be from 0 to 100"),
        (drawing(usize::MAX), "top-k must be from 0 to 1000000"),
    ] {
        let refused = tandem.resolve(request).await.unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    for request in [limited(1_000_000), telling(100), drawing(1_000_000)] {
        assert!(tandem.resolve(request).await.is_ok());
    }
}

#[tokio::test]
async fn few_grammars_are_compiled_at_once_also_where_nobody_waits_for_them() {
    let tandem = tandem(1, 0);
    let compile = || {
        let tandem = tandem.clone();
        tokio::spawn(async move { tandem.constraint(&Grammar::JsonObject).await.err() })
    };
    let given_up = [compile(), compile()];
    tokio::time::sleep(Duration::from_millis(20)).await;
    for task in given_up {
        task.abort();
    }
    for task in [compile(), compile(), compile(), compile()] {
        assert!(matches!(task.await.unwrap(), Some(tandem::Error::Usage(_))));
    }
    assert_eq!(MOST.load(Ordering::SeqCst), 2);
}
