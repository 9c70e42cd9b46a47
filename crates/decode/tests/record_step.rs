//! A cloud is given the edge's step at every position where it is asked, and nowhere else.
#![allow(clippy::unwrap_used, clippy::panic)]

use tandem_decode::{
    Answer, Ask, Cloud, CloudError, Exchange, Handshake, Limits, OnCloudError, Router, Routing,
    Sampling, Score, Session, SessionInput, Step, Threshold, Token,
    fake::{FakeCloud, FakeEdge, FakeModel},
};

const PIECES: &[&str] = &[" the", " cat", " sat", " on"];

/// Doubts every third token.
struct Third;

impl Router for Third {
    fn score(&self, step: &Step) -> Score {
        Score::new(if step.position.is_multiple_of(3) { 0.0 } else { 1.0 })
    }
}

/// Records the position of every step it is given, and how many tokens were accepted at every ask.
struct RecordingCloud {
    cloud: FakeCloud,
    shown: Vec<usize>,
    asked: Vec<usize>,
}

impl Cloud for RecordingCloud {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.cloud.open().await
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        self.asked.push(ask.tokens.len());
        self.cloud.next(ask).await
    }

    fn record_step(&mut self, step: &Step) {
        self.shown.push(step.position);
    }
}

#[tokio::test]
async fn a_step_is_shown_before_its_ask() {
    let prompt = vec![Token(300)];
    let (mut asks, mut tokens) = (0, 0);
    // Some of these texts end soon.
    for seed in 0..20 {
        let edge = FakeEdge::new(FakeModel::new(seed, PIECES), 100);
        let cloud = FakeModel::new(seed + 100, PIECES);
        let cloud = FakeCloud::new(cloud, prompt.clone(), Exchange::Ids);
        let mut cloud = RecordingCloud { cloud, shown: vec![], asked: vec![] };
        let (policy, on_error) = (Threshold::new(0.5).unwrap().into(), OnCloudError::Fail);
        let routing = Routing { router: Third, policy, cloud: &mut cloud, on_error };
        let limits = Limits { max_tokens: 30, stops: vec![] };
        let (prompt, sampling) = (prompt.clone(), Sampling::default());
        let before = prompt.len();
        let plan = SessionInput { prompt, written: vec![], sampling, limits };
        let mut session = Session::new(edge, Some(routing), plan).unwrap();
        while session.next().await.unwrap().is_some() {}
        tokens += session.into_parts().2.tokens().len();
        let asked: Vec<_> = cloud.asked.iter().map(|accepted| before + accepted).collect();
        assert_eq!(cloud.shown, asked);
        asks += asked.len();
    }
    assert!(asks > 10 && asks < tokens, "{asks} {tokens}");
}
