//! A campaign of faults: `make chaos`.
//!
//! Texts are written by a scripted small model and scripted clouds in every dialect, over real
//! sockets, while a seeded script has the clouds hang, reset, restart, answer half or nonsense, or refuse.
//! Half of the texts wait for each answer, the others go on with several asks on their way. Since both
//! models are scripted, every token can be checked: it must be what its writer would have written behind
//! what stands before it, the cloud must have been asked exactly where the router said so, and where it
//! was asked and did not answer the token is marked.
//!
//! `TANDEM_SEED` and `TANDEM_GENERATIONS` run another campaign, or a longer one.

use std::{
    collections::BTreeMap,
    env, fs,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use decode::{
    Decision, FinishReason, Limits, OnCloudError, Router, Routing, Sampling, Score, Session,
    SessionInput, Source, Step, Threshold, Token, Vocabulary, fake::FakeEdge, sampling,
};
use tandem_cloud::{Remote, Settings};
use tokio::time::timeout;

use crate::common::{Dialect, Fake, Mood, PIECES, model};

const EDGE_SEED: u64 = 3;
const CLOUD_SEED: u64 = 11;
const MAX_TOKENS: usize = 24;

/// How long an ask may take, and how long a text waits: short, because many clouds hang.
const DEADLINE: Duration = Duration::from_millis(60);
const MAX_WAIT: Duration = Duration::from_millis(150);

/// No text takes longer than this, whatever its cloud does: each token has one ask and one wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Trust is the probability of the likeliest token.
struct Top1;

impl Router for Top1 {
    fn score(&self, step: &Step) -> Score {
        let token = sampling::argmax(&step.logits).unwrap_or(Token(0));
        Score::new(sampling::logprob(&step.logits, token).exp())
    }
}

struct Random {
    seed: u64,
    draws: usize,
}

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.draws += 1;
        (sampling::hash(self.seed, self.draws) >> 20) as usize % below.max(1)
    }

    /// What the next ask meets, where this many in a hundred meet a fault.
    fn fault(&mut self, percent: usize) -> (&'static str, Mood) {
        if self.below(100) >= percent {
            return ("none", Mood::Well);
        }
        let says = |status: u16, headers: &str, body: &str| Mood::Says {
            status,
            headers: headers.into(),
            body: body.into(),
        };
        match self.below(12) {
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
            _ => ("not JSON", says(200, "content-type: application/json\r\n", "{]")),
        }
    }
}

#[derive(Default)]
struct Counts {
    faults: BTreeMap<&'static str, usize>,
    texts: usize,
    ended_by_policy: usize,
    edge: usize,
    cloud: usize,
    fallback: usize,
    /// Answers that met what the edge had gone on with, and asks that were made in vain.
    met: usize,
    void: usize,
}

/// Resident memory in kilobytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// One text against one cloud, and a check of every token of it.
async fn generate(fake: &Fake, remote: Remote, random: &mut Random, counts: &mut Counts) -> Remote {
    let policies = [OnCloudError::Keep, OnCloudError::Keep, OnCloudError::Wait, OnCloudError::Fail];
    let on_error = policies[random.below(policies.len())];
    let threshold = [0.2, 0.5, 1.0][random.below(3)];
    // Some clouds fail now and then, others most of the time.
    let percent = [0, 5, 20, 60][random.below(4)];
    let asks_in_flight = [0, 3][random.below(2)];
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
        let (fault, mood) = random.fault(percent);
        fake.feel(mood);
        let asked = fake.asks.load(Ordering::SeqCst);
        // No text hangs.
        let next = timeout(LONGEST, session.next()).await.unwrap();
        if fake.asks.load(Ordering::SeqCst) > asked {
            *counts.faults.entry(fault).or_default() += 1;
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
    counts.texts += 1;
    counts.ended_by_policy += usize::from(failed);
    check(fake, &session, &prompt, threshold, on_error, counts);
    let stats = session.transcript().stats();
    let met = stats.confirmed_asks + stats.contradicted_asks;
    if asks_in_flight == 0 {
        assert_eq!((met, stats.void_asks), (0, 0), "a text that waits goes on with nothing");
    }
    (counts.met, counts.void) = (counts.met + met, counts.void + stats.void_asks);
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
                counts.edge += 1;
                assert_eq!(id, own);
                assert!(!asks || words, "it was to be asked, and nothing says why it was not");
            }
            Source::Fallback => {
                counts.fallback += 1;
                assert_eq!(id, own);
                assert!(asks && on_error == OnCloudError::Keep);
            }
            Source::Cloud => {
                counts.cloud += 1;
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
    campaign(1, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make chaos"]
async fn chaos() {
    let number = |name: &str, usual: u64| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let seed = number("TANDEM_SEED", 1);
    let before = resident();
    let tenth = number("TANDEM_GENERATIONS", 10_000) / 10;
    campaign(seed, tenth).await;
    let warm = resident();
    campaign(seed + 1000, tenth * 9).await;
    let after = resident();
    println!("memory: {before} kB at first, {warm} kB after a tenth, {after} kB at the end");
    assert!(after as f64 <= warm as f64 * 1.2 + 20_000.0, "memory grows: {warm} to {after} kB");
}

/// So many texts, spread over clouds of every dialect, which are all at work at the same time.
async fn campaign(seed: u64, texts: u64) {
    let workers = Dialect::ALL.into_iter().enumerate().map(|(worker, dialect)| {
        tokio::spawn(async move {
            let mut counts = Counts::default();
            let mut random = Random { seed: sampling::hash(seed, worker), draws: 0 };
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
        let counts = worker.await.unwrap();
        counts.faults.into_iter().for_each(|(k, n)| *all.faults.entry(k).or_default() += n);
        all.texts += counts.texts;
        all.ended_by_policy += counts.ended_by_policy;
        all.edge += counts.edge;
        all.cloud += counts.cloud;
        all.fallback += counts.fallback;
        all.met += counts.met;
        all.void += counts.void;
    }
    println!("seed {seed}: {} texts, {} ended by their policy", all.texts, all.ended_by_policy);
    println!("tokens: {} edge, {} cloud, {} fallback", all.edge, all.cloud, all.fallback);
    println!("asks: {} met what was gone on with, {} void", all.met, all.void);
    for (fault, count) in &all.faults {
        println!("{count:>8} asks: {fault}");
    }
    assert!(all.cloud > 0 && all.fallback > 0 && all.edge > 0);
    assert!(all.met > 0 && all.void > 0, "no text went on while it was answered");
}
