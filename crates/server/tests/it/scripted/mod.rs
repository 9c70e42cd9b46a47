//! The edge server over scripted models, on a real socket.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use cloud::protocol::Prompt;
use decode::{
    Answer, Ask, Cloud, CloudError, Constraint, Edge, EdgeError, Exchange, Handshake, Limits,
    OnCloudError, Sampling, Sent, Step, Threshold, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
};
use engine::{Grammar, GrammarCompiler};
use reqwest::{Client, Response, StatusCode};
use router::RouterKind;
use serde_json::{Value, json};
use tandem::{
    CloudLocation, CloudState, Defaults, Introduction, Mode, Pair, RouterRegistry, Tandem,
};
use tandem_server::{
    edge::{Allowed, Config, Cors, FurtherPair, Server, ServerInfo, app},
    http::{BodyLimits, Keys},
    listen::{ServerLimits, listen},
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// Each begins with a space, so that a text's tokens are those it was written in.
pub const PIECES: &[&str] = &[" the", " cat", " sat", " on", " a", " mat", " and", " 中文", " é"];

pub const CONTEXT: usize = 2000;

/// Counts what the models do.
#[derive(Clone, Default)]
pub struct Watch {
    pub steps: Arc<AtomicUsize>,
    pub asks: Arc<AtomicUsize>,
    /// Steps under way.
    pub busy: Arc<AtomicUsize>,
    /// Prompts that were tokenized.
    pub tokenized: Arc<AtomicUsize>,
}

pub struct SlowEdge {
    edge: FakeEdge,
    pace: Duration,
    watch: Watch,
}

impl Edge for SlowEdge {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.edge.vocabulary()
    }

    fn context(&self) -> usize {
        self.edge.context()
    }

    fn held(&self) -> &[Token] {
        self.edge.held()
    }

    fn keep_common(&mut self, context: &[Token]) -> usize {
        self.edge.keep_common(context)
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        let _busy = Busy::new(&self.watch.busy);
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
        self.watch.steps.fetch_add(1, Ordering::SeqCst);
        // The fake's own account of every step would look like a leak.
        self.edge.reads.clear();
        self.edge.step(unread).await
    }
}

struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub struct SlowCloud {
    cloud: FakeCloud,
    pace: Duration,
    watch: Watch,
    sent: Sent,
}

impl Cloud for SlowCloud {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.cloud.open().await
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let _busy = Busy::new(&self.watch.busy);
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
        self.watch.asks.fetch_add(1, Ordering::SeqCst);
        self.sent = Sent { bytes: ask.text.len(), text: ask.text.into() };
        self.cloud.next(ask).await
    }

    fn take_sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }
}

/// A pair without weights. With seed 0 on either side it never disagrees with itself.
pub struct Scripted {
    pub pace: Duration,
    pub watch: Watch,
    pub gone: std::ops::Range<usize>,
    pub exchange: Exchange,
    /// Whether the edge may end its texts.
    pub ends: bool,
    /// Texts at once, and requests that may wait.
    pub seats: usize,
    pub queue: usize,
    /// Whether its models cannot be used any more.
    pub failed: Arc<AtomicBool>,
    /// How long it takes to compile a grammar.
    pub compiling: Duration,
    pub cloud_state: Option<CloudState>,
}

impl Default for Scripted {
    fn default() -> Self {
        let pace = Duration::ZERO;
        let exchange = Exchange::Ids;
        Self {
            pace,
            watch: Watch::default(),
            gone: 0..0,
            exchange,
            ends: true,
            seats: 4,
            queue: 64,
            failed: Arc::default(),
            compiling: Duration::ZERO,
            cloud_state: None,
        }
    }
}

impl Scripted {
    fn model(&self, seed: u64) -> FakeModel {
        let mut model = FakeModel::new(seed, PIECES);
        if !self.ends {
            model.writes.retain(|t| *t != Token(0));
        }
        model
    }
}

impl Pair for Scripted {
    type Edge = SlowEdge;
    type Cloud = SlowCloud;

    fn has_cloud(&self) -> bool {
        true
    }

    fn cloud_state(&self) -> Option<CloudState> {
        self.cloud_state
    }

    fn context(&self) -> usize {
        CONTEXT
    }

    fn longest_token(&self) -> usize {
        PIECES.iter().map(|piece| piece.len()).max().unwrap()
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, tandem::Error> {
        self.watch.tokenized.fetch_add(1, Ordering::SeqCst);
        let vocabulary = self.model(0).vocabulary;
        Ok(match prompt {
            Prompt::Text(text) => vocabulary.encode(text),
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Messages(messages) => {
                let turn = |m: &decode::Message| {
                    let mut tokens = vocabulary.encode(&format!("<{}>", m.role.as_str()));
                    tokens.extend(vocabulary.encode(&m.content));
                    tokens
                };
                let mut tokens: Vec<_> = messages.iter().flat_map(turn).collect();
                tokens.extend(vocabulary.encode("<assistant>"));
                tokens
            }
        })
    }

    fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, tandem::Error> {
        std::thread::sleep(self.compiling);
        Ok(GrammarCompiler::new(self.model(0).vocabulary)?.compile(grammar)?)
    }

    async fn load_edge(&self) -> Result<(), tandem::Error> {
        Ok(())
    }

    fn has_edge(&self) -> bool {
        true
    }

    async fn open_edge(&self) -> Result<SlowEdge, tandem::Error> {
        let edge = FakeEdge::new(self.model(7), CONTEXT);
        Ok(SlowEdge { edge, pace: self.pace, watch: self.watch.clone() })
    }

    async fn open_cloud(&self) -> Result<SlowCloud, tandem::Error> {
        let mut cloud = FakeCloud::new(self.model(11), vec![], self.exchange);
        cloud.gone = self.gone.clone();
        let (pace, watch) = (self.pace, self.watch.clone());
        Ok(SlowCloud { cloud, pace, watch, sent: Sent::default() })
    }

    fn introduce(&self, cloud: &mut SlowCloud, to: Introduction<'_>) -> Result<(), tandem::Error> {
        cloud.cloud.reopen(self.tokens(to.prompt)?);
        Ok(())
    }

    async fn close(&self, _: &mut SlowCloud) {}
}

pub fn config() -> Config {
    Config {
        about: ServerInfo {
            edge: "fake".into(),
            cloud: Some("fake-large".into()),
            location: CloudLocation::Embedded,
            preset: None,
        },
        keys: Keys::default(),
        loopback: true,
        cors: Cors::Off,
        time: Duration::from_secs(30),
        body: BodyLimits { bytes: 4 << 20, values: 1 << 15, time: Duration::from_secs(5) },
        allowed: Allowed::default(),
    }
}

pub fn defaults() -> Defaults {
    Defaults {
        mode: Mode::Joint,
        sampling: Sampling::default(),
        seeded: false,
        limits: Limits { max_tokens: 40, stops: vec![] },
        system: "Be brief.".into(),
        on_error: OnCloudError::Keep,
    }
}

/// `top1` with a threshold.
pub fn routers(threshold: f32) -> RouterRegistry {
    RouterRegistry::new(RouterKind::Top1.into(), Threshold::new(threshold).unwrap().into())
}

/// A running server.
pub struct Running {
    pub url: String,
    pub client: Client,
    pub server: Arc<Server<Scripted>>,
    pub watch: Watch,
    stop: Option<oneshot::Sender<()>>,
    pub done: JoinHandle<std::io::Result<()>>,
}

pub async fn start(pair: Scripted, config: Config) -> Running {
    start_with(pair, config, ServerLimits::default()).await
}

pub async fn start_with(pair: Scripted, config: Config, limits: ServerLimits) -> Running {
    let size = (pair.seats, pair.queue);
    start_tandem(Tandem::new(pair, routers(0.5), defaults(), size), config, limits).await
}

pub async fn start_tandem(
    tandem: Tandem<Scripted>,
    config: Config,
    limits: ServerLimits,
) -> Running {
    start_pairs(tandem, vec![], config, limits).await
}

pub async fn start_pairs(
    tandem: Tandem<Scripted>,
    further: Vec<FurtherPair<Scripted>>,
    config: Config,
    limits: ServerLimits,
) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let watch = tandem.pair().watch.clone();
    let server = Server::with_pairs(tandem, further, config).await.unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async {
        drop(stopped.await);
    };
    let done = tokio::spawn(listen(listener, app(&server), limits, shutdown));
    cloud::http::provide_cryptography();
    let client = Client::builder().no_proxy().build().unwrap();
    Running { url, client, server, watch, stop: Some(stop), done }
}

impl Running {
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        let url = format!("{}{path}", self.url);
        self.client.post(url).json(body).send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    /// A good answer.
    pub async fn chat(&self, body: Value) -> Value {
        let response = self.post("/v1/chat/completions", &body).await;
        let status = response.status();
        let answer: Value = response.json().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    /// A refusal: its status and its error.
    pub async fn refused(&self, path: &str, body: &Value) -> (u16, Value) {
        let response = self.post(path, body).await;
        let status = response.status().as_u16();
        let mut answer: Value = response.json().await.unwrap();
        (status, answer["error"].take())
    }

    /// The data of a stream's events, `[DONE]` and all.
    pub async fn stream(&self, path: &str, body: &Value) -> Vec<String> {
        let response = self.post(path, body).await;
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!(kind, "text/event-stream");
        let text = response.text().await.unwrap();
        let data = |event: &str| event.strip_prefix("data: ").map(String::from);
        text.split("\n\n").filter_map(data).collect()
    }

    /// Waits until nobody is served any more.
    pub async fn idle(&self) {
        for _ in 0..500 {
            if self.server.running() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} seats are still taken", self.server.running());
    }
}

pub fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

pub fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

/// The chunks of a stream without `[DONE]`.
pub fn chunks(events: &[String]) -> Vec<Value> {
    assert_eq!(events.last().unwrap(), "[DONE]");
    events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect()
}
