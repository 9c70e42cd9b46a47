//! A campaign of faults against the program itself: a part of `make chaos`.
//!
//! `tandem serve` writes texts for several callers at once, with a `tandem cloud` or a llama-server behind
//! a line. Both serve the small model, so a text is the same whoever wrote which of its tokens: whatever
//! befalls it, it must be the text of a quiet day. A seeded script kills, stops and ends the cloud, takes
//! its sessions and its files away, fills its disk and disturbs the line; it ends the edge server and takes
//! its files; and callers speak or listen slowly, or go away. After each of these nobody holds a seat any
//! more, and memory and open files are what they were.
#![allow(clippy::unwrap_used, clippy::panic)]

mod caller;
mod servers;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use models::{Catalog, Environment, Home};
use serde_json::{Value, json};
use tokio::{
    task::{JoinHandle, block_in_place},
    time::{sleep, timeout},
};

use self::{
    caller::{Outcome, Pace, Text, call},
    servers::{Cloud, Edge, KEY, SEATS, SESSIONS, figure, get, without_files},
};
use crate::common::{
    SMALL, agree_where_sure,
    campaign::{Counts, Random, number},
    llama_server::LlamaServer,
    proxy::{BUSY, FAILS, Fault, GARBAGE, NOT_JSON, Proxy, TOO_MANY},
    send,
};

const QUESTIONS: [&str; 6] = [
    "Name three rivers in France.",
    "What do bees make?",
    "Count from one to ten.",
    "Why is the sky blue?",
    "What is the capital of Italy?",
    "What is snow made of?",
];

const MAX_TOKENS: usize = 20;

/// Callers at once: one more than there are seats.
const CALLERS: usize = 4;

/// No text takes longer, whatever befalls it.
const LONGEST: Duration = Duration::from_secs(90);

const HEALTH: &str = "the longest answer of /health, ms";

/// What happens while texts are being written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Nothing,
    Line(Fault),
    CloudKilled,
    CloudTerminated,
    /// It stands still, and goes on later.
    CloudStopped,
    /// Others take its sessions.
    Evicted,
    CloudWithoutFiles,
    EdgeWithoutFiles,
    EdgeTerminated,
    Callers(Pace),
}

/// Of the line alone.
const LINE: [Trouble; 12] = [
    Trouble::Line(Fault::Cut),
    Trouble::Line(Fault::Resets),
    Trouble::Line(Fault::Half),
    Trouble::Line(Fault::Hangs),
    Trouble::Line(Fault::Late(Duration::from_millis(100))),
    Trouble::Line(Fault::Dribbles),
    Trouble::Line(Fault::WrongIds),
    Trouble::Line(GARBAGE),
    Trouble::Line(NOT_JSON),
    Trouble::Line(FAILS),
    Trouble::Line(BUSY),
    Trouble::Line(TOO_MANY),
];

/// What befalls processes and callers.
const PROCESSES: [Trouble; 11] = [
    Trouble::Nothing,
    Trouble::CloudKilled,
    Trouble::CloudTerminated,
    Trouble::CloudStopped,
    Trouble::Evicted,
    Trouble::CloudWithoutFiles,
    Trouble::EdgeWithoutFiles,
    Trouble::EdgeTerminated,
    Trouble::Callers(Pace::SlowReader),
    Trouble::Callers(Pace::SlowWriter),
    Trouble::Callers(Pace::Leaves(Duration::from_millis(150))),
];

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "rounds: nothing",
            Self::Line(_) => "rounds: a fault of the line",
            Self::CloudKilled => "rounds: the cloud is killed",
            Self::CloudTerminated => "rounds: SIGTERM to the cloud",
            Self::CloudStopped => "rounds: the cloud stands still",
            Self::Evicted => "rounds: sessions are evicted",
            Self::CloudWithoutFiles => "rounds: the cloud has no file handles",
            Self::EdgeWithoutFiles => "rounds: the edge has no file handles",
            Self::EdgeTerminated => "rounds: SIGTERM to the edge",
            Self::Callers(Pace::SlowReader) => "rounds: slow readers",
            Self::Callers(Pace::SlowWriter) => "rounds: slow writers",
            Self::Callers(_) => "rounds: callers leave",
        }
    }

    /// Whether it may keep a caller from being taken at all.
    fn may_refuse(self) -> bool {
        matches!(self, Self::EdgeTerminated | Self::EdgeWithoutFiles)
    }
}

/// What a text is asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    question: usize,
    threshold: f64,
    policy: &'static str,
    stream: bool,
}

impl Asked {
    fn body(&self) -> Value {
        json!({
            "messages": [{ "role": "user", "content": QUESTIONS[self.question] }],
            "max_tokens": MAX_TOKENS, "temperature": 0, "stream": self.stream,
            "tandem": {
                "mode": "joint", "router": "margin", "threshold": self.threshold,
                "on_cloud_error": self.policy, "trace": true,
            },
        })
    }
}

struct Campaign {
    random: Random,
    cloud: Cloud,
    proxy: Proxy,
    edge: Edge,
    /// Where the edge server is now; `None` while it is not there.
    watched: Arc<Mutex<Option<SocketAddr>>>,
    model: PathBuf,
    /// The text of each question on a quiet day.
    quiet: Vec<Value>,
    counts: Counts,
    /// Tokens that could be compared with those texts.
    compared: usize,
}

impl Campaign {
    async fn begin(seed: u64, cloud: Cloud, more: &'static [&'static str]) -> Self {
        let proxy = Proxy::to(cloud.address()).await;
        let edge = block_in_place(|| Edge::start(&proxy.url, more));
        let watched = Arc::new(Mutex::new(Some(edge.address())));
        let (catalog, home) =
            (Catalog::built_in().unwrap(), Home::find(Environment::read()).unwrap());
        let model = home.require(catalog.find(SMALL).unwrap()).unwrap();
        let (random, counts) = (Random::new(seed, 0), Counts::default());
        let (quiet, compared) = (vec![], 0);
        let mut campaign =
            Self { random, cloud, proxy, edge, watched, model, quiet, counts, compared };
        for question in 0..QUESTIONS.len() {
            let text = campaign.undisturbed(question).await;
            campaign.quiet.push(text.report());
        }
        campaign
    }

    async fn undisturbed(&self, question: usize) -> Text {
        let asked = Asked { question, threshold: 1.0, policy: "fail", stream: false };
        match call(self.edge.address(), &asked.body(), Pace::Usual).await {
            Outcome::Text(text) => text,
            other => panic!("{other:?} although nothing happened"),
        }
    }

    /// Several texts, and what befalls them.
    async fn round(&mut self, trouble: Trouble) {
        self.counts.add(trouble.name(), 1);
        let mut texts = vec![];
        for _ in 0..CALLERS {
            let random = &mut self.random;
            let asked = Asked {
                question: random.below(QUESTIONS.len()),
                threshold: random.pick(&[1.0, 0.9]),
                policy: random.pick(&["keep", "keep", "wait", "fail"]),
                stream: random.below(2) == 0,
            };
            let pace = match trouble {
                Trouble::Callers(Pace::Leaves(most)) => {
                    Pace::Leaves(most * (1 + random.below(8) as u32) / 4)
                }
                Trouble::Callers(pace) => pace,
                _ => Pace::Usual,
            };
            let address = self.edge.address();
            let text = async move { (asked, call(address, &asked.body(), pace).await) };
            texts.push(tokio::spawn(timeout(LONGEST, text)));
        }
        sleep(Duration::from_millis(50 + self.random.below(300) as u64)).await;
        self.happen(trouble).await;
        for text in texts {
            let Ok((asked, outcome)) = text.await.unwrap() else {
                panic!("a text hangs: {trouble:?}")
            };
            self.check(trouble, asked, outcome);
        }
        self.edge.come_to_rest(CALLERS).await;
    }

    async fn happen(&mut self, trouble: Trouble) {
        let while_it_lasts = Duration::from_millis(200 + self.random.below(600) as u64);
        match trouble {
            Trouble::Nothing | Trouble::Callers(_) => {}
            Trouble::Line(fault) => {
                self.proxy.set(fault);
                sleep(while_it_lasts).await;
                self.proxy.set(Fault::None);
            }
            Trouble::CloudKilled => {
                self.cloud.kill_and_restart(while_it_lasts, &self.model).await;
                self.proxy.lead_to(self.cloud.address());
            }
            Trouble::CloudTerminated => {
                self.cloud.terminate_and_restart().await;
                self.proxy.lead_to(self.cloud.address());
            }
            Trouble::CloudStopped => {
                send(self.cloud.child(), "STOP");
                sleep(while_it_lasts * 4).await;
                send(self.cloud.child(), "CONT");
            }
            Trouble::Evicted => self.evict().await,
            Trouble::CloudWithoutFiles => {
                // Whoever is connected already needs no file: the line breaks too.
                let cut = async {
                    self.proxy.set(Fault::Cut);
                    sleep(while_it_lasts / 4).await;
                    self.proxy.set(Fault::None);
                };
                let child = &*self.cloud.child();
                tokio::join!(without_files(child, while_it_lasts), cut);
            }
            Trouble::EdgeWithoutFiles => {
                without_files(&self.edge.server.child, while_it_lasts).await;
            }
            Trouble::EdgeTerminated => {
                *self.watched.lock().unwrap() = None;
                self.edge.terminate_and_restart().await;
                *self.watched.lock().unwrap() = Some(self.edge.address());
            }
        }
    }

    /// Opens as many sessions at the cloud as it has, again and again.
    async fn evict(&mut self) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}/v1/sessions", self.cloud.address());
        for other in 0..SESSIONS * 4 {
            let prompt = json!({ "prompt": { "text": format!("Somebody else, number {other}") } });
            let status = client.post(&url).json(&prompt).send().await.unwrap().status().as_u16();
            // Sessions that are at work stay.
            assert!(matches!(status, 200 | 503), "status {status}");
            self.counts.add("sessions of others opened", usize::from(status == 200));
            sleep(Duration::from_millis(30)).await;
        }
    }

    fn check(&mut self, trouble: Trouble, asked: Asked, outcome: Outcome) {
        let what = format!("{trouble:?} {asked:?}");
        self.counts.add("texts", 1);
        let text = match outcome {
            Outcome::Text(text) => text,
            Outcome::Left => return self.counts.add("texts: their callers left", 1),
            Outcome::CutOff => panic!("a text is cut off: {what}"),
            Outcome::NotTaken => {
                assert!(trouble.may_refuse(), "nobody took it: {what}");
                return self.counts.add("texts: not taken", 1);
            }
            Outcome::Failed(code) if code == "shutting_down" => {
                assert_eq!(trouble, Trouble::EdgeTerminated, "{what}");
                return self.counts.add("texts: not taken", 1);
            }
            Outcome::Failed(code) => {
                assert_ne!(asked.policy, "keep", "it was to go on: {code} {what}");
                assert_eq!(code, "cloud_failed", "{what}");
                return self.counts.add("texts: ended by their policy", 1);
            }
        };
        let mut fallbacks = 0;
        for (i, token) in text.tokens.iter().enumerate() {
            assert_eq!(token["index"], i, "a token is lost or doubled: {what}");
            let source = token["source"].as_str().unwrap();
            let asks = token["score"].as_f64().unwrap() < asked.threshold || asked.threshold == 1.0;
            assert_eq!(asks, source != "edge", "{token} {what}");
            self.counts.add(
                match source {
                    "edge" => "tokens: edge",
                    "cloud" => "tokens: cloud",
                    "fallback" => "tokens: fallback",
                    other => panic!("{other} {what}"),
                },
                1,
            );
            fallbacks += usize::from(source == "fallback");
        }
        assert!(fallbacks == 0 || asked.policy == "keep", "{what}");
        assert_eq!(text.stats["fallback_tokens"], fallbacks, "{what}");
        let joined: String =
            text.tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
        assert_eq!(joined, text.content, "{what}");
        self.compared += agree_where_sure(&self.quiet[asked.question], &text.report());
    }

    /// Sees that all is as before, and what came of it.
    async fn end(mut self) -> Counts {
        let begun = Instant::now();
        // The longest pause after failures is half a minute.
        while self.back_at_the_cloud().await.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the cloud is never used again");
            sleep(Duration::from_millis(200)).await;
        }
        for (fault, count) in self.proxy.met() {
            self.counts.add(if fault == "none" { "asks without a fault" } else { fault }, count);
        }
        if let Cloud::Tandem(server) = &self.cloud {
            let sessions = figure(&get(&server.url, "/metrics").await, "tandem_cloud_sessions");
            assert!(sessions.unwrap() <= SEATS, "{sessions:?} sessions");
        }
        assert!(self.compared > 20, "only {} tokens were compared", self.compared);
        assert!(self.counts.of("tokens: cloud") > 0, "{:?}", self.counts);
        // What is asked of the edge server from now on is asked of one that ends.
        *self.watched.lock().unwrap() = None;
        self.counts
    }

    async fn back_at_the_cloud(&self) -> Option<Text> {
        let asked = Asked { question: 0, threshold: 1.0, policy: "keep", stream: false };
        match call(self.edge.address(), &asked.body(), Pace::Usual).await {
            Outcome::Text(text) => Some(text).filter(|text| text.stats["fallback_tokens"] == 0),
            other => panic!("{other:?} although nothing happened"),
        }
    }
}

/// Asks the edge server for its health all the time, on a connection that stays; ends with the longest
/// time it took, in milliseconds.
fn watch_health(watched: Arc<Mutex<Option<SocketAddr>>>) -> JoinHandle<usize> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        // Nobody else holds it once the campaign is over.
        while Arc::strong_count(&watched) > 1 {
            sleep(Duration::from_millis(50)).await;
            let there = *watched.lock().unwrap();
            let Some(address) = there else { continue };
            let started = Instant::now();
            let health = client.get(format!("http://{address}/health")).send().await;
            if *watched.lock().unwrap() == there {
                assert_eq!(health.unwrap().status(), 200);
                longest = longest.max(started.elapsed());
            }
        }
        longest.as_millis() as usize
    })
}

/// Rounds of these troubles in turn, in an order of the seed's.
async fn rounds(seed: u64, cloud: Cloud, troubles: &[Trouble], rounds: usize) -> Counts {
    ::cloud::http::provide_cryptography();
    // Some of what befalls `tandem cloud` takes longer than an ask may. llama-server is asked more when a
    // text begins, and has one slot for all.
    let options: &[&str] = match cloud {
        Cloud::Tandem(_) => &["--ask-deadline", "2s"],
        Cloud::LlamaServer(_) => &["--ask-deadline", "10s", "--cloud-key", KEY],
    };
    let mut campaign = Campaign::begin(seed, cloud, options).await;
    let health = watch_health(campaign.watched.clone());
    let mut left = vec![];
    for _ in 0..rounds {
        if left.is_empty() {
            left = troubles.to_vec();
        }
        let next = campaign.random.below(left.len());
        campaign.round(left.swap_remove(next)).await;
    }
    let mut counts = campaign.end().await;
    let longest = health.await.unwrap();
    assert!(longest < 1000, "/health took {longest} ms");
    counts.set(HEALTH, longest);
    counts
}

/// What a cloud collects does not fit its disk, and no text hears of it.
async fn on_a_full_disk(seed: u64) -> Option<Counts> {
    let folder = tempfile::tempdir().unwrap();
    let cloud = block_in_place(|| Cloud::on_a_full_disk(folder.path()))?;
    let Cloud::Tandem(server) = &cloud else { panic!("llama-server collects nothing") };
    let url = server.url.clone();
    let mut campaign =
        Campaign::begin(seed, cloud, &["--ask-deadline", "10s", "--share-states"]).await;
    let lost = async || figure(&get(&url, "/metrics").await, "tandem_cloud_lost_samples_total");
    let mut rounds = 0;
    while lost().await.unwrap() == 0 {
        rounds += 1;
        assert!(rounds < 40, "nothing is lost on a full disk");
        campaign.round(Trouble::Nothing).await;
    }
    assert_eq!(campaign.counts.of("tokens: fallback"), 0, "{:?}", campaign.counts);
    let mut counts = campaign.end().await;
    counts.set("samples lost on a full disk", lost().await.unwrap());
    Some(counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_faults_of_processes() {
    let troubles = [
        Trouble::CloudKilled,
        Trouble::EdgeTerminated,
        Trouble::Line(Fault::Resets),
        Trouble::EdgeWithoutFiles,
    ];
    rounds(1, block_in_place(Cloud::tandem), &troubles, troubles.len()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make chaos"]
async fn a_campaign_of_faults_of_processes() {
    let (seed, texts) = (number("TANDEM_SEED", 1), number("TANDEM_REAL_GENERATIONS", 320));
    let all: Vec<_> = PROCESSES.into_iter().chain(LINE).collect();
    let most = texts as usize / CALLERS;
    rounds(seed, block_in_place(Cloud::tandem), &all, most).await.print("tandem cloud, real model");
    if let Some(counts) = on_a_full_disk(seed).await {
        counts.print("tandem cloud, full disk");
    }
    if LlamaServer::is_installed() {
        let (catalog, home) =
            (Catalog::built_in().unwrap(), Home::find(Environment::read()).unwrap());
        let model = home.require(catalog.find(SMALL).unwrap()).unwrap();
        let cloud = block_in_place(|| Cloud::llama_server(&model));
        let troubles: Vec<_> = LINE.into_iter().chain([Trouble::CloudKilled]).collect();
        rounds(seed, cloud, &troubles, most / 4).await.print("llama-server, real model");
    } else {
        println!("llama-server is not installed here: scripts/engines/install.sh llama-server");
    }
}
