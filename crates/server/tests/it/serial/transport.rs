//! What the way to the cloud costs: the same asks over loopback HTTP and in the same process, in turn.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use cloud::Remote;
use decode::{AnswerLength, Ask, Cloud, Sampling, Token, statistics};

use crate::common::{
    peer::{Peer, Transport},
    small,
};

const ASKS: usize = 60;

/// A conversation that grows by what the cloud itself writes.
struct GrowingConversation {
    remote: Remote,
    accepted: Vec<Token>,
    whole: Vec<Duration>,
    /// What neither waiting for others nor the model took.
    way: Vec<Duration>,
}

impl GrowingConversation {
    async fn begin(transport: Transport) -> Self {
        let mut remote = Peer::new(transport, small()).await.remote("Tell me a very long story.");
        remote.open().await.unwrap();
        Self { remote, accepted: vec![], whole: vec![], way: vec![] }
    }

    async fn ask(&mut self) {
        let sampling = Sampling::default();
        let want = AnswerLength::Tokens(1);
        let ask = Ask { tokens: &self.accepted, text: "", want, sampling: &sampling };
        let started = Instant::now();
        let answer = self.remote.next(ask).await.unwrap();
        self.whole.push(started.elapsed());
        self.way.push(answer.times.network);
        self.accepted.extend(answer.tokens.iter().filter_map(|t| t.id));
    }
}

/// In milliseconds.
fn median(times: &[Duration]) -> f64 {
    statistics::median(times.iter().map(|time| time.as_secs_f64() * 1000.0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_to_a_cloud_in_process_is_the_shorter_one() {
    let mut http = GrowingConversation::begin(Transport::Http).await;
    let mut in_process = GrowingConversation::begin(Transport::InProcess).await;
    for _ in 0..ASKS {
        http.ask().await;
        in_process.ask().await;
    }
    assert_eq!(http.accepted, in_process.accepted);
    for (name, growing) in [("over HTTP", &http), ("in process", &in_process)] {
        let (whole, way) = (median(&growing.whole), median(&growing.way));
        println!("{name}: an ask takes {whole:.2} ms, {way:.2} ms of it outside the model");
    }
    assert!(median(&in_process.way) < median(&http.way));
}
