//! The servers that are loaded in one run: `tandem cloud`, and beside it what is installed here.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use cloud::{Endpoint, Engine, Settings};
use engine::LoadOptions;
use models::{Environment, Home, Role};

use crate::common::{
    llama_server::LlamaServer,
    model_file,
    peer::{Peer, Transport},
};

/// The key that engines are started with.
const KEY: &str = "sesame";

/// How long an engine may take to start: SGLang takes a minute or two.
const STARTS_WITHIN: Duration = Duration::from_secs(300);

pub struct Contender {
    pub name: &'static str,
    pub settings: Settings,
    server: Running,
}

enum Running {
    Tandem(Peer),
    LlamaCpp { _server: LlamaServer },
    Sglang { _server: Script },
}

impl Contender {
    pub async fn tandem(options: LoadOptions) -> Self {
        let peer = Peer::new(Transport::Http, options).await;
        Self { name: "tandem cloud", settings: peer.settings(), server: Running::Tandem(peer) }
    }

    /// With as many slots as there are edges; `None` where it is not installed.
    pub fn llama_server(slots: usize, context: usize) -> Option<Self> {
        if !LlamaServer::is_installed() {
            println!("llama-server is not installed here: scripts/engines/install.sh llama-server");
            return None;
        }
        let server = LlamaServer::start_with(&model_file(Role::Edge), slots, context);
        let settings = settings(&server.url(), Engine::LlamaServer);
        let server = Running::LlamaCpp { _server: server };
        Some(Self { name: "llama-server", settings, server })
    }

    /// With the same model in 32 bits; `None` where it is not installed.
    pub async fn sglang() -> Option<Self> {
        let home = Home::find(Environment::read()).unwrap();
        let (ready, model) =
            (home.file("engines/sglang/ready"), home.file("engines/smollm2-135m-instruct"));
        if !ready.exists() || !model.exists() {
            println!("SGLang is not installed here: scripts/engines/test.sh TANDEM sglang");
            return None;
        }
        let server = Script::start("sglang", model, home.file("engines/load-sglang.log")).await;
        let settings = settings(&server.url, Engine::Sglang);
        Some(Self { name: "SGLang", settings, server: Running::Sglang { _server: server } })
    }

    /// `tandem cloud`, whose sessions and memory can be looked at.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.server {
            Running::Tandem(peer) => Some(peer),
            Running::LlamaCpp { .. } | Running::Sglang { .. } => None,
        }
    }
}

fn settings(url: &str, engine: Engine) -> Settings {
    let (address, key) = (url.parse().unwrap(), Some(KEY.parse().unwrap()));
    Settings { engine: Some(engine), ..Settings::new(Endpoint { address, key, authority: None }) }
}

/// An engine that its script serves; ended with all that it started when dropped.
struct Script {
    child: Child,
    url: String,
}

impl Script {
    async fn start(engine: &str, model: PathBuf, log: PathBuf) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}");
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/engines");
        let log = File::create(log).unwrap();
        let child = Command::new(format!("{scripts}/serve_{engine}.sh"))
            .args([port.to_string().as_str(), KEY])
            .arg(model)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let mut script = Self { child, url };
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let begun = Instant::now();
        loop {
            let models = client.get(format!("{}/v1/models", script.url)).bearer_auth(KEY);
            if models.send().await.is_ok_and(|answer| answer.status() == 200) {
                return script;
            }
            let ended = script.child.try_wait().unwrap();
            assert!(ended.is_none(), "{engine} ended: {ended:?}");
            assert!(begun.elapsed() < STARTS_WITHIN, "{engine} does not start");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Its workers are in its group.
        let kill = format!("kill -KILL -- -{}", self.child.id());
        drop(Command::new("sh").args(["-c", &kill]).status());
        drop(self.child.wait());
    }
}
