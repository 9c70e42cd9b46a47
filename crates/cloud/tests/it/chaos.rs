//! A campaign of faults against every engine's dialect: a part of `make chaos`.
//!
//! Texts are written by a scripted small model and scripted clouds in every dialect, over real
//! sockets, while a seeded script has the clouds hang, reset, restart, forget, come late, answer half or
//! nonsense, or refuse.
//! Half of the texts wait for each answer, the others go on with several asks on their way. Since both
//! models are scripted, every token can be checked: it must be what its writer would have written behind
//! what stands before it, the cloud must have been asked exactly where the router said so, and where it
//! was asked and did not answer the token is marked.
//!
//! `TANDEM_SEED` and `TANDEM_GENERATIONS` run another campaign, or a longer one.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use decode::{
    Decision, FinishReason, Limits, OnCloudError, Router, Routing, Sampling, Score, Session,
    SessionInput, Source, Step, Threshold, Token, Vocabulary, fake::FakeEdge, sampling,
};
use tandem_cloud::{Remote, Settings};
use tokio::time::timeout;

use crate::common::{
    Dialect, Fake, Mood, PIECES,
    campaign::{Counts, Random, assert_flat, number, resident},
    model,
};

const EDGE_SEED: u64 = 3;
const CLOUD_SEED: u64 = 11;
const MAX_TOKENS: usize = 24;

/// How long an ask may take, and how long a text waits: short, because many clouds hang.
const DEADLINE: Duration = Duration::from_millis(60);
const MAX_WAIT: Duration = Duration::from_millis(150);

/// No text takes longer than this, whatever its cloud does: each token has one ask and one wait.
const LONGEST: Duration = Duration::from_secs(60);

const EDGE: &str = "tokens: edge";
const CLOUD: &str = "tokens: cloud";
const FALLBACK: &str = "tokens: fallback";
const MET: &str = "asks that met what was gone on with";
const VOID: &str = "asks made in vain";

/// Trust is the probability of the likeliest token.
struct Top1;

impl Router for Top1 {
    fn score(&self, step: &Step) -> Score {
        let token = sampling::argmax(&step.logits).unwrap_or(Token(0));
        Score::new(sampling::logprob(&step.logits, token).exp())
    }
}

/// What the next ask meets, where this many in a hundred meet a fault.
fn fault(random: &mut Random, percent: usize) -> (&'static str, Mood) {
    if random.below(100) >= percent {
        return ("asks without a fault", Mood::Well);
    }
    let says = |status: u16, headers: &str, body: &str| Mood::Says {
        status,
        headers: headers.into(),
        body: body.into(),
    };
    match random.below(16) {
        0 => ("hangs", Mood::Hangs),
        1 => ("resets in the middle", Mood::Resets),
        2 => ("half an answer", Mood::HalfJson),
        3 => ("garbage", says(200, "content-type: text/html\r\n", "<h1>oops")),
        4 => ("status 500", says(500, "", "")),
        5 => ("status 503", says(503, "retry-after: 0\r\n", "")),
        6 => ("status 429", says(429, "retry-after: 0\r\n", "")),
        7 => ("wrong ids", Mood::Ids(99_999)),
        8 => ("nothing", Mood::Mute),
        9 => ("too much", Mood::Verbose),
        10 => ("restarts", Mood::Restarts),
        11 => ("evicts", Mood::Evicts),
        12 => ("late", Mood::Late(DEADLINE / 4)),
        13 => ("late", Mood::Late(DEADLINE * 2)),
        14 => ("slow writer", Mood::Dribbles),
        _ => ("not JSON", says(200, "content-type: application/json\r\n", "{]")),
    }
}

/// One text against one cloud, and a check of every token of it.
async fn generate(fake: &Fake, remote: Remote, random: &mut Random, counts: &mut Counts) -> Remote {
    let policies = [OnCloudError::Keep, OnCloudError::Keep, OnCloudError::Wait, OnCloudError::Fail];
    let on_error = random.pick(&policies);
    let threshold = random.pick(&[0.2, 0.5, 1.0]);
    // Some clouds fail now and then, others most of the time.
    let percent = random.pick(&[0, 5, 20, 60]);
    let asks_in_flight = random.pick(&[0, 3]);
    let mut remote = remote;
    remote.set_on_error(on_error);
    let prompt = fake.prompt();
    let threshold = Threshold::new(threshold).unwrap();
    let routing = Routing { router: Top1, policy: threshold.into(), cloud: remote, on_error };
    let input = SessionInput {
        prompt: prompt.clone(),
        written: vec![],
        sampling: Sampling::default(),
        limits: Limits { max_tokens: MAX_TOKENS, stops: vec![] },
    };
    let edge = FakeEdge::new(model(EDGE_SEED), 512);
    let session = Session::new(edge, Some(routing), input).unwrap();
    let mut session = session.with_asks_in_flight(asks_in_flight);
    let started = Instant::now();
    let mut failed = false;
    loop {
        let (fault, mood) = fault(random, percent);
        fake.feel(mood);
        let asked = fake.asks.load(Ordering::SeqCst);
        // No text hangs.
        let next = timeout(LONGEST, session.next()).await.unwrap();
        if fake.asks.load(Ordering::SeqCst) > asked {
            counts.add(fault, 1);
        }
        match next {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => {
                assert_ne!(on_error, OnCloudError::Keep, "a text that keeps does not fail");
                failed = true;
                session.end(FinishReason::Error);
                break;
            }
        }
    }
    assert!(started.elapsed() < LONGEST);
    fake.feel(Mood::Well);
    counts.add("texts", 1);
    counts.add("texts: ended by their policy", usize::from(failed));
    check(fake, &session, &prompt, threshold, on_error, counts);
    let stats = session.transcript().stats();
    let met = stats.confirmed_asks + stats.contradicted_asks;
    if asks_in_flight == 0 {
        assert_eq!((met, stats.void_asks), (0, 0), "a text that waits goes on with nothing");
    }
    counts.add(MET, met);
    counts.add(VOID, stats.void_asks);
    let (_, cloud, _) = session.into_parts();
    cloud.unwrap()
}

fn check(
    fake: &Fake,
    session: &Session<FakeEdge, Top1, Remote>,
    prompt: &[Token],
    threshold: Threshold,
    on_error: OnCloudError,
    counts: &mut Counts,
) {
    let transcript = session.transcript();
    let (edge, cloud) = (model(EDGE_SEED), model(CLOUD_SEED));
    let words = fake.dialect == Dialect::OpenAi;
    let mut context = prompt.to_vec();
    for (i, token) in transcript.shown().iter().enumerate() {
        assert_eq!(token.index, i, "no token is lost or doubled");
        let id = token.id.unwrap();
        let logits = edge.logits(&context);
        let own = sampling::argmax(&logits).unwrap();
        let likeliest = sampling::logprob(&logits, own).exp();
        let asks = threshold.decide(Score::new(likeliest)) == Decision::Ask;
        match token.source {
            Source::Edge => {
                counts.add(EDGE, 1);
                assert_eq!(id, own);
                assert!(!asks || words, "it was to be asked, and nothing says why it was not");
            }
            Source::Fallback => {
                counts.add(FALLBACK, 1);
                assert_eq!(id, own);
                assert!(asks && on_error == OnCloudError::Keep);
            }
            Source::Cloud => {
                counts.add(CLOUD, 1);
                assert!(asks || words);
                if !words {
                    let theirs = sampling::argmax(&cloud.logits(&context)).unwrap();
                    assert_eq!(id, theirs, "what the cloud would have written here");
                }
            }
        }
        context.push(id);
    }
    let ids: Vec<_> = transcript.shown().iter().filter_map(|token| token.id).collect();
    assert_eq!(ids, transcript.tokens());
    let bytes: Vec<u8> = ids.iter().flat_map(|&id| edge.vocabulary.piece(id)).collect();
    assert_eq!(transcript.text(), String::from_utf8_lossy(&bytes));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_faults() {
    campaign(1, 240).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make chaos"]
async fn a_campaign_of_faults() {
    let seed = number("TANDEM_SEED", 1);
    let tenth = number("TANDEM_GENERATIONS", 10_000) / 10;
    let mut all = campaign(seed, tenth).await;
    let warm = resident("self");
    all.join(&campaign(seed + 1000, tenth * 9).await);
    let after = resident("self");
    all.set("memory after a tenth, kB", warm);
    all.set("memory at the end, kB", after);
    all.print("engines, scripted models");
    assert_flat(warm, after);
}

/// So many texts, spread over clouds of every dialect, which are all at work at the same time.
async fn campaign(seed: u64, texts: u64) -> Counts {
    let workers = Dialect::ALL.into_iter().enumerate().map(|(worker, dialect)| {
        tokio::spawn(async move {
            let mut counts = Counts::default();
            let mut random = Random::new(seed, worker);
            let fake = Fake::start(dialect, CLOUD_SEED).await;
            let settings =
                Settings { deadline: DEADLINE, max_wait: Some(MAX_WAIT), ..fake.settings() };
            let new = || fake.remote(settings.clone());
            let mut remote = new();
            for text in 0..texts.div_ceil(Dialect::ALL.len() as u64) {
                // Some texts go on with the conversation's cache, others begin with a new client.
                if text % 3 == 0 {
                    remote = new();
                } else {
                    remote.reopen(fake.opening(PIECES));
                }
                remote = generate(&fake, remote, &mut random, &mut counts).await;
                fake.seen.lock().unwrap().clear();
                fake.carried.lock().unwrap().clear();
            }
            counts
        })
    });
    let mut all = Counts::default();
    for worker in workers.collect::<Vec<_>>() {
        all.join(&worker.await.unwrap());
    }
    for row in [EDGE, CLOUD, FALLBACK, MET, VOID] {
        assert!(all.of(row) > 0, "{row}: {all:?}");
    }
    all
}
