//! The edge server over the real small model, which is its own cloud.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use engine::LoadOptions;
use reqwest::Client;
use serde_json::{Value, json};
use tandem::{AskConfig, CloudConfig, EdgeConfig, Machine, Models, PairConfig, Store, Tandem};
use tandem_server::{
    edge::{Config, Server, app},
    listen::{ServerLimits, listen},
};
use tokio::net::TcpListener;

use crate::{
    common,
    mixed::{Target, flood, resident},
    scripted,
};

const SEATS: usize = 4;

struct Running {
    target: Arc<Target>,
    server: Arc<Server<Models>>,
}

async fn start() -> Running {
    let small = common::small();
    let many = LoadOptions { sequences: SEATS, cells: small.context * SEATS, ..small.clone() };
    let cloud = common::start(many, Default::default()).await;
    let models = Models::new(PairConfig {
        store: Store::open().unwrap().with_pair(Some("tiny")).unwrap(),
        edge: EdgeConfig::default(),
        cloud: CloudConfig::Remote(vec![common::settings(&cloud)]),
        ask: AskConfig::default(),
        machine: Machine { context: small.context, threads: Some(2), gpu_layers: None },
        seats: SEATS,
        preset: None,
    });
    let size = (SEATS, 128);
    let defaults = scripted::defaults();
    let tandem = Tandem::new(models.unwrap(), scripted::routers(0.6), defaults, size);
    let config = Config { time: Duration::from_secs(120), ..scripted::config() };
    let server = Server::new(tandem, config).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(listen(listener, app(&server), ServerLimits::default(), std::future::pending()));
    cloud::http::provide_cryptography();
    let client = Client::builder().no_proxy().build().unwrap();
    Running { target: Arc::new(Target { url, client }), server }
}

impl Running {
    async fn chat(&self, body: Value) -> Value {
        let url = format!("{}/v1/chat/completions", self.target.url);
        let answer = self.target.client.post(url).json(&body).send().await.unwrap();
        let status = answer.status();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn idle(&self) {
        for _ in 0..1000 {
            if self.server.running() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} seats are still taken", self.server.running());
    }
}

fn count(answer: &Value, name: &str) -> u64 {
    answer["tandem"]["stats"][name].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_turn_reads_only_what_is_new_on_both_sides() {
    let running = start().await;
    let history = "The river runs past the mill, under the bridge and on to the sea. ".repeat(8);
    let question = format!("{history}What does the river run past? Answer in one sentence.");
    let mut messages = vec![json!({ "role": "user", "content": question })];
    let ask = async |messages: &[Value]| {
        let body = json!({ "messages": messages, "max_tokens": 24, "temperature": 0,
            "tandem": { "mode": "joint", "router": "random:0.5", "threshold": 0.5 }, "seed": 1 });
        running.chat(body).await
    };
    let first = ask(&messages).await;
    let (edge, cloud) = (count(&first, "edge_prefilled"), count(&first, "cloud_prefilled"));
    assert!(edge > 130 && cloud > 130 && count(&first, "asks") > 0, "{first}");
    // Somebody else comes between.
    running
        .chat(json!({ "messages": [{ "role": "user", "content": "Hi!" }], "max_tokens": 4 }))
        .await;
    messages.push(first["choices"][0]["message"].clone());
    messages.push(json!({ "role": "user", "content": "And then? Answer in one sentence." }));
    let second = ask(&messages).await;
    // The question, the marks around it, and the last token of the answer before it.
    println!(
        "first {edge} and {cloud}, second {} and {}",
        count(&second, "edge_prefilled"),
        count(&second, "cloud_prefilled")
    );
    assert!(count(&second, "edge_prefilled") <= 24, "{second}");
    assert!(count(&second, "edge_cached") > 130, "{second}");
    // Besides: what the edge wrote since the cloud was last asked, in either turn.
    let written = count(&first, "tokens") + count(&second, "tokens");
    assert!(count(&second, "asks") > 0, "{second}");
    assert!(count(&second, "cloud_prefilled") <= 24 + written, "{second}");
    assert!(count(&second, "cloud_cached") > 130, "{second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_chats_at_once_say_what_each_says_alone() {
    let running = Arc::new(start().await);
    let questions =
        ["What is 2+2?", "Count to ten.", "What is the capital of France?", "Say the alphabet."];
    let body = |question: &str| {
        json!({ "model": "tandem-small", "max_tokens": 12, "temperature": 0, "logprobs": true,
            "top_logprobs": 2, "messages": [{ "role": "user", "content": question }] })
    };
    let together = questions.map(|question| {
        let (running, body) = (running.clone(), body(question));
        tokio::spawn(async move { running.chat(body).await })
    });
    let mut sure = 0;
    for (question, answer) in questions.iter().zip(together) {
        let answer = answer.await.unwrap();
        let alone = running.chat(body(question)).await;
        let tokens = |answer: &Value| {
            answer["choices"][0]["logprobs"]["content"].as_array().unwrap().clone()
        };
        for (a, b) in tokens(&alone).iter().zip(&tokens(&answer)) {
            let logprob = |place: usize| a["top_logprobs"][place]["logprob"].as_f64().unwrap();
            let lead = logprob(0) - logprob(1);
            // Batching changes the last bits, and with them a near tie; behind one, all may differ.
            if a["token"] != b["token"] {
                assert!(lead < 0.5, "{question}: {a} {b}");
                break;
            }
            sure += usize::from(lead > 0.5);
        }
    }
    assert!(sure > 8, "{sure}");
}

/// `make soak`: hours are not needed, minutes are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes long; make soak runs it"]
async fn soak() {
    let requests = std::env::var("TANDEM_SOAK_REQUESTS").ok().and_then(|n| n.parse().ok());
    let requests: usize = requests.unwrap_or(10_000);
    let running = start().await;
    flood(&running.target, requests / 10, 64).await;
    running.idle().await;
    let before = resident();
    let [good, refused, cut] = flood(&running.target, requests, 64).await;
    running.idle().await;
    let after = resident();
    println!("{good} good, {refused} refused, {cut} cut off; {before} kB before, {after} after");
    assert!(good > 0 && after as f64 <= before as f64 * 1.05);
    let metrics = running.target.client.get(format!("{}/metrics", running.target.url));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(!metrics.contains("status=\"500\""), "{metrics}");
    running.chat(json!({ "messages": [{ "role": "user", "content": "Still there?" }] })).await;
}
