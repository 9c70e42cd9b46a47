//! What a session says its edge read is what the edge read, not what it was meant to read.
#![allow(clippy::unwrap_used)]

use tandem_decode::{
    Limits, Router, Sampling, Score, Session, SessionInput, Stats, Step, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
};

struct Trusting;

impl Router for Trusting {
    fn score(&self, _: &Step) -> Score {
        Score::new(1.0)
    }
}

fn write(edge: &mut FakeEdge, question: &str) -> Stats {
    let prompt = FakeModel::new(0, &[" on"]).vocabulary.encode(question);
    let limits = Limits { max_tokens: 6, stops: vec![] };
    let plan = SessionInput { prompt, written: vec![], sampling: Sampling::default(), limits };
    let mut session = Session::<_, Trusting, FakeCloud>::new(edge, None, plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { while session.next().await.unwrap().is_some() {} });
    session.transcript().stats()
}

fn edge() -> FakeEdge {
    let mut model = FakeModel::new(3, &[" on"]);
    model.writes.retain(|token| !model.vocabulary.is_end(*token));
    FakeEdge::new(model, 200)
}

#[test]
fn a_cache_that_holds_saves_reading() {
    let mut edge = edge();
    let first = write(&mut edge, "Hello");
    assert_eq!((first.edge_prefilled, first.edge_cached), (5, 0));
    let second = write(&mut edge, "Hello there");
    assert_eq!((second.edge_prefilled, second.edge_cached), (6, 5));
}

#[test]
fn a_lost_cache_is_read_again_and_counted() {
    let mut edge = edge();
    write(&mut edge, "Hello");
    // The edge believes it holds "Hello" until it steps.
    edge.lost = 6..7;
    let lost = write(&mut edge, "Hello there");
    assert_eq!((lost.edge_prefilled, lost.edge_cached), (11, 0));
    // In the middle of a text: everything but the new token once more.
    edge.lost = 14..15;
    let later = write(&mut edge, "Hello there");
    assert_eq!((later.edge_prefilled, later.edge_cached), (1 + 12, 10));
}
