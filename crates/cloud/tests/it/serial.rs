//! What an ask costs: with a clock in hand, so `scripts/test.sh` runs it with nothing beside it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use decode::{AnswerLength, Ask, Cloud, Sampling, Token, statistics};
use reqwest::Client;
use serde_json::json;

use crate::common::{Dialect, Fake};

/// Rounds for each dialect. What the middle one of them shows counts: a machine that is busy with
/// something else for a while spoils one or two, a client that is slow spoils all.
const ROUNDS: usize = 5;
const ASKS: usize = 300;

/// What the client itself may take at p50 and at p99.
const MOST: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(3)];

/// The time that this share of all times does not exceed.
fn percentile(times: &[Duration], share: f64) -> Duration {
    let seconds = statistics::percentile(times.iter().map(Duration::as_secs_f64), share);
    Duration::from_secs_f64(seconds.unwrap())
}

/// Everything but server and network: beside each ask the same ids are posted to the same server by
/// nothing but an HTTP client, so that what is left is our part, however fast the machine is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_costs_the_client_less_than_a_millisecond() {
    let ids =
        [Dialect::LlamaServer, Dialect::VllmGenerate, Dialect::VllmCompletions, Dialect::Sglang];
    for dialect in ids {
        let fake = Fake::start(dialect, 5).await;
        let mut remote = fake.remote(fake.settings());
        remote.open().await.unwrap();
        fake.feel(fake.canned());
        let sampling = Sampling::default();
        let tokens: Vec<_> = (0..2048).map(|i| Token(257 + i % 12)).collect();
        let plain = Client::builder().no_proxy().build().unwrap();
        let url = format!("{}{}", fake.url, dialect.asks_at()[0]);
        let body = json!({ "prompt": tokens }).to_string();
        let mut own = [vec![], vec![]];
        // The first round warms things up and does not count.
        for round in 0..=ROUNDS {
            let (mut asks, mut posts) = (vec![], vec![]);
            for _ in 0..ASKS {
                let want = AnswerLength::Tokens(1);
                let ask = Ask { tokens: &tokens, text: "", want, sampling: &sampling };
                let started = Instant::now();
                remote.next(ask).await.unwrap();
                asks.push(started.elapsed());
                let started = Instant::now();
                let post = plain.post(&url).body(body.clone()).send().await.unwrap();
                post.bytes().await.unwrap();
                posts.push(started.elapsed());
            }
            for (own, share) in own.iter_mut().zip([0.5, 0.99]).filter(|_| round > 0) {
                let ask = percentile(&asks, share);
                let post = percentile(&posts, share);
                println!(
                    "{dialect:?}: an ask of 2048 ids, p{}: {ask:?}, a post: {post:?}",
                    share * 100.0
                );
                own.push(ask.saturating_sub(post));
            }
        }
        let typical = own.map(|rounds| percentile(&rounds, 0.5));
        assert!(typical[0] <= MOST[0] && typical[1] <= MOST[1], "{dialect:?}: {typical:?}");
    }
}
