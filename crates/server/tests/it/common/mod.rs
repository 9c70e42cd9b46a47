//! A real server on loopback, with a real model.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

pub mod campaign;
pub mod llama_server;
pub mod peer;
pub mod proxy;
pub mod tiny;

use std::{path::PathBuf, sync::OnceLock};

use cloud::{
    Address, EdgeSide, Endpoint, Opening, Remote, Settings, probe_messages, protocol::Prompt,
};
use decode::{Message, Token, Vocabulary, sampling::logprob};
use engine::{Compute, LoadOptions, Model};
use models::{Catalog, Environment, Home, Role};
use tandem_server::cloud::{Config, LazyModel, app, run};
use tokio::{
    net::TcpListener,
    sync::{OnceCell, oneshot},
};

pub fn model_file(role: Role) -> PathBuf {
    let catalog = Catalog::built_in().unwrap();
    let home = Home::find(Environment::read()).unwrap();
    let name = catalog.pair(Some("tiny")).unwrap().model(role);
    home.require(catalog.find(name).unwrap()).unwrap()
}

pub fn small() -> LoadOptions {
    LoadOptions::new(model_file(Role::Edge), 1024, 2)
}

pub fn large() -> LoadOptions {
    LoadOptions { chunk: 32, ..LoadOptions::new(model_file(Role::Cloud), 1024, 2) }
}

/// One compute thread for everything in a test binary, as in the program.
pub fn compute() -> Compute {
    static COMPUTE: OnceLock<Compute> = OnceLock::new();
    COMPUTE.get_or_init(|| Compute::start().unwrap()).clone()
}

pub async fn start(options: LoadOptions, config: Config) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = app(LazyModel::new(compute(), options), config);
    tokio::spawn(run(listener, app, std::future::pending()));
    address.parse().unwrap()
}

/// The small model, written as ONNX; once a test binary.
pub fn small_onnx() -> LoadOptions {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("small-onnx");
        let model = model_file(Role::Edge);
        let weights = lab::export::Weights::Int8;
        lab::export::export(
            &lab::export::Export { model, adapters: vec![], weights, force: false },
            &folder,
        )
        .unwrap();
        folder
    });
    let own = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let (catalog, home) = (Catalog::built_in().unwrap(), Home::find(Environment::read()).unwrap());
    let library = own.unwrap_or_else(|| home.library(catalog.library("onnxruntime").unwrap()));
    let onnx = engine::onnx::Options { library: Some(library), providers: vec![] };
    LoadOptions { onnx, ..LoadOptions::new(folder, 1024, 2) }
}

/// The edge; one for all tests of the program.
pub async fn edge() -> Model {
    static EDGE: OnceCell<Model> = OnceCell::const_new();
    EDGE.get_or_init(|| load_edge(small())).await.clone()
}

/// The same model in ONNX Runtime.
pub async fn onnx_edge() -> Model {
    static EDGE: OnceCell<Model> = OnceCell::const_new();
    EDGE.get_or_init(|| load_edge(small_onnx())).await.clone()
}

async fn load_edge(small: LoadOptions) -> Model {
    Model::load(&compute(), LoadOptions { sequences: 2, cells: 4096, ..small }).await.unwrap()
}

/// The large model and a cloud that serves it; both once, for they take seconds to load.
#[derive(Clone)]
pub struct Large {
    pub model: Model,
    pub cloud: Address,
}

impl Large {
    pub async fn get() -> Self {
        static LARGE: OnceCell<Large> = OnceCell::const_new();
        LARGE.get_or_init(Self::start).await.clone()
    }

    async fn start() -> Self {
        let (tell, told) = oneshot::channel();
        // A thread of its own: what a test spawns ends with the test.
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tell.send(start(large(), Config::default()).await).unwrap();
                std::future::pending::<()>().await;
            });
        });
        let model = Model::load(&compute(), large()).await.unwrap();
        Self { model, cloud: told.await.unwrap() }
    }
}

pub fn messages(question: &str) -> Vec<Message> {
    vec![Message::system("You are a helpful assistant."), Message::user(question)]
}

/// How likely a model holds it that an answer goes on with one of these tokens. What a quantised
/// model says hangs on the CPU where two tokens are nearly as likely; a test that builds on its words
/// begins the answer for it, and sees first that there is no doubt.
pub async fn chance(
    model: &Model,
    question: &str,
    begun: &str,
    good: impl Fn(Token, &[u8]) -> bool,
) -> f32 {
    let vocabulary = model.vocabulary();
    let prompt = vocabulary.prompt(&messages(question)).unwrap();
    let context = [prompt, vocabulary.encode(begun)].concat();
    let logits = model.open().await.unwrap().read(&context, false).await.unwrap().logits;
    let all = (0..vocabulary.len() as u32).map(Token);
    let good = all.filter(|&token| good(token, &vocabulary.piece(token)));
    good.map(|token| logprob(&logits, token)).filter(|l| *l > -12.0).map(f32::exp).sum()
}

/// A probability beside which no other can be near: rounding moves it by hundredths.
pub const SURE: f32 = 0.8;

/// What an edge tells a cloud.
pub fn edge_side(edge: &Model, messages: &[Message]) -> EdgeSide {
    let vocabulary = edge.vocabulary().clone();
    let prompt = vocabulary.prompt(messages).unwrap();
    let probe = vocabulary.prompt(&probe_messages()).unwrap();
    EdgeSide { vocabulary, prompt, probe }
}

/// A client as the program makes it; without an edge, mode `large`.
pub fn remote(address: &Address, edge: Option<&Model>, question: &str) -> Remote {
    let messages = messages(question);
    let edge = edge.map(|m| edge_side(m, &messages));
    let opening =
        Opening { prompt: Prompt::Messages(messages), edge, rendered: None, grammar: None };
    Remote::new(settings(address), opening).unwrap()
}

pub fn settings(address: &Address) -> Settings {
    Settings::new(Endpoint { address: address.clone(), key: None, authority: None })
}
