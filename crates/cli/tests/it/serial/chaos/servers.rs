//! The two processes of a campaign, and what befalls them.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{task::block_in_place, time::sleep};

use crate::common::{
    Cloud as Server, SMALL, campaign::resident, llama_server::LlamaServer, on_a_disk_of, send,
};

/// Texts at once, and the sessions of `tandem cloud`, which are fewer.
pub const SEATS: usize = 3;
pub const SESSIONS: usize = 2;

/// The room for conversations, on either side.
const CONTEXT: &str = "512";

/// How long a server may take to end once it is told to.
const ENDS_WITHIN: Duration = Duration::from_secs(35);

/// The large model's server. It is the small model, so that every text has to be the same one.
pub enum Cloud {
    Tandem(Server),
    LlamaServer(Option<LlamaServer>),
}

pub fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().unwrap()
}

/// The key that llama-server wants.
pub const KEY: &str = "sesame";

impl Cloud {
    pub fn tandem() -> Self {
        let sessions = SESSIONS.to_string();
        let arguments = ["--cloud-model", SMALL, "--context", CONTEXT, "--threads", "1"];
        Self::Tandem(Server::start(&[&arguments[..], &["--sessions", &sessions]].concat()))
    }

    /// One that collects what edges see, on a disk with room for nothing of it. `None` where nothing can
    /// be mounted.
    pub fn on_a_full_disk(folder: &Path) -> Option<Self> {
        let script = format!(
            "exec '{}' cloud --listen 127.0.0.1:0 --cloud-model {SMALL} --context {CONTEXT} \
             --threads 1 --sessions {SEATS} --collect '{}'",
            env!("CARGO_BIN_EXE_tandem"),
            folder.join("live").display()
        );
        let mut command = on_a_disk_of("64k", folder, &script)?;
        command.env_remove("TANDEM_CLOUD_KEY").env_remove("TANDEM_LOG").env("TANDEM_PAIR", "tiny");
        Some(Self::Tandem(Server::of(command)))
    }

    pub fn llama_server(model: &Path) -> Self {
        Self::LlamaServer(Some(LlamaServer::start(model)))
    }

    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Tandem(server) => address(&server.url),
            Self::LlamaServer(server) => address(&server.as_ref().unwrap().url()),
        }
    }

    /// Killed; after a while it is there again, at another address.
    pub async fn kill_and_restart(&mut self, after: Duration, model: &Path) {
        match self {
            Self::Tandem(server) => {
                server.child.kill().unwrap();
                server.child.wait().unwrap();
                sleep(after).await;
                *self = block_in_place(Self::tandem);
            }
            Self::LlamaServer(server) => {
                drop(server.take());
                sleep(after).await;
                *self = block_in_place(|| Self::llama_server(model));
            }
        }
    }

    /// The process of `tandem cloud`.
    pub fn child(&mut self) -> &mut Child {
        match self {
            Self::Tandem(server) => &mut server.child,
            Self::LlamaServer(_) => panic!("nothing but its line befalls llama-server"),
        }
    }

    pub async fn terminate_and_restart(&mut self) {
        terminate(self.child()).await;
        *self = block_in_place(Self::tandem);
    }
}

/// Asks a server to end, and waits until it has done so of its own will.
pub async fn terminate(child: &mut Child) {
    send(child, "TERM");
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0), "{status} after SIGTERM");
            return;
        }
        assert!(begun.elapsed() < ENDS_WITHIN, "it does not end");
        sleep(Duration::from_millis(20)).await;
    }
}

/// For a while a process can open no file and no socket.
pub async fn without_files(child: &Child, time: Duration) {
    let files = open_files(child).max(64) * 4;
    limit(child, 0);
    sleep(time).await;
    limit(child, files.max(512));
}

/// The limit that a process may raise itself stays where it is.
fn limit(child: &Child, files: usize) {
    let (process, files) = (format!("--pid={}", child.id()), format!("--nofile={files}:"));
    assert!(Command::new("prlimit").args([process, files]).status().unwrap().success());
}

pub fn open_files(child: &Child) -> usize {
    fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count()
}

/// `tandem serve` with its line to the cloud.
pub struct Edge {
    pub server: Server,
    cloud: String,
    more: &'static [&'static str],
    /// Memory and open files once it is warm.
    warm: Option<(usize, usize)>,
    texts: usize,
}

/// Files that a process may have open beyond those it had when it was warm.
const MORE_FILES: usize = 24;

impl Edge {
    pub fn start(cloud: &str, more: &'static [&'static str]) -> Self {
        let server = Self::serve(cloud, more);
        Self { server, cloud: cloud.to_owned(), more, warm: None, texts: 0 }
    }

    fn serve(cloud: &str, more: &[&str]) -> Server {
        let seats = SEATS.to_string();
        let machine = ["--context", CONTEXT, "--threads", "1", "--parallel", &seats];
        let limits = ["--max-wait", "8s", "--queue", "64"];
        let routing = ["--router", "margin", "--threshold", "0.5", "--cloud", cloud];
        Server::start_as("serve", &[&machine[..], &limits, &routing, more].concat())
    }

    pub fn address(&self) -> SocketAddr {
        address(&self.server.url)
    }

    pub async fn terminate_and_restart(&mut self) {
        terminate(&mut self.server.child).await;
        self.server = block_in_place(|| Self::serve(&self.cloud, self.more));
        (self.warm, self.texts) = (None, 0);
    }

    /// Waits until nobody is served, and sees that nothing was left behind.
    pub async fn come_to_rest(&mut self, texts: usize) {
        let begun = Instant::now();
        loop {
            let health: Value =
                serde_json::from_str(&get(&self.server.url, "/health").await).unwrap();
            if health["running"] == 0 && health["queued"] == 0 {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "seats are lost: {health}");
            sleep(Duration::from_millis(20)).await;
        }
        let metrics = get(&self.server.url, "/metrics").await;
        for gauge in ["tandem_running", "tandem_queued"] {
            assert_eq!(figure(&metrics, gauge), Some(0), "{gauge}");
        }
        self.texts += texts;
        let child = &self.server.child;
        let (memory, files) = (resident(&child.id().to_string()), open_files(child));
        match self.warm {
            Some((warm, before)) => {
                let most = warm as f64 * 1.2 + 20_000.0;
                assert!(memory as f64 <= most, "memory grows: {warm} to {memory} kB");
                assert!(files <= before + MORE_FILES, "files stay open: {before}, then {files}");
            }
            None if self.texts >= 16 => self.warm = Some((memory, files)),
            None => {}
        }
    }
}

/// The body of an answer.
pub async fn get(url: &str, path: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(format!("{url}{path}")).send().await.unwrap().text().await.unwrap()
}

/// A figure of `/metrics`, over all its labels.
pub fn figure(metrics: &str, name: &str) -> Option<usize> {
    let lines = metrics.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let figures: Option<Vec<usize>> =
        lines.map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    figures.filter(|figures| !figures.is_empty()).map(|figures| figures.iter().sum())
}
