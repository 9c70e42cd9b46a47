//! The real program.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

#[path = "../../../../server/tests/it/common/campaign.rs"]
pub mod campaign;
#[path = "../../../../server/tests/it/common/llama_server.rs"]
pub mod llama_server;
#[path = "../../../../server/tests/it/common/proxy.rs"]
pub mod proxy;
pub mod slow_network;
#[cfg(target_os = "linux")]
pub mod terminal;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use sha2::{Digest, Sha256};

pub const SMALL: &str = "smollm2-135m-instruct";

/// The program; where `TANDEM_TEST_RUNNER` names an emulator, run by that.
pub fn tandem(arguments: &[&str]) -> Command {
    let runner = std::env::var("TANDEM_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace().chain([env!("CARGO_BIN_EXE_tandem")]);
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env_remove("TANDEM_CLOUD_KEY").env_remove("TANDEM_LOG");
    // Small enough to be tested with on any machine.
    command.env("TANDEM_PAIR", "tiny");
    command
}

/// A file's hash, as catalogues, presets and hubs have it.
pub fn sha256(bytes: &[u8]) -> String {
    decode::hex(&Sha256::digest(bytes))
}

#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let done = Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        assert!(!done.err.contains("panicked"), "{}", done.err);
        done
    }
}

impl Done {
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

pub fn run(arguments: &[&str]) -> Done {
    tandem(arguments).output().unwrap().into()
}

pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Done {
    let mut child = tandem(arguments).stdin(Stdio::piped()).spawn().unwrap();
    // A program that refuses its arguments never reads.
    drop(child.stdin.take().unwrap().write_all(input));
    child.wait_with_output().unwrap().into()
}

/// A shell with a disk of its own, this large and mounted at a folder for as long as it runs. `None`,
/// said aloud, where the system lets nobody mount: in most containers, for one. scripts/test.sh counts
/// the word SKIPPED, and refuses it for root.
pub fn on_a_disk_of(size: &str, folder: &Path, script: &str) -> Option<Command> {
    std::fs::create_dir_all(folder).unwrap();
    let mount = format!("mount -t tmpfs -o size={size} none '{}'", folder.display());
    let shell = |namespaces: &str, script: &str| {
        let mut command = Command::new("unshare");
        command.args([namespaces, "sh", "-c", script]);
        command
    };
    let mut refused = String::new();
    // Root needs no namespace of users, which is forbidden in some rooms; nobody else can do without.
    for namespaces in ["-m", "-rm"] {
        let tried: Done = shell(namespaces, &mount).output().unwrap().into();
        if tried.code == Some(0) {
            return Some(shell(namespaces, &format!("{mount} || exit 9\n{script}")));
        }
        refused = tried.err;
    }
    // Past the harness, which keeps what passing tests print to itself.
    let said = format!("SKIPPED, a full disk: nothing can be mounted here: {}\n", refused.trim());
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    None
}

pub fn interrupt(child: &Child) {
    send(child, "INT");
}

pub fn hang_up(child: &Child) {
    send(child, "HUP");
}

pub fn send(child: &Child, signal: &str) {
    // The shell's own `kill`: a bare machine may have no other.
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Lets a command run until there is more at a path, a file or a folder, and kills it then.
pub fn kill_once_it_wrote(mut command: Command, path: &Path) {
    let before = size(path);
    let mut child = command.spawn().unwrap();
    while size(path) == before {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?} before it could be killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn size(path: &Path) -> u64 {
    let own = path.metadata().map_or(0, |m| m.len());
    let files = path.read_dir().into_iter().flatten();
    own + files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum::<u64>()
}

/// A `tandem cloud` process, or another that serves; killed when dropped.
pub struct Cloud {
    pub child: Child,
    pub url: String,
}

impl Cloud {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_as("cloud", arguments)
    }

    pub fn start_as(command: &str, arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", command, arguments)
    }

    /// At this address, for example where another was before.
    pub fn start_at(address: &str, command: &str, arguments: &[&str]) -> Self {
        Self::of(tandem(&[&[command, "--listen", address], arguments].concat()))
    }

    /// Of a command that ends in one of them.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said =
            lines.find_map(|line| line.unwrap().strip_prefix("listening on ").map(String::from));
        let url = said.unwrap();
        // Its later words must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An answer of the edge alone with the lead of each of its tokens: the first choice's probability
/// less the second's.
pub fn run_with_leads(arguments: &[&str]) -> Value {
    let leads = ["--router", "margin", "--threshold", "0", "--json"];
    run(&[&["run"], arguments, &leads].concat()).json()
}

/// Two models that should say the same, or one model in batches of other sizes, may part where the
/// first choice is hardly ahead, for every kernel rounds in its own way. Before that, and nowhere
/// else, their texts must be the same. Says at how many tokens there was no doubt.
pub fn agree_where_sure(one: &Value, other: &Value) -> usize {
    let tokens = |report: &Value| report["tokens"].as_array().unwrap().clone();
    let mut sure = 0;
    for (a, b) in tokens(one).iter().zip(&tokens(other)) {
        // The first choice is three times as likely as the second, at the least.
        let clear = a["score"].as_f64().unwrap() > 0.5;
        if a["text"] != b["text"] {
            assert!(!clear, "{a} {b} in {} and {}", one["text"], other["text"]);
            break;
        }
        sure += usize::from(clear);
    }
    sure
}

/// Texts of a report's tokens, joined.
pub fn joined(report: &Value) -> String {
    let tokens = report["tokens"].as_array().unwrap();
    tokens.iter().map(|t| t["text"].as_str().unwrap()).collect()
}

/// How many of a report's tokens have a source.
pub fn count(report: &Value, source: &str) -> usize {
    report["tokens"].as_array().unwrap().iter().filter(|t| t["source"] == source).count()
}
