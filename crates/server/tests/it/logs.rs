//! What the log tells of a request, on both sides, and what it does not tell.

use std::{
    io,
    sync::{Arc, Mutex, Once},
};

use cloud::{Opening, Remote, protocol::Prompt};
use decode::{AnswerLength, Ask, Cloud, Sampling};
use engine::LoadOptions;
use reqwest::Client;
use serde_json::{Value, json};
use tandem::{AskConfig, CloudConfig, EdgeConfig, Machine, Models, PairConfig, Store, Tandem};
use tandem_server::{
    cloud::Config,
    edge::{Server, app},
    listen::{ServerLimits, listen},
};
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    common::{self, tiny},
    scripted,
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has every event made, whichever thread comes to it first. A process with one listener asks the thread that
/// comes to an event first whether it listens, and remembers the answer for all of them.
fn make_every_event() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    });
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A session's id is the right to use it: whoever reads the log must not get that.
#[tokio::test]
async fn neither_side_writes_the_whole_id_of_a_session() {
    make_every_event();
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    // Everything here runs on this thread.
    let _listening = tracing::subscriber::set_default(subscriber);
    let home = tempfile::tempdir().unwrap();
    let options = tiny::model(&home.path().join("tiny.gguf"), 5);
    // Room for one: the second conversation evicts the first, which is opened again.
    let address = common::start(options, Config::default()).await;
    let remote = |text: &str| {
        let opening = Opening::alone(Prompt::Text(text.into()));
        Remote::new(common::settings(&address), opening).unwrap()
    };
    let sampling = Sampling::default();
    let want = AnswerLength::Tokens(1);
    let ask = || Ask { tokens: &[], text: "", want, sampling: &sampling };
    let (mut first, mut second) = (remote("ab"), remote("ba"));
    for remote in [&mut first, &mut second] {
        remote.open().await.unwrap();
        remote.next(ask()).await.unwrap();
    }
    first.next(ask()).await.unwrap();
    first.close().await;
    second.close().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("cloud session opened") && text.contains("evicted to make room"),
        "{text}"
    );
    // Ids are 32 hexadecimal digits.
    let digits = |word: &str| word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let told = text.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| digits(word));
    assert_eq!(told, None, "{text}");
}

/// The address of an edge server over a model that is its own cloud, on another server.
async fn edge_and_cloud(model: LoadOptions) -> String {
    let edge = EdgeConfig { model: Some(model.path.display().to_string()), ..Default::default() };
    let machine = Machine { context: model.context, threads: Some(1), gpu_layers: None };
    let cloud = common::start(model, Config::default()).await;
    let models = Models::new(PairConfig {
        store: Store::open().unwrap(),
        edge,
        cloud: CloudConfig::Remote(vec![common::settings(&cloud)]),
        ask: AskConfig::default(),
        machine,
        seats: 1,
        preset: None,
    });
    let (routers, defaults) = (scripted::routers(0.5), scripted::defaults());
    let tandem = Tandem::new(models.unwrap(), routers, defaults, (1, 8));
    let server = Server::new(tandem, scripted::config()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(listen(listener, app(&server), ServerLimits::default(), std::future::pending()));
    url
}

/// The routes of the requests that were answered under a name.
fn answered_as(entries: &[Value], id: &str) -> Vec<String> {
    let named = entries.iter().filter(|e| e["message"] == "answered" && e["id"] == id);
    named.map(|entry| entry["route"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_request_has_one_name_in_the_logs_of_edge_and_cloud() {
    make_every_event();
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(log.clone())
        .finish();
    // Everything here runs on this thread.
    let _listening = tracing::subscriber::set_default(subscriber);
    let home = tempfile::tempdir().unwrap();
    let url = edge_and_cloud(tiny::model(&home.path().join("tiny.gguf"), 5)).await;
    let client = Client::builder().no_proxy().build().unwrap();
    for (id, prompt) in [("mine-7", "ab"), ("mine-8", "ba")] {
        let body = json!({ "prompt": prompt, "max_tokens": 3, "tandem": { "threshold": 1.0 } });
        let request = client.post(format!("{url}/v1/completions")).header("x-request-id", id);
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-request-id"]),
            (200, &id.parse().unwrap())
        );
        answer.bytes().await.unwrap();
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let entries: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for id in ["mine-7", "mine-8"] {
        let routes = answered_as(&entries, id);
        for route in ["/v1/completions", "/v1/sessions", "/v1/sessions/{id}/next"] {
            assert!(routes.iter().any(|r| r == route), "{route} is not in {routes:?}");
        }
    }
    // What is logged while the text is made, in a task of its own, says whose it is.
    let opened = entries.iter().filter(|entry| entry["message"] == "cloud session opened");
    let names: Vec<_> = opened.map(|entry| entry["span"]["id"].as_str().unwrap_or("")).collect();
    assert_eq!(names, ["mine-7", "mine-8"]);
}
