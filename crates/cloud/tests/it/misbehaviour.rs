//! What a cloud may do wrong, in every dialect, and what comes of it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Exchange, Limits, OnCloudError, Routing,
    Sampling, Session, SessionInput, Source, Threshold, Token,
    fake::{FakeEdge, FakeModel},
    sampling,
};
use tandem_cloud::{Endpoint, Engine, Remote, Settings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use crate::common::{Dialect, Fake, Mood, Third, model};

async fn ask(remote: &mut Remote, fake: &Fake, tokens: usize) -> Result<Answer, CloudError> {
    let want = match fake.dialect {
        Dialect::OpenAi => AnswerLength::Word,
        _ => AnswerLength::Tokens(tokens),
    };
    let sampling = Sampling::default();
    remote.next(Ask { tokens: &[], text: "", want, sampling: &sampling }).await
}

#[tokio::test]
async fn a_cloud_that_hangs_while_it_is_opened_is_given_up_at_the_deadline() {
    for dialect in Dialect::ALL {
        let fake = Fake::start(dialect, 3).await;
        fake.feel(Mood::Hangs);
        let mut remote = fake.remote(fake.settings());
        let started = Instant::now();
        // An engine that hangs only where it is asked may be opened; then the ask is given up.
        let error = match remote.open().await {
            Ok(_) => ask(&mut remote, &fake, 1).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains("within 1.5 s"), "{dialect:?}: {error}");
        assert!(started.elapsed() < Duration::from_secs(5), "{dialect:?}");
    }
}

/// A `tandem cloud` that says it is well, and hangs where a session is opened.
async fn hanging_tandem() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let health =
        r#"{"status":"ok","service":"tandem-cloud","version":"0","loaded":true,"sessions":0}"#;
    let length = health.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{health}");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut head).await {
                    if head[..length].starts_with(b"POST /v1/sessions") {
                        std::future::pending::<()>().await;
                    }
                    // Whoever was given up has gone.
                    drop(stream.write_all(answer.as_bytes()).await);
                }
            });
        }
    });
    url
}

/// A session may take as long to open as its model does to load, but no text waits for that.
#[tokio::test]
async fn a_tandem_cloud_that_hangs_while_a_session_is_opened_is_given_up_at_the_deadline() {
    let address = hanging_tandem().await.parse().unwrap();
    let settings = Settings {
        engine: Some(Engine::Tandem),
        deadline: Duration::from_millis(1500),
        ..Settings::new(Endpoint { address, key: None, authority: None })
    };
    let mut remote = Fake::start(Dialect::Sglang, 3).await.remote(settings);
    let started = Instant::now();
    let error = remote.open().await.unwrap_err();
    assert!(error.to_string().contains("within 1.5 s"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// An open conversation with a server that is now in this mood.
async fn opened(dialect: Dialect, mood: Mood) -> (Fake, Remote) {
    let fake = Fake::start(dialect, 3).await;
    let mut remote = fake.remote(fake.settings());
    let exchange = remote.open().await.unwrap().exchange;
    let ids = dialect != Dialect::OpenAi;
    assert_eq!(exchange, if ids { Exchange::Ids } else { Exchange::Text }, "{dialect:?}");
    fake.feel(mood);
    (fake, remote)
}

fn says(status: u16, headers: &str, body: &str) -> Mood {
    Mood::Says { status, headers: headers.into(), body: body.into() }
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn every_fault_has_its_name_in_every_dialect() {
    let html = "content-type: text/html\r\n";
    let stream = "content-type: text/event-stream\r\n";
    let cumulative = "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"ab\"}\n\ndata: [DONE]\n\n";
    let incremental = "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"b\"}\n\n";
    let cases = [
        (Mood::Hangs, "did not answer within 1.5 s"),
        (Mood::Resets, "cannot be reached"),
        (Mood::HalfJson, "EOF"),
        (says(200, html, "<p>hello"), "its answer is text/html, not JSON"),
        (says(401, JSON, r#"{"error":"Unauthorized"}"#), "Unauthorized: no or a wrong key"),
        (says(401, JSON, r#"{"error":{"message":"Bad key"}}"#), "Bad key: no or a wrong key"),
        (says(429, "retry-after: 7\r\n", ""), "(status 429)"),
        (says(500, html, "<h1>oops"), "<h1>oops"),
        (says(400, JSON, r#"{"error":{"message":"exceeds the context size"}}"#), "no longer fits"),
        (Mood::Verbose, "tokens came where"),
        (Mood::Mute, "it wrote nothing"),
        (Mood::Endless, "longer than 16 MB"),
        (says(200, stream, cumulative), "it streams, though it was not asked to"),
        (says(200, stream, incremental), "it streams, though it was not asked to"),
        (says(200, JSON, "[]"), "does not answer like"),
        (says(200, JSON, "null"), "does not answer like"),
    ];
    for dialect in Dialect::ALL {
        for (mood, expected) in &cases {
            let (fake, mut remote) = opened(dialect, mood.clone()).await;
            // An endless body is cut off by its size, not by the clock.
            if *mood == Mood::Endless {
                let settings =
                    tandem_cloud::Settings { deadline: Duration::from_secs(20), ..fake.settings() };
                fake.feel(Mood::Well);
                remote = fake.remote(settings);
                remote.open().await.unwrap();
                fake.feel(Mood::Endless);
            }
            let started = Instant::now();
            let error = ask(&mut remote, &fake, 4).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{dialect:?} {mood:?}: {error}");
            assert!(started.elapsed() < Duration::from_secs(10), "{dialect:?} {mood:?}");
            // And when it is well again, so are we, once the pause is over.
            fake.feel(Mood::Well);
            if !matches!(mood, Mood::Hangs) && !error.contains("429") {
                let again = ask(&mut remote, &fake, 1).await;
                assert!(again.is_ok(), "{dialect:?} {mood:?}: {again:?}");
            }
        }
    }
}

#[tokio::test]
async fn fewer_tokens_than_asked_for_are_taken_as_they_are() {
    for dialect in Dialect::ALL {
        let (fake, mut remote) = opened(dialect, Mood::Curt).await;
        let answer = ask(&mut remote, &fake, 4).await.unwrap();
        assert_eq!((answer.tokens.len(), answer.end), (1, false), "{dialect:?}");
    }
}

#[tokio::test]
async fn ids_outside_the_vocabulary_go_neither_way() {
    for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::OpenAi) {
        let (fake, mut remote) = opened(dialect, Mood::Ids(99_999)).await;
        // What comes in is refused by the session, which knows its vocabulary; here it is named.
        let answer = ask(&mut remote, &fake, 1).await.unwrap();
        assert_eq!(answer.tokens[0].id, Some(Token(99_999)));
        // What would go out never does: one engine dies of it.
        fake.feel(Mood::Well);
        let asks = fake.asks.load(Ordering::SeqCst);
        let sampling = Sampling::default();
        let tokens = [Token(99_999)];
        let bad =
            Ask { tokens: &tokens, text: "", want: AnswerLength::Tokens(1), sampling: &sampling };
        let error = remote.next(bad).await.unwrap_err();
        assert_eq!(error, CloudError::UnknownToken { id: Token(99_999) }, "{dialect:?}");
        assert_eq!(fake.asks.load(Ordering::SeqCst), asks, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays_here() {
    for dialect in Dialect::ALL {
        let elsewhere = Fake::start(dialect, 3).await;
        let location = format!("location: {}/x\r\n", elsewhere.url);
        for status in [301, 302, 307, 308] {
            let (fake, mut remote) = opened(dialect, says(status, &location, "")).await;
            let error = ask(&mut remote, &fake, 1).await.unwrap_err();
            assert!(matches!(error, CloudError::Redirected { .. }), "{dialect:?}: {error}");
            assert!(fake.seen.lock().unwrap().iter().all(|(_, keyed)| *keyed));
        }
        assert!(elsewhere.seen.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_pause_gets_it() {
    for dialect in Dialect::ALL {
        let (fake, mut remote) = opened(dialect, says(503, "retry-after: 1\r\n", "")).await;
        let first = ask(&mut remote, &fake, 1).await.unwrap_err();
        assert!(matches!(first, CloudError::Refused { status: 503, .. }), "{first}");
        fake.feel(Mood::Well);
        let asks = fake.asks.load(Ordering::SeqCst);
        let second = ask(&mut remote, &fake, 1).await.unwrap_err();
        assert!(matches!(second, CloudError::CircuitOpen { .. }), "{second}");
        assert_eq!(fake.asks.load(Ordering::SeqCst), asks, "it was asked during its pause");
        tokio::time::sleep(Duration::from_millis(1050)).await;
        assert!(ask(&mut remote, &fake, 1).await.is_ok(), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_server_that_comes_back_with_another_model_is_not_believed() {
    for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::OpenAi) {
        let (fake, mut remote) = opened(dialect, Mood::Well).await;
        ask(&mut remote, &fake, 1).await.unwrap();
        fake.become_another(FakeModel::new(3, &[" other", " words", "ly"]));
        fake.feel(Mood::Resets);
        let asked = fake.clone();
        tokio::spawn(async move {
            let before = asked.asks.load(Ordering::SeqCst);
            while asked.asks.load(Ordering::SeqCst) == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            asked.feel(Mood::Well);
        });
        for _ in 0..2 {
            let error = ask(&mut remote, &fake, 1).await.unwrap_err().to_string();
            assert!(error.contains("another vocabulary"), "{dialect:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_clock_gone_mad_breaks_nothing() {
    let mad = r#"{"content":"a","tokens":[258],"stop_type":"limit",
        "timings":{"prompt_ms":1.8e22,"predicted_ms":-5e300,"prompt_n":18446744073709551615,"cache_n":1}}"#;
    let (fake, mut remote) = opened(Dialect::LlamaServer, says(200, JSON, mad)).await;
    let answer = ask(&mut remote, &fake, 1).await.unwrap();
    assert_eq!(answer.usage.prefilled, None);
    assert!(answer.times.cloud_prefill < Duration::from_secs(1));
}

#[tokio::test]
async fn a_cloud_that_was_left_alone_is_used_again() {
    for dialect in Dialect::ALL {
        let (fake, mut remote) = opened(dialect, Mood::Resets).await;
        while !matches!(ask(&mut remote, &fake, 1).await, Err(CloudError::CircuitOpen { .. })) {}
        fake.feel(Mood::Well);
        tokio::time::sleep(Duration::from_millis(550)).await;
        let again = ask(&mut remote, &fake, 1).await;
        assert!(again.is_ok(), "{dialect:?}: {again:?}");
    }
}

#[tokio::test]
async fn a_text_waits_until_the_cloud_is_well() {
    for dialect in Dialect::ALL {
        let fake = Fake::start(dialect, 3).await;
        let on_error = decode::OnCloudError::Wait;
        let mut remote = fake.remote(tandem_cloud::Settings { on_error, ..fake.settings() });
        remote.open().await.unwrap();
        fake.feel(says(500, JSON, "{}"));
        let healer = fake.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(700)).await;
            healer.feel(Mood::Well);
        });
        let started = Instant::now();
        ask(&mut remote, &fake, 1).await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(650), "{dialect:?}");
        // What waiting cannot mend is told at once.
        fake.feel(says(401, JSON, "{}"));
        let error = ask(&mut remote, &fake, 1).await.unwrap_err();
        assert!(matches!(error, CloudError::Refused { status: 401, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_pretended_network_takes_its_time_and_counts_against_the_deadline() {
    let fake = Fake::start(Dialect::LlamaServer, 3).await;
    let delay = Some("150ms".parse().unwrap());
    let mut remote = fake.remote(tandem_cloud::Settings { delay, ..fake.settings() });
    // Finding out who answers takes several requests.
    let started = Instant::now();
    remote.open().await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300));
    let answer = ask(&mut remote, &fake, 1).await.unwrap();
    assert!(answer.times.network >= Duration::from_millis(150));
    remote.simulate_network(Some("1600ms".parse().unwrap()));
    let late = ask(&mut remote, &fake, 1).await.unwrap_err();
    assert!(matches!(late, CloudError::TimedOut { .. }), "{late}");
}

#[tokio::test]
async fn a_text_waits_for_its_cloud_as_long_as_it_may() {
    let fake = Fake::start(Dialect::VllmCompletions, 3).await;
    let most = Duration::from_millis(700);
    let settings =
        Settings { on_error: OnCloudError::Wait, max_wait: Some(most), ..fake.settings() };
    let mut remote = fake.remote(settings);
    remote.open().await.unwrap();
    fake.feel(Mood::Resets);
    let started = Instant::now();
    // It does not wait for ever.
    let waited = timeout(Duration::from_secs(30), ask(&mut remote, &fake, 1)).await.unwrap();
    assert!(waited.is_err());
    assert!(started.elapsed() >= most);
    // A cloud that is back in time is asked.
    fake.feel(Mood::Well);
    let most = Duration::from_secs(20);
    let settings =
        Settings { on_error: OnCloudError::Wait, max_wait: Some(most), ..fake.settings() };
    let mut remote = fake.remote(settings);
    remote.open().await.unwrap();
    fake.feel(Mood::Resets);
    let later = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        fake.feel(Mood::Well);
    };
    let (answer, ()) = tokio::join!(ask(&mut remote, &fake, 1), later);
    answer.unwrap();
}

/// With several asks on their way, every token is what its writer writes behind the text before it:
/// nothing is lost, nothing doubled, and where the small model stood in, the trace says so.
#[tokio::test]
async fn whatever_befalls_several_asks_at_once_every_token_is_its_writers() {
    let moods = [
        Mood::Resets,
        Mood::HalfJson,
        says(500, JSON, "{}"),
        says(200, JSON, "[]"),
        Mood::Mute,
        Mood::Hangs,
        Mood::Restarts,
    ];
    let (mut fallbacks, mut answers, mut void) = (0, 0, 0);
    for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::OpenAi) {
        for (seed, mood) in moods.iter().enumerate() {
            let fake = Fake::start(dialect, 3).await;
            let (edge, prompt) = (model(seed as u64), fake.prompt());
            let policy = Threshold::new(0.5).unwrap().into();
            // A text is not to wait long for each of several that hang.
            let hangs = *mood == Mood::Hangs;
            let deadline = Duration::from_millis(if hangs { 100 } else { 1500 });
            let cloud = fake.remote(Settings { deadline, ..fake.settings() });
            let routing = Routing { router: Third, policy, cloud, on_error: OnCloudError::Keep };
            let (sampling, limits) =
                (Sampling::default(), Limits { max_tokens: 60, stops: vec![] });
            let input = SessionInput { prompt: prompt.clone(), written: vec![], sampling, limits };
            let session = Session::new(FakeEdge::new(edge.clone(), 1000), Some(routing), input);
            let mut session = session.unwrap().with_asks_in_flight(3);
            for spans in 0.. {
                match spans % 12 {
                    5 => fake.feel(mood.clone()),
                    9 => fake.feel(Mood::Well),
                    _ => {}
                }
                if session.next().await.unwrap().is_none() {
                    break;
                }
            }
            let mut context = prompt;
            for token in session.transcript().shown() {
                let writer = if token.source == Source::Cloud { &model(3) } else { &edge };
                let expected = sampling::argmax(&writer.logits(&context));
                assert_eq!(token.id, expected, "{dialect:?} {mood:?} {token:?}");
                let asked = context.len().is_multiple_of(3);
                assert_eq!(asked, token.source != Source::Edge, "{dialect:?} {mood:?} {token:?}");
                context.extend(token.id);
            }
            let stats = session.transcript().stats();
            fallbacks += stats.fallbacks;
            answers += stats.cloud_tokens;
            void += stats.void_asks;
        }
    }
    assert!(fallbacks > 5 && answers > 20 && void > 5, "{fallbacks} {answers} {void}");
}
