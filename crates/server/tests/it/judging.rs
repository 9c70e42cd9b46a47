//! `tandem cloud` judges several doubtful places with one request: the text is that of the loop that waits.
#![allow(clippy::unwrap_used, clippy::panic)]

use cloud::{EdgeSide, Opening, Remote, Settings, protocol::Prompt};
use decode::{
    Cloud, Edge, Exchange, Limits, OnCloudError, Router, Routing, Sampling, Score, Session,
    SessionInput, Stats, Step, Threshold, Token, Verify, Vocabulary,
};
use engine::Model;
use tandem_server::cloud::Config;

use crate::common::{compute, settings, start, tiny};

/// Doubts two places of three, so that many are close together.
struct TwoOfThree;

impl Router for TwoOfThree {
    fn score(&self, step: &Step) -> Score {
        Score::new(if step.position.is_multiple_of(3) { 1.0 } else { 0.0 })
    }
}

fn input(prompt: &[Token]) -> SessionInput {
    let limits = Limits { max_tokens: 48, stops: vec![] };
    SessionInput { prompt: prompt.to_vec(), written: vec![], sampling: Sampling::default(), limits }
}

async fn joint(
    edge: impl Edge,
    cloud: impl Cloud,
    prompt: &[Token],
    (asks, judges): (usize, bool),
) -> (Vec<Token>, Stats) {
    let policy = Threshold::new(0.5).unwrap().into();
    let routing = Routing { router: TwoOfThree, policy, cloud, on_error: OnCloudError::Fail };
    let session = Session::new(edge, Some(routing), input(prompt)).unwrap();
    let mut session = session.with_asks_in_flight(asks).with_judged_asks(judges);
    while session.next().await.unwrap().is_some() {}
    assert_eq!(session.exchange(), Some(Exchange::Ids));
    (session.transcript().tokens().to_vec(), session.transcript().stats())
}

#[tokio::test]
async fn tandem_cloud_judges_what_was_put_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = |seed| tiny::model(&folder.path().join(format!("{seed}.gguf")), seed);
    let files = [file(1), file(2)];
    let mut judged = 0;
    // Models that agree, and models that seldom do.
    for (edge, cloud) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let model = Model::load(&compute(), files[edge].clone()).await.unwrap();
        let address = start(files[cloud].clone(), Config::default()).await;
        let prompt = model.vocabulary().encode("the cat sat");
        let opening = || Opening {
            prompt: Prompt::Tokens(prompt.clone()),
            edge: Some(EdgeSide {
                vocabulary: model.vocabulary().clone(),
                prompt: prompt.clone(),
                probe: vec![],
            }),
            rendered: None,
            grammar: None,
        };
        let remote = || {
            // A step of these models takes a fraction of a millisecond.
            let delay = Some("30ms".parse().unwrap());
            Remote::new(Settings { delay, ..settings(&address) }, opening()).unwrap()
        };
        let mut sequence = model.open().await.unwrap();
        let (expected, waiting) = joint(&mut sequence, remote(), &prompt, (0, false)).await;
        for asks in [1, 2, 3] {
            let (tokens, stats) = joint(&mut sequence, remote(), &prompt, (asks, true)).await;
            assert_eq!(tokens, expected, "{edge} and {cloud}, {asks} in flight");
            assert_eq!((stats.asks, stats.fallbacks), (waiting.asks, 0));
            judged += stats.judged_asks;
        }
        // The same cloud judges whole drafts, and then the text is its own alone.
        let mut verify = Verify::new(&mut sequence, remote(), input(&prompt)).unwrap();
        while verify.next().await.unwrap().is_some() {}
        let (_, _, verified) = verify.into_parts();
        if edge == cloud {
            assert_eq!(verified.tokens(), expected);
            // What was judged and then accepted is not read again, but for its last token.
            let Stats { tokens, asks, cloud_prefilled, .. } = verified.stats();
            let most = prompt.len() + tokens + 2 * asks;
            assert!(cloud_prefilled.unwrap() <= most, "{cloud_prefilled:?}, not {most}");
            assert!(tokens > 24, "{tokens}");
        }
    }
    assert!(judged > 0);
}
