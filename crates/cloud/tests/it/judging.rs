//! Drafts and doubtful places that every engine judges in its own way.

use decode::{
    Cloud, Exchange, Limits, Message, OnCloudError, Relay, Routing, Sampling, Session,
    SessionInput, Stats, Threshold, Token, Verify,
    fake::{FakeCloud, FakeEdge, FakeModel},
};
use tandem_cloud::{Remote, Salts};

use crate::common::{Dialect, Fake, PIECES, Third, model, prompt};

const OTHER_PIECES: &[&str] = &[" the", " dog", " ran", ".", "\n", " on", "s", "中国", "7", " a"];

fn limits() -> Limits {
    Limits { max_tokens: 40, stops: vec![] }
}

fn input(edge: &FakeModel) -> SessionInput {
    let prompt = prompt(&edge.vocabulary, &[Message::user("Hello")]);
    SessionInput { prompt, written: vec![], sampling: Sampling::default(), limits: limits() }
}

/// What the large model writes alone.
async fn large(fake: &Fake, seed: u64) -> String {
    let here = FakeCloud::new(model(seed), fake.prompt(), Exchange::Ids);
    let mut relay = Relay::new(here, Sampling::default(), limits());
    while relay.next().await.unwrap().is_some() {}
    relay.transcript().text()
}

#[tokio::test]
async fn every_engine_judges_drafts_and_the_text_is_its_own() {
    for dialect in Dialect::ALL {
        for pieces in [PIECES, OTHER_PIECES] {
            let (mut asks, mut tokens) = (0, 0);
            for seed in 0..12 {
                let fake = Fake::start(dialect, 100 + seed).await;
                let expected = large(&fake, 100 + seed).await;
                // Where the edge has the cloud's vocabulary it is the cloud's model in every second case.
                let edge = FakeModel::new(if seed % 2 == 0 { 100 + seed } else { seed }, pieces);
                let remote = Remote::new(fake.settings(), fake.opening(pieces)).unwrap();
                let plan = input(&edge);
                let mut verify = Verify::new(FakeEdge::new(edge, 1000), remote, plan).unwrap();
                while verify.next().await.unwrap().is_some() {}
                let ids = pieces == PIECES && dialect != Dialect::OpenAi;
                assert_eq!(verify.exchange() == Some(Exchange::Ids), ids, "{dialect:?}");
                let text = verify.transcript().text();
                // Limits count the tokens of the side that writes.
                let (short, long) = if text.len() < expected.len() {
                    (&text, &expected)
                } else {
                    (&expected, &text)
                };
                let same = if ids { text == expected } else { long.starts_with(short.as_str()) };
                assert!(same, "{dialect:?} {seed}: {text:?}, not {expected:?}");
                if ids && seed % 2 == 0 {
                    asks += fake.asks.load(std::sync::atomic::Ordering::SeqCst);
                    tokens += verify.transcript().stats().tokens;
                }
            }
            // Where the edge writes what the cloud would, one request judges many tokens.
            assert!(asks * 2 < tokens || tokens == 0, "{dialect:?}: {asks} asks, {tokens} tokens");
        }
    }
}

async fn joint<C: Cloud>(
    seed: u64,
    cloud: C,
    (asks, judges): (usize, bool),
) -> (Vec<Token>, Stats) {
    let policy = Threshold::new(0.5).unwrap().into();
    let routing = Routing { router: Third, policy, cloud, on_error: OnCloudError::Fail };
    let edge = model(seed);
    let plan = input(&edge);
    let session = Session::new(FakeEdge::new(edge, 1000), Some(routing), plan).unwrap();
    let mut session = session.with_asks_in_flight(asks).with_judged_asks(judges);
    while session.next().await.unwrap().is_some() {}
    (session.transcript().tokens().to_vec(), session.transcript().stats())
}

#[tokio::test]
async fn doubtful_places_are_judged_together_where_that_is_cheaper() {
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::OpenAi) {
        let mut judged = 0;
        for seed in 0..12 {
            // Half of the edges agree with their cloud.
            let fake = Fake::start(dialect, if seed % 2 == 0 { seed } else { 100 + seed }).await;
            let (expected, waiting) = joint(seed, fake.remote(fake.settings()), (0, false)).await;
            for asks in [1, 3] {
                let remote = fake.remote(fake.settings());
                let (tokens, stats) = joint(seed, remote, (asks, true)).await;
                assert_eq!(tokens, expected, "{dialect:?} {seed} {asks}");
                assert_eq!((stats.asks, stats.fallbacks), (waiting.asks, 0));
                judged += stats.judged_asks;
            }
        }
        let cheaper = matches!(dialect, Dialect::Sglang | Dialect::SglangStreaming);
        assert_eq!(judged > 10, cheaper, "{dialect:?}: {judged}");
    }
}

/// What an engine without a place for a salt counts would tell one key what others asked.
#[tokio::test]
async fn a_judgement_tells_no_counts_of_a_cache_that_all_keys_share() {
    for (dialect, salted) in
        [(Dialect::LlamaServer, true), (Dialect::LlamaServer, false), (Dialect::OpenAi, true)]
    {
        let fake = Fake::start(dialect, 104).await;
        let mut remote = Remote::new(fake.settings(), fake.opening(PIECES)).unwrap();
        remote.separate(salted.then(|| Salts::random().unwrap().of(1)));
        let edge = model(104);
        let plan = input(&edge);
        let mut verify = Verify::new(FakeEdge::new(edge, 1000), remote, plan).unwrap();
        while verify.next().await.unwrap().is_some() {}
        let told = verify.transcript().stats().cloud_cached;
        assert_eq!(told.is_none(), salted, "{dialect:?}: {told:?}");
    }
}
