//! Many edges and one cloud: `make load`. Scripted edges ask as real ones do, a conversation first and then
//! a few accepted tokens at a time, over real HTTP and with the real small model behind it. llama-server and
//! SGLang are asked the same in the same run, where they are installed.

mod contenders;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloud::{EdgeSide, Opening, Remote, Settings, protocol::Prompt};
use decode::{
    AnswerLength, Ask, Cloud, CloudError, Sampling, Token, Vocabulary, sampling::hash,
    statistics::percentile,
};
use engine::{LoadOptions, Model};
use tokio::sync::{Barrier, Semaphore};

use self::contenders::Contender;
use crate::{
    common::{
        self, edge_side, messages,
        peer::{Peer, Transport},
        tiny,
    },
    mixed,
};

/// How many edges ask at once.
const CROWDS: [usize; 4] = [1, 10, 50, 200];

/// How often each of them asks.
const ASKS: usize = 4;

/// Tokens of a session: prompt, what is accepted, and room to look ahead.
const SESSION: usize = 128;

/// How long an edge writes on by itself between two asks, and how many tokens.
const WRITING: Duration = Duration::from_millis(150);
const ACCEPTED: usize = 10;

/// Who opens a conversation at the same time as others: what that costs is not measured here.
const OPENING: usize = 4;

/// What one edge has seen.
struct Seen {
    /// How long it waited for each answer, in milliseconds.
    waited: Vec<f64>,
    /// Answers before which all was read again, and asks that were refused.
    again: usize,
    refused: usize,
    asked: (Instant, Instant),
}

/// All that edges have in common.
struct Crowd {
    settings: Settings,
    words: Vec<Token>,
    model: Model,
    opening: Semaphore,
    open: Barrier,
}

impl Crowd {
    async fn edge(&self, seed: u64) -> Seen {
        let draw = |n: usize| hash(seed, n) as usize >> 8;
        let pick = |from: usize, count: usize| {
            (from..from + count).map(|n| self.words[draw(n) % self.words.len()]).collect::<Vec<_>>()
        };
        let messages = messages(&format!("Tell me about {seed}."));
        let edge: EdgeSide = edge_side(&self.model, &messages);
        let prompt = Prompt::Messages(messages);
        let opening = Opening { prompt, edge: Some(edge), rendered: None, grammar: None };
        let mut remote = Remote::new(self.settings.clone(), opening).unwrap();
        {
            let _place = self.opening.acquire().await.unwrap();
            remote.open().await.unwrap();
        }
        self.open.wait().await;
        // Edges do not begin in step.
        tokio::time::sleep(WRITING * (draw(0) % 100) as u32 / 100).await;
        let begun = Instant::now();
        let (mut accepted, sampling) = (vec![], Sampling::default());
        let (mut waited, mut again, mut refused) = (vec![], 0, 0);
        for number in 0..ASKS {
            accepted.extend(pick(100 + number * ACCEPTED, ACCEPTED));
            let want = AnswerLength::Tokens(1);
            let ask = Ask { tokens: &accepted, text: "", want, sampling: &sampling };
            let started = Instant::now();
            match remote.next(ask).await {
                Ok(answer) => {
                    let read = answer.usage.prefilled.unwrap_or(0);
                    again += usize::from(number > 0 && read > ACCEPTED + 2);
                    accepted.extend(answer.tokens.iter().filter_map(|token| token.id));
                }
                Err(CloudError::Refused { .. } | CloudError::CircuitOpen { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            waited.push(started.elapsed().as_secs_f64() * 1000.0);
            tokio::time::sleep(WRITING).await;
        }
        let ended = Instant::now();
        remote.close().await;
        Seen { waited, again, refused, asked: (begun, ended) }
    }
}

/// What a crowd has seen, for one line of the table.
struct Line {
    rate: f64,
    median: f64,
    most: f64,
    /// The mean wait of the edge that waited longest, over that of the middle one.
    slowest: f64,
    again: usize,
    refused: usize,
}

impl Line {
    fn of(seen: &[Seen]) -> Self {
        let mean = |seen: &Seen| seen.waited.iter().sum::<f64>() / seen.waited.len() as f64;
        let at =
            |share| percentile(seen.iter().flat_map(|seen| seen.waited.clone()), share).unwrap();
        let middle = percentile(seen.iter().map(mean), 0.5).unwrap();
        let begun = seen.iter().map(|seen| seen.asked.0).min().unwrap();
        let ended = seen.iter().map(|seen| seen.asked.1).max().unwrap();
        Self {
            rate: (seen.len() * ASKS) as f64 / (ended - begun).as_secs_f64(),
            median: at(0.5),
            most: at(0.95),
            slowest: seen.iter().map(mean).fold(0.0, f64::max) / middle,
            again: seen.iter().map(|seen| seen.again).sum(),
            refused: seen.iter().map(|seen| seen.refused).sum(),
        }
    }

    fn print(&self, name: &str, edges: usize, sessions: usize) {
        let Self { rate, median, most, slowest, again, refused } = self;
        println!(
            "| {name} | {edges} | {sessions} | {rate:.1} | {median:.0} | {most:.0} | {slowest:.2} \
             | {again} | {refused} |"
        );
    }
}

const HEAD: &str = "\n| server | edges | sessions | asks/s | p50 ms | p95 ms | slowest edge / median \
                    | read again | refused |\n|---|---|---|---|---|---|---|---|---|";

/// So many edges, all of them at once.
async fn load(contender: &Contender, model: &Model, edges: usize) -> Line {
    let vocabulary = model.vocabulary();
    let crowd = Arc::new(Crowd {
        settings: contender.settings.clone(),
        words: vocabulary.encode("The sea is wide and deep, and ships cross it by night."),
        model: model.clone(),
        opening: Semaphore::new(OPENING),
        open: Barrier::new(edges),
    });
    let tasks: Vec<_> = (0..edges)
        .map(|seed| {
            let crowd = crowd.clone();
            tokio::spawn(async move { crowd.edge(seed as u64).await })
        })
        .collect();
    if let Some(peer) = contender.peer() {
        while tasks.iter().any(|task| !task.is_finished()) {
            // Whatever goes on, health is told at once.
            let asked = Instant::now();
            peer.health().await;
            assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let mut seen = vec![];
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    Line::of(&seen)
}

/// What this process holds, in MiB.
fn resident() -> f64 {
    mixed::resident() as f64 / 1024.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make load"]
async fn many_edges() {
    let most = CROWDS[CROWDS.len() - 1];
    let model = common::edge().await;
    let with_edge = resident();
    println!("{HEAD}");
    {
        let options = LoadOptions { sequences: most, cells: most * SESSION, ..common::small() };
        let tandem = Contender::tandem(options).await;
        for edges in CROWDS {
            let line = load(&tandem, &model, edges).await;
            line.print(tandem.name, edges, most);
            assert_eq!((line.again, line.refused), (0, 0), "there was a session for everybody");
            // Nobody waits much longer than the others do.
            let slowest = line.slowest;
            assert!(edges < 10 || slowest < 3.0, "an edge waited {slowest:.1} times as long");
            let left = tandem.peer().unwrap().health().await.sessions;
            assert_eq!(left, 0, "sessions that were closed are still there");
        }
        // docs/server.md: weights, cache of all cells, and what computing takes.
        let (weights, cell) = tandem.peer().unwrap().health().await.footprint.unwrap();
        let promised = (weights + cell * (most * SESSION) as u64) as f64 / f64::from(1 << 20);
        let held = resident() - with_edge;
        println!(
            "\nmemory: {} MiB of weights and {} tokens of {cell} bytes are {promised:.0} MiB; held \
             {held:.0} MiB",
            weights >> 20,
            most * SESSION,
        );
        assert!(held < 2.0 * promised, "twice what was promised");
    }
    println!("{HEAD}");
    // Fewer sessions than edges: what is asked for least recently leaves, and is read again.
    let (edges, sessions) = (50, 20);
    let options = LoadOptions { sequences: sessions, cells: sessions * SESSION, ..common::small() };
    let few = Contender::tandem(options).await;
    let line = load(&few, &model, edges).await;
    line.print(few.name, edges, sessions);
    assert!(line.again > 0, "{edges} edges had {sessions} sessions, and nobody lost one");
    drop(few);
    let llama_server = Contender::llama_server(most, SESSION);
    for contender in [llama_server, Contender::sglang().await].into_iter().flatten() {
        for edges in CROWDS {
            load(&contender, &model, edges).await.print(contender.name, edges, most);
        }
    }
}

/// One conversation of an edge that has no vocabulary of its own.
struct Conversation {
    remote: Remote,
    accepted: Vec<Token>,
}

impl Conversation {
    async fn open(peer: &Peer, number: u32) -> Self {
        let prompt = Prompt::Tokens((0..8).map(|i| Token((number * 7 + i) % 250)).collect());
        let mut remote = Remote::new(peer.settings(), Opening::alone(prompt)).unwrap();
        remote.open().await.unwrap();
        Self { remote, accepted: vec![] }
    }

    /// Asks, and says whether the cloud still had what came before.
    async fn ask(&mut self) -> bool {
        let new = 3;
        self.accepted.extend((0..new).map(|i| Token(i + 40)));
        let (want, sampling) = (AnswerLength::Tokens(1), Sampling::default());
        let ask = Ask { tokens: &self.accepted, text: "", want, sampling: &sampling };
        let answer = self.remote.next(ask).await.unwrap();
        self.accepted.extend(answer.tokens.iter().filter_map(|token| token.id));
        answer.usage.prefilled.unwrap() <= new as usize + 1
    }
}

#[tokio::test]
async fn a_session_leaves_by_its_age_and_not_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny::model(&folder.path().join("large.gguf"), 5);
    let (sessions, half) = (16, 8);
    let options = LoadOptions { sequences: sessions, cells: sessions * 512, ..model };
    let peer = Peer::new(Transport::Http, options).await;
    let mut edges = vec![];
    for number in 0..sessions {
        let mut edge = Conversation::open(&peer, number as u32).await;
        edge.ask().await;
        edges.push(edge);
    }
    // Those that came first are asked again, so the others are the older ones now.
    for edge in &mut edges[..half] {
        assert!(edge.ask().await);
    }
    let mut newcomers = vec![];
    for number in sessions..sessions + half {
        newcomers.push(Conversation::open(&peer, number as u32).await);
        assert_eq!(peer.health().await.sessions, sessions);
    }
    for edge in &mut newcomers {
        edge.ask().await;
        assert!(edge.ask().await, "a session left that had just come");
    }
    for edge in &mut edges[..half] {
        assert!(edge.ask().await, "a session left that was in use");
    }
    // Whoever had to leave comes back, and reads everything again.
    for edge in &mut edges[half..] {
        assert!(!edge.ask().await, "an old session stayed in place of a younger one");
    }
}
