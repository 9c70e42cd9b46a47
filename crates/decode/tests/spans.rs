//! What a subscriber sees of the loop: one span for each station of every position.
#![allow(clippy::unwrap_used)]

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tandem_decode::{
    CloudError, Exchange, Limits, OnCloudError, Relay, Router, Routing, Sampling, Score, Session,
    SessionInput, Step, Threshold, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry::LookupSpan,
};

const PIECES: &[&str] = &[" the", " cat", " sat", ".", "\n"];

/// Trusts every second position.
struct EverySecond;

impl Router for EverySecond {
    fn score(&self, step: &Step) -> Score {
        Score::new((step.position % 2) as f32)
    }
}

/// Writes down every span when it closes, with its fields and the span around it.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

/// A span's fields, as they are recorded.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let around = span.parent().map_or(String::new(), |p| format!("{}/", p.name()));
        let extensions = span.extensions();
        let line = format!("{around}{}{}", span.name(), extensions.get::<Fields>().unwrap().0);
        self.0.lock().unwrap().push(line);
    }
}

/// A cloud that has a span of its own.
struct Spanned(FakeCloud);

impl tandem_decode::Cloud for Spanned {
    async fn open(&mut self) -> Result<tandem_decode::Handshake, CloudError> {
        self.0.open().await
    }

    async fn next(
        &mut self,
        ask: tandem_decode::Ask<'_>,
    ) -> Result<tandem_decode::Answer, CloudError> {
        tracing::trace_span!("inner").in_scope(|| {});
        self.0.next(ask).await
    }
}

/// The spans of two positions or answers, in the order in which they end.
fn spans_of(mut next: impl AsyncFnMut()) -> Vec<String> {
    let recorder = Recorder::default();
    let subscriber = tracing_subscriber::registry().with(recorder.clone());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for _ in 0..2 {
                next().await;
            }
        });
    });
    recorder.0.lock().unwrap().clone()
}

fn prompt() -> Vec<Token> {
    FakeModel::new(0, PIECES).vocabulary.encode(" the cat")
}

fn cloud() -> Spanned {
    Spanned(FakeCloud::new(FakeModel::new(2, PIECES), prompt(), Exchange::Ids))
}

fn limits() -> Limits {
    Limits { max_tokens: 8, stops: vec![] }
}

fn session(routing: Option<Routing<EverySecond, Spanned>>) -> Vec<String> {
    let plan = SessionInput {
        prompt: prompt(),
        written: vec![],
        sampling: Sampling::default(),
        limits: limits(),
    };
    let edge = FakeEdge::new(FakeModel::new(1, PIECES), 100);
    let mut session = Session::new(edge, routing, plan).unwrap();
    spans_of(async || drop(session.next().await.unwrap().unwrap()))
}

#[test]
fn every_station_of_a_position_is_a_span() {
    let policy = Threshold::new(0.5).unwrap().into();
    let routing =
        Routing { router: EverySecond, policy, cloud: cloud(), on_error: OnCloudError::Fail };
    assert_eq!(
        session(Some(routing)),
        [
            "step position=0 unread=2",
            "score score=0.0",
            "ask/inner",
            "ask position=2",
            "accept source=\"cloud\" tokens=1",
            "step position=2 unread=1",
            "score score=1.0",
            "accept source=\"edge\" tokens=1",
        ]
    );
}

#[test]
fn the_edge_alone_is_neither_scored_nor_asked_for() {
    let accept = "accept source=\"edge\" tokens=1";
    assert_eq!(
        session(None),
        ["step position=0 unread=2", accept, "step position=2 unread=1", accept]
    );
}

#[test]
fn the_cloud_alone_asks_and_accepts() {
    let mut relay = Relay::new(cloud(), Sampling::default(), limits());
    assert_eq!(
        spans_of(async || drop(relay.next().await.unwrap().unwrap())),
        [
            "ask/inner",
            "ask position=0",
            "accept source=\"cloud\" tokens=1",
            "ask/inner",
            "ask position=1",
            "accept source=\"cloud\" tokens=2",
        ]
    );
}
