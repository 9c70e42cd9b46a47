//! Many edges and one cloud: `make load`. Scripted edges ask as real ones do, a prompt first and then a
//! few accepted tokens at a time, over real HTTP and with the real small model behind it.

use std::time::{Duration, Instant};

use cloud::{Opening, Remote, Settings, protocol::Prompt};
use decode::{
    AnswerLength, Ask, Cloud, Sampling, Token, Vocabulary, sampling::hash, statistics::percentile,
};
use engine::LoadOptions;

use crate::{
    common::{
        self,
        peer::{Peer, Transport},
    },
    mixed,
};

/// How many edges ask at once.
const CROWDS: [usize; 5] = [1, 10, 50, 100, 200];

/// How often each of them asks.
const ASKS: usize = 4;

/// Tokens of a session: prompt, what is accepted, and room to look ahead.
const SESSION: usize = 96;

/// How long an edge writes on by itself between two asks.
const WRITING: Duration = Duration::from_millis(150);

/// One edge: how long it waited for each answer.
async fn edge(settings: Settings, words: Vec<Token>, seed: u64) -> Vec<f64> {
    let draw = |n: usize| hash(seed, n) as usize >> 8;
    // Edges do not begin in step.
    tokio::time::sleep(WRITING * (draw(0) % 100) as u32 / 100).await;
    let pick = |from: usize, count: usize| {
        (from..from + count).map(|n| words[draw(n) % words.len()]).collect::<Vec<_>>()
    };
    let prompt = Prompt::Tokens(pick(1, 24));
    let mut remote = Remote::new(settings, Opening::alone(prompt)).unwrap();
    remote.open().await.unwrap();
    let (mut accepted, mut waited) = (vec![], vec![]);
    let sampling = Sampling::default();
    for number in 0..ASKS {
        accepted.extend(pick(100 + number * 10, 10));
        let want = AnswerLength::Tokens(1);
        let ask = Ask { tokens: &accepted, text: "", want, sampling: &sampling };
        let started = Instant::now();
        let answer = remote.next(ask).await.unwrap();
        waited.push(started.elapsed().as_secs_f64() * 1000.0);
        // A session that was evicted would read everything again.
        let read = answer.usage.prefilled.unwrap();
        assert!(number == 0 || read <= 12, "ask {number} of edge {seed} read {read} tokens");
        accepted.extend(answer.tokens.iter().filter_map(|token| token.id));
        tokio::time::sleep(WRITING).await;
    }
    remote.close().await;
    waited
}

/// What this process holds, in MiB.
fn resident() -> f64 {
    mixed::resident() as f64 / 1024.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make load"]
async fn many_edges() {
    let most = CROWDS[CROWDS.len() - 1];
    let options = LoadOptions { sequences: most, cells: most * SESSION, ..common::small() };
    let before = resident();
    let vocabulary = common::edge().await.vocabulary().clone();
    let words: Vec<_> = vocabulary.encode("The sea is wide and deep, and ships cross it by night.");
    let with_edge = resident();
    let peer = Peer::new(Transport::Http, options).await;
    let settings = peer.settings();
    println!("edges   asks/s   p50 ms   p95 ms   slowest edge / median   sessions   MiB");
    for crowd in CROWDS {
        let started = Instant::now();
        let edges: Vec<_> = (0..crowd)
            .map(|seed| tokio::spawn(edge(settings.clone(), words.clone(), seed as u64)))
            .collect();
        let mut sessions = 0;
        while edges.iter().any(|edge| !edge.is_finished()) {
            // Whatever goes on, health is told at once.
            let asked = Instant::now();
            sessions = peer.health().await.sessions.max(sessions);
            assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut waits = vec![];
        for edge in edges {
            waits.push(edge.await.unwrap());
        }
        let took = started.elapsed().as_secs_f64();
        let mean = |waited: &Vec<f64>| waited.iter().sum::<f64>() / waited.len() as f64;
        let all = || waits.iter().flatten().copied();
        let at = |share| percentile(all(), share).unwrap();
        let median = percentile(waits.iter().map(mean), 0.5).unwrap();
        let slowest = waits.iter().map(mean).fold(0.0, f64::max) / median;
        let rate = (crowd * ASKS) as f64 / took;
        let memory = resident() - with_edge;
        println!(
            "{crowd:5} {rate:8.1} {:8.0} {:8.0} {slowest:23.2} {sessions:10} {memory:5.0}",
            at(0.5),
            at(0.95),
        );
        assert_eq!(waits.iter().map(Vec::len).sum::<usize>(), crowd * ASKS);
        assert_eq!(peer.health().await.sessions, 0, "sessions that were closed are still there");
        // Nobody waits much longer than the others do.
        assert!(crowd < 10 || slowest < 3.0, "an edge waited {slowest:.1} times as long");
    }
    // docs/server.md: weights, cache of all cells, and what computing takes.
    let (weights, cell) = peer.health().await.footprint.unwrap();
    let promised = (weights + cell * (most * SESSION) as u64) as f64 / f64::from(1 << 20);
    let held = resident() - with_edge;
    println!(
        "weights {} MiB, cache {} bytes a token × {} tokens: {promised:.0} MiB; held {held:.0} MiB \
         ({before:.0} before the first model)",
        weights >> 20,
        cell,
        most * SESSION,
    );
    assert!(held < 2.0 * promised, "twice what was promised");
}
