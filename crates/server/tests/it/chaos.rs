//! A campaign of faults against `tandem cloud`: a part of `make chaos`.
//!
//! Whole pairs of made-up models of one tiny layer write texts, each with a line of its own to one cloud
//! over real HTTP. A seeded script has the lines fail in every way, the cloud is killed and started again,
//! it has fewer sessions than there are edges, so that they evict each other all the time, and some
//! callers go away in the middle. Both models are read once more afterwards: every token must be what its
//! writer holds likeliest behind what stands before it, the cloud must have been asked exactly where the
//! router said so, and where it was asked and did not answer the token is marked.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cloud::{Endpoint, Settings, protocol::Health};
use decode::{
    Accepted, Decision, Exchange, Limits, OnCloudError, Sampling, Source, Stats, Threshold, Token,
};
use engine::{LoadOptions, Model, Sequence};
use tandem::{
    AskConfig, CloudConfig, EdgeConfig, Generation, Machine, Mode, Prompt, Request, Store, Tandem,
};
use tandem_server::cloud::{Config, LazyModel, app, run};
use tokio::{net::TcpListener, sync::Mutex, task::JoinHandle, time::timeout};

use crate::common::{
    campaign::{Counts, Random, assert_flat, number, resident},
    compute,
    proxy::{BUSY, FAILS, Fault, GARBAGE, NO_HTTP, NOT_JSON, Proxy, TOO_MANY},
    tiny,
};

const MAX_TOKENS: usize = 24;

/// How long an ask may take, and how long a text waits: short, because many answers never come.
const DEADLINE: Duration = Duration::from_millis(150);
const MAX_WAIT: Duration = Duration::from_millis(400);

/// No text takes longer than this, whatever its cloud does: each token has one ask and one wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Edges at work at the same time, and the sessions they have to share.
const EDGES: u64 = 4;
const SESSIONS: usize = 2;

/// So many texts later an edge starts anew, which it would not have to, and with it its pauses after
/// failures: they would have most texts ask nobody.
const TEXTS_OF_A_PAIR: u64 = 8;

/// How near a token's logit has to be to the largest: a batch rounds in its own way.
const ROUNDING: f32 = 0.01;

/// How near a score has to be to the threshold for rounding to decide.
const NEAR: f32 = 0.001;

const HEALTH: &str = "the longest answer of /health, ms";

/// A cloud that can be killed: its sockets are closed at once, and its sessions are gone.
struct Cloud {
    model: LoadOptions,
    runtime: Option<tokio::runtime::Runtime>,
    address: SocketAddr,
}

impl Cloud {
    async fn start(model: LoadOptions) -> Self {
        let (runtime, address) = Self::serve(model.clone()).await;
        Self { model, runtime: Some(runtime), address }
    }

    async fn serve(model: LoadOptions) -> (tokio::runtime::Runtime, SocketAddr) {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let served = runtime.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let app = app(LazyModel::new(compute(), model), Config::default());
            tokio::spawn(run(listener, app, std::future::pending()));
            address
        });
        (runtime, served.await.unwrap())
    }

    async fn restart(&mut self) {
        self.kill();
        let (runtime, address) = Self::serve(self.model.clone()).await;
        (self.runtime, self.address) = (Some(runtime), address);
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a line does from now on, where this many in a hundred are faults.
fn fault(random: &mut Random, percent: usize) -> Fault {
    if random.below(100) >= percent {
        return Fault::None;
    }
    random.pick(&[
        Fault::Cut,
        Fault::Resets,
        Fault::Half,
        Fault::Hangs,
        Fault::Late(DEADLINE / 5),
        Fault::Late(DEADLINE * 2),
        Fault::Dribbles,
        Fault::WrongIds,
        GARBAGE,
        NO_HTTP,
        NOT_JSON,
        FAILS,
        BUSY,
        TOO_MANY,
    ])
}

/// Both models once more, to compare with.
struct Reference {
    edge: Sequence,
    cloud: Sequence,
}

impl Reference {
    async fn of(edge: &LoadOptions, cloud: &LoadOptions) -> Self {
        let open = async |options: &LoadOptions| {
            Model::load(&compute(), options.clone()).await.unwrap().open().await.unwrap()
        };
        Self { edge: open(edge).await, cloud: open(cloud).await }
    }

    /// The logits of both before each of these tokens, which stand behind a prompt.
    async fn logits(&mut self, prompt: &[Token], tokens: &[Token]) -> [Vec<Vec<f32>>; 2] {
        let context = [prompt, tokens].concat();
        let edge = read_again(&mut self.edge, &context, prompt.len()).await;
        [edge, read_again(&mut self.cloud, &context, prompt.len()).await]
    }
}

/// The logits behind each token of a context, from the last of its prompt on.
async fn read_again(model: &mut Sequence, context: &[Token], prompt: usize) -> Vec<Vec<f32>> {
    model.truncate(0);
    let outputs = model.read_each(context).await.unwrap();
    outputs.into_iter().skip(prompt - 1).map(|output| output.logits).collect()
}

/// A text as it stands, and what it was asked for.
struct Written {
    threshold: Threshold,
    on_error: OnCloudError,
    prompt: Vec<Token>,
    shown: Vec<Accepted>,
    tokens: Vec<Token>,
    stats: Stats,
    exchange: Option<Exchange>,
}

impl Written {
    fn of(generation: &Generation, threshold: Threshold, on_error: OnCloudError) -> Self {
        let transcript = generation.transcript();
        Self {
            threshold,
            on_error,
            prompt: generation.request().tokens.clone(),
            shown: transcript.shown().to_vec(),
            tokens: transcript.tokens().to_vec(),
            stats: transcript.stats(),
            exchange: generation.exchange(),
        }
    }

    async fn check(&self, reference: &mut Reference, counts: &mut Counts) {
        let Self { shown, stats, .. } = self;
        let ids: Vec<_> = shown.iter().filter_map(|token| token.id).collect();
        assert_eq!(ids, self.tokens, "a token is lost or doubled");
        let [edge, cloud] = reference.logits(&self.prompt, &ids).await;
        for (i, token) in shown.iter().enumerate() {
            let Accepted { index, source, score, .. } = *token;
            assert_eq!(index, i, "a token is lost or doubled");
            let score = score.unwrap();
            let asks = self.threshold.decide(score) == Decision::Ask;
            let sure = (score.value() - self.threshold.value()).abs() > NEAR;
            let (row, writer) = match source {
                Source::Edge => ("tokens: edge", &edge),
                Source::Cloud => ("tokens: cloud", &cloud),
                Source::Fallback => ("tokens: fallback", &edge),
            };
            counts.add(row, 1);
            assert!(writes(&writer[i], ids[i]), "{source:?} would not have written token {i}");
            assert!(!sure || asks == (source != Source::Edge), "{source:?} {score:?} at {i}");
            assert!(source != Source::Fallback || self.on_error == OnCloudError::Keep);
        }
        let of = |source| shown.iter().filter(|token| token.source == source).count();
        assert_eq!(stats.fallback_tokens, of(Source::Fallback));
        assert_eq!(stats.cloud_tokens, of(Source::Cloud));
        assert!(self.exchange.is_none_or(|it| it == Exchange::Ids), "{:?}", self.exchange);
    }
}

/// Whether a model would write this token here, as far as rounding can tell.
fn writes(logits: &[f32], token: Token) -> bool {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits[token.0 as usize] >= largest - ROUNDING
}

/// One edge with its line to the cloud.
struct Edge {
    model: PathBuf,
    proxy: Proxy,
    random: Random,
    reference: Reference,
    in_flight: usize,
}

impl Edge {
    fn pair(&self) -> Tandem {
        let address = self.proxy.url.parse().unwrap();
        let cloud = Settings::new(Endpoint { address, key: None, authority: None });
        let edge =
            EdgeConfig { model: Some(self.model.display().to_string()), ..EdgeConfig::default() };
        let ask = AskConfig {
            deadline: DEADLINE,
            max_wait: Some(MAX_WAIT),
            in_flight: self.in_flight,
            ..AskConfig::default()
        };
        Tandem::builder()
            .store(Store::open().unwrap())
            .edge_config(edge)
            .cloud_config(CloudConfig::Remote(vec![cloud]))
            .ask_config(ask)
            .machine(Machine { context: 512, threads: Some(1), gpu_layers: Some(0) })
            .sampling(Sampling::default(), Some(1))
            .router(router::RouterKind::Top1)
            .mode(Mode::Joint)
            .seats(2)
            .build()
            .unwrap()
    }

    /// Some texts, one after the other, while others use the cloud.
    async fn write(mut self, texts: u64, cloud: Arc<Mutex<Cloud>>) -> Counts {
        let mut counts = Counts::default();
        let mut pair = self.pair();
        for text in 0..texts {
            if text > 0 && text.is_multiple_of(TEXTS_OF_A_PAIR) {
                self.proxy.set(Fault::None);
                pair.close().await;
                pair = self.pair();
            }
            if self.random.below(40) == 0 {
                cloud.lock().await.restart().await;
                counts.add("the cloud is killed", 1);
            }
            self.proxy.lead_to(cloud.lock().await.address);
            self.text(&pair, &mut counts).await;
            assert_eq!((pair.running(), pair.waiting()), (0, 0), "a seat is lost");
        }
        self.proxy.set(Fault::None);
        pair.close().await;
        for (fault, count) in self.proxy.met() {
            counts.add(if fault == "none" { "asks without a fault" } else { fault }, count);
        }
        counts
    }

    /// One text, and a check of every token of it.
    async fn text(&mut self, pair: &Tandem, counts: &mut Counts) {
        let Self { random, proxy, reference, .. } = self;
        let policies =
            [OnCloudError::Keep, OnCloudError::Keep, OnCloudError::Wait, OnCloudError::Fail];
        let on_error = random.pick(&policies);
        let threshold = Threshold::new(random.pick(&[0.3, 0.7, 1.0])).unwrap();
        // Some lines fail now and then, others most of the time.
        let percent = random.pick(&[0, 5, 20, 60]);
        let leaves = random.below(8) == 0;
        let prompts = ["the cat sat", "on a mat, and then", "a river that runs"];
        let prompt = Prompt::Text(random.pick(&prompts).into());
        let routing = tandem::RoutingOverrides {
            threshold: Some(threshold),
            ..tandem::RoutingOverrides::default()
        };
        let limits = Limits { max_tokens: MAX_TOKENS, stops: vec![] };
        let request = Request { on_error: Some(on_error), ..Request::new(prompt) };
        let request = request.mode(Mode::Joint).limits(limits).routing(routing);
        let started = Instant::now();
        let mut generation = pair.generate(request).await.unwrap();
        counts.add("texts", 1);
        loop {
            proxy.set(fault(random, percent));
            if leaves && random.below(6) == 0 {
                // Whoever leaves does not wait for the ask that is on its way.
                drop(timeout(Duration::from_millis(2), generation.next()).await);
                counts.add("texts: their callers left", 1);
                break;
            }
            match timeout(LONGEST, generation.next()).await.unwrap() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    assert_ne!(on_error, OnCloudError::Keep, "it was to go on: {error}");
                    counts.add("texts: ended by their policy", 1);
                    break;
                }
            }
        }
        assert!(started.elapsed() < LONGEST);
        proxy.set(Fault::None);
        let written = Written::of(&generation, threshold, on_error);
        // The seat is free again.
        drop(generation);
        written.check(reference, counts).await;
    }
}

/// Asks for the cloud's health all the time; ends with the longest time it took, in milliseconds.
fn watch_health(cloud: Arc<Mutex<Cloud>>) -> JoinHandle<usize> {
    ::cloud::http::provide_cryptography();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            // While it is locked it is being started.
            let cloud = cloud.lock().await;
            if cloud.runtime.is_none() {
                return longest.as_millis() as usize;
            }
            let started = Instant::now();
            let health = client.get(format!("http://{}/health", cloud.address)).send();
            let health: Health = health.await.unwrap().json().await.unwrap();
            longest = longest.max(started.elapsed());
            assert!(health.sessions <= SESSIONS, "{} sessions", health.sessions);
        }
    })
}

/// So many texts of several edges, which are all at work at the same time.
async fn campaign(folder: &Path, seed: u64, texts: u64) -> Counts {
    // Files of their own: those of an earlier campaign may still be in use.
    let file = |name: &str| folder.join(format!("{seed}-{name}"));
    let small = tiny::model(&file("edge.gguf"), 4);
    let large = tiny::model(&file("large.gguf"), 5);
    let served = LoadOptions { sequences: SESSIONS, cells: SESSIONS * 512, ..large.clone() };
    let cloud = Arc::new(Mutex::new(Cloud::start(served).await));
    let health = watch_health(cloud.clone());
    let mut edges = vec![];
    for number in 0..EDGES {
        let edge = Edge {
            model: small.path.clone(),
            proxy: Proxy::to(cloud.lock().await.address).await,
            random: Random::new(seed, number as usize),
            reference: Reference::of(&small, &large).await,
            in_flight: if number.is_multiple_of(2) { 0 } else { 3 },
        };
        edges.push(tokio::spawn(edge.write(texts.div_ceil(EDGES), cloud.clone())));
    }
    let mut all = Counts::default();
    for edge in edges {
        all.join(&edge.await.unwrap());
    }
    cloud.lock().await.kill();
    let longest = health.await.unwrap();
    assert!(longest < 1000, "/health took {longest} ms");
    all.set(HEALTH, longest);
    assert!(all.of("tokens: cloud") > 0 && all.of("tokens: fallback") > 0, "{all:?}");
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_faults() {
    let folder = tempfile::tempdir().unwrap();
    campaign(folder.path(), 1, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make chaos"]
async fn a_campaign_of_faults() {
    let seed = number("TANDEM_SEED", 1);
    // One of seven dialects.
    let texts = number("TANDEM_GENERATIONS", 10_000) / 7;
    let folder = tempfile::tempdir().unwrap();
    let mut all = campaign(folder.path(), seed, texts / 10).await;
    let warm = resident("self");
    let rest = campaign(folder.path(), seed + 1000, texts - texts / 10).await;
    let after = resident("self");
    let longest = all.of(HEALTH).max(rest.of(HEALTH));
    all.join(&rest);
    all.set(HEALTH, longest);
    all.set("memory after a tenth, kB", warm);
    all.set("memory at the end, kB", after);
    all.print("tandem cloud, tiny models");
    assert_flat(warm, after);
}
