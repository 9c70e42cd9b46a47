//! Several clouds of one list: who has the conversation, who takes over, and who may not.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Limits, OnCloudError, Routing, Sampling, Session,
    SessionInput, Source, Threshold, fake::FakeEdge, sampling,
};
use tandem_cloud::{CloudGroup, CloudState, Clouds, Settings};

use crate::common::{Dialect, Fake, Mood, PIECES, Third, model};

async fn pair(dialects: [Dialect; 2]) -> [Fake; 2] {
    [Fake::start(dialects[0], 3).await, Fake::start(dialects[1], 3).await]
}

fn clouds(fakes: &[Fake], change: impl Fn(Settings) -> Settings) -> Clouds {
    let settings = fakes.iter().map(|fake| change(fake.settings())).collect();
    Clouds::new(Arc::new(CloudGroup::new(settings)), fakes[0].opening(PIECES)).unwrap()
}

async fn ask(clouds: &mut Clouds) -> Result<Answer, CloudError> {
    let sampling = Sampling::default();
    let want = AnswerLength::Tokens(1);
    clouds.next(Ask { tokens: &[], text: "", want, sampling: &sampling }).await
}

fn asks(fake: &Fake) -> usize {
    fake.asks.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_conversation_stays_until_its_cloud_fails_and_the_next_answers_the_same_ask() {
    for (faulty, dialect) in [
        (Mood::Resets, Dialect::LlamaServer),
        (Mood::Hangs, Dialect::SglangStreaming),
        (Mood::HalfJson, Dialect::VllmGenerate),
    ] {
        let fakes = pair([dialect, Dialect::LlamaServer]).await;
        let mut clouds = clouds(&fakes, |settings| settings);
        clouds.open().await.unwrap();
        for _ in 0..3 {
            assert_eq!(ask(&mut clouds).await.unwrap().usage.answered_by, Some(1));
        }
        // The second was not so much as looked at.
        assert!(fakes[1].seen.lock().unwrap().is_empty());
        fakes[0].feel(faulty.clone());
        let started = Instant::now();
        let usage = ask(&mut clouds).await.unwrap().usage;
        assert_eq!((usage.answered_by, usage.failovers), (Some(2), 1), "{faulty:?}");
        // The deadline is shared: 1.5 s for both.
        assert!(started.elapsed() < Duration::from_millis(1600), "{:?}", started.elapsed());
        // The first is well again, but the cache is at the second.
        fakes[0].feel(Mood::Well);
        for _ in 0..3 {
            let usage = ask(&mut clouds).await.unwrap().usage;
            assert_eq!((usage.answered_by, usage.failovers), (Some(2), 1), "{faulty:?}");
        }
        // The next text is the first one's, once that was found to be back.
        let mut first = None;
        for _ in 0..100 {
            clouds.reopen(&fakes[0].opening(PIECES));
            clouds.open().await.unwrap();
            first = ask(&mut clouds).await.unwrap().usage.answered_by;
            if first == Some(1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        assert_eq!(first, Some(1), "{faulty:?}");
    }
}

/// Of one cloud, and of several: what the last asks met, and nothing before the first.
#[tokio::test]
async fn the_state_is_what_the_last_asks_met() {
    for count in [1, 2] {
        let fakes = pair([Dialect::LlamaServer, Dialect::LlamaServer]).await;
        let settings = fakes.iter().take(count).map(Fake::settings).collect();
        let group = Arc::new(CloudGroup::new(settings));
        let mut clouds = Clouds::new(group.clone(), fakes[0].opening(PIECES)).unwrap();
        assert_eq!(group.state(), None);
        clouds.open().await.unwrap();
        ask(&mut clouds).await.unwrap();
        assert_eq!(group.state(), Some(CloudState::Ready));
        fakes.iter().for_each(|fake| fake.feel(Mood::Resets));
        ask(&mut clouds).await.unwrap_err();
        assert_eq!(group.state(), Some(CloudState::Unreachable), "{count}");
        fakes.iter().for_each(|fake| fake.feel(Mood::Well));
        let until = Instant::now() + Duration::from_secs(10);
        while ask(&mut clouds).await.is_err() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(group.state(), Some(CloudState::Ready), "{count}");
    }
}

#[tokio::test]
async fn another_model_is_refused_and_named() {
    let fakes = [Fake::start(Dialect::LlamaServer, 3).await, Fake::start(Dialect::Sglang, 4).await];
    let mut clouds = clouds(&fakes, |settings| settings);
    clouds.open().await.unwrap();
    ask(&mut clouds).await.unwrap();
    fakes[0].feel(Mood::Resets);
    let before = asks(&fakes[1]);
    let error = ask(&mut clouds).await.unwrap_err();
    // The failure of the one that may answer is told; the other is asked what it is, once.
    assert!(matches!(error, CloudError::Unreachable { .. }), "{error}");
    let (group, _) = clouds.each();
    let refused = group.prove(1).await.unwrap_err();
    assert!(
        matches!(&refused, CloudError::AnotherModel { url, .. } if *url == fakes[1].url),
        "{refused}"
    );
    assert_eq!(asks(&fakes[1]), before + 1);
    // Nothing of a conversation went there.
    fakes[0].feel(Mood::Well);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(ask(&mut clouds).await.unwrap().usage.answered_by, Some(1));
    // A cloud that comes back with another model is refused as well.
    let fakes = pair([Dialect::LlamaServer; 2]).await;
    let mut clouds = self::clouds(&fakes, |settings| settings);
    clouds.open().await.unwrap();
    ask(&mut clouds).await.unwrap();
    fakes[0].feel(Mood::Resets);
    assert_eq!(ask(&mut clouds).await.unwrap().usage.answered_by, Some(2));
    fakes[0].become_another(model(9));
    fakes[0].feel(Mood::Well);
    let (group, _) = clouds.each();
    assert!(matches!(group.prove(0).await, Err(CloudError::AnotherModel { .. })));
}

#[tokio::test]
async fn a_text_waits_until_any_of_them_is_back_and_a_failure_names_the_cause() {
    let fakes = pair([Dialect::LlamaServer, Dialect::Sglang]).await;
    let most = Some(Duration::from_secs(20));
    let wait = |settings| Settings { on_error: OnCloudError::Wait, max_wait: most, ..settings };
    let mut patient = clouds(&fakes, wait);
    patient.open().await.unwrap();
    fakes.iter().for_each(|fake| fake.feel(Mood::Resets));
    let later = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        fakes[1].feel(Mood::Well);
    };
    let (answer, ()) = tokio::join!(ask(&mut patient), later);
    assert_eq!(answer.unwrap().usage.answered_by, Some(2));
    let mut hasty = clouds(&fakes, |settings| settings);
    fakes[1].feel(Mood::Resets);
    assert!(matches!(hasty.open().await, Err(CloudError::Unreachable { .. })));
}

#[tokio::test]
async fn with_one_of_two_well_no_text_differs_and_no_token_falls_back() {
    for in_flight in [0, 3] {
        let fakes = pair([Dialect::VllmGenerate, Dialect::LlamaServer]).await;
        let (edge, prompt) = (model(1), fakes[0].prompt());
        let routing = Routing {
            router: Third,
            policy: Threshold::new(0.5).unwrap().into(),
            cloud: clouds(&fakes, |settings| settings),
            on_error: OnCloudError::Keep,
        };
        let (sampling, limits) = (Sampling::default(), Limits { max_tokens: 60, stops: vec![] });
        let input = SessionInput { prompt: prompt.clone(), written: vec![], sampling, limits };
        let session = Session::new(FakeEdge::new(edge.clone(), 1000), Some(routing), input);
        let mut session = session.unwrap().with_asks_in_flight(in_flight);
        for spans in 0.. {
            match spans {
                9 => fakes[0].feel(Mood::Resets),
                24 => fakes[0].feel(Mood::Well),
                // By now the first is known to be back, or is found to be.
                39 => {
                    tokio::time::sleep(Duration::from_millis(700)).await;
                    fakes[1].feel(Mood::HalfJson);
                }
                _ => {}
            }
            if session.next().await.unwrap().is_none() {
                break;
            }
        }
        let mut context = prompt;
        for token in session.transcript().shown() {
            let asked = context.len().is_multiple_of(3);
            assert_eq!(token.source, if asked { Source::Cloud } else { Source::Edge }, "{token:?}");
            let writer = if asked { &model(3) } else { &edge };
            assert_eq!(token.id, sampling::argmax(&writer.logits(&context)), "{token:?}");
            context.extend(token.id);
        }
        let stats = session.transcript().stats();
        assert_eq!((stats.failovers, stats.fallbacks), (2, 0), "{in_flight}");
        assert_eq!(stats.asks_by_cloud.iter().sum::<usize>(), stats.asks);
        assert!(stats.asks_by_cloud.iter().all(|asks| *asks > 2), "{:?}", stats.asks_by_cloud);
    }
}
