//! A hub on loopback: the routes of the real one, large files on another host behind a redirect,
//! small ones behind a redirect of its own, and faults on demand.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::common::sha256;

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong with large files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// The connection is cut after this many bytes, once.
    CutOnce(usize),
    /// It is cut after this many bytes, and then before the first, for ever.
    Cut(usize),
    /// Nothing more comes after this many bytes.
    Hang(usize),
    /// Twenty thousand bytes come at a time, three times a second.
    Slow,
    /// One byte is another.
    WrongBytes,
    /// Ranges are not understood.
    NoRanges,
    /// Another range than the one asked for.
    WrongRange,
    /// The hash in the header is this.
    Etag(&'static str),
}

/// What was asked, of whom.
#[derive(Clone, Debug)]
pub struct Request {
    pub from_cdn: bool,
    pub method: String,
    pub path: String,
    pub range: Option<String>,
    pub token: Option<String>,
}

#[derive(Default)]
struct State {
    /// By repository and path.
    files: BTreeMap<(String, String), Arc<Vec<u8>>>,
    /// Listed, but not there to be fetched.
    listed: Vec<(String, String)>,
    fault: Option<Fault>,
    /// Repositories that want a token, and this one.
    gated: Option<&'static str>,
    log: Vec<Request>,
    sent: usize,
}

pub struct Hub {
    pub endpoint: String,
    cdn: String,
    state: Arc<Mutex<State>>,
}

pub fn git_hash(bytes: &[u8]) -> String {
    let header = format!("blob {}\0", bytes.len());
    decode::hex(&Sha1::new().chain_update(header).chain_update(bytes).finalize())
}

/// As the real hub has it: weights are large whatever their size, the rest is in git.
pub fn is_large(path: &str) -> bool {
    [".gguf", ".onnx", ".data"].iter().any(|end| path.ends_with(end))
}

/// What a file is called among the blobs.
pub fn blob_name(path: &str, bytes: &[u8]) -> String {
    if is_large(path) { sha256(bytes) } else { git_hash(bytes) }
}

/// A GGUF file that no engine could load, of a given size.
pub fn fake_gguf(seed: u32, bytes: usize) -> Vec<u8> {
    let noise = (0..).flat_map(|i: u32| {
        Sha256::digest((u64::from(i) << 32 | u64::from(seed)).to_le_bytes()).to_vec()
    });
    b"GGUF".iter().copied().chain(noise).take(bytes).collect()
}

impl Hub {
    pub fn start() -> Self {
        let state = Arc::<Mutex<State>>::default();
        let (hub, cdn) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |l: &TcpListener| format!("http://{}", l.local_addr().unwrap());
        let this = Self { endpoint: address(&hub), cdn: address(&cdn), state };
        for (listener, is_cdn) in [(hub, false), (cdn, true)] {
            let (state, cdn) = (this.state.clone(), this.cdn.clone());
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let (state, cdn) = (state.clone(), cdn.clone());
                    thread::spawn(move || serve(stream.unwrap(), &state, &cdn, is_cdn));
                }
            });
        }
        this
    }

    pub fn with(self, repo: &str, files: &[(&str, &[u8])]) -> Self {
        for (path, bytes) in files {
            let key = (repo.to_owned(), (*path).to_owned());
            self.state.lock().unwrap().files.insert(key, Arc::new(bytes.to_vec()));
        }
        self
    }

    pub fn list_also(&self, repo: &str, path: &str) {
        self.state.lock().unwrap().listed.push((repo.into(), path.into()));
    }

    pub fn fault(&self, fault: Fault) {
        self.state.lock().unwrap().fault = Some(fault);
    }

    pub fn gate(&self, token: &'static str) {
        self.state.lock().unwrap().gated = Some(token);
    }

    /// What was asked since the last time, and how many bytes of large files were sent for it.
    pub fn take_log(&self) -> (Vec<Request>, usize) {
        let mut state = self.state.lock().unwrap();
        (std::mem::take(&mut state.log), std::mem::take(&mut state.sent))
    }
}

fn read(stream: &TcpStream, from_cdn: bool) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut request = Request { from_cdn, method, path, range: None, token: None };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        match name.to_lowercase().as_str() {
            "range" => request.range = Some(value.into()),
            "authorization" => request.token = Some(value.into()),
            _ => {}
        }
    }
    Some(request)
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, cdn: &str, is_cdn: bool) {
    let Some(request) = read(&stream, is_cdn) else { return };
    state.lock().unwrap().log.push(request.clone());
    if is_cdn {
        return serve_large(stream, state, &request);
    }
    let (head, body) = answer(state, &request, cdn);
    let head =
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let body = if request.method == "HEAD" { &[] } else { body.as_slice() };
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)));
}

/// The hub's own answers.
fn answer(state: &Mutex<State>, request: &Request, cdn: &str) -> (String, Vec<u8>) {
    let state = state.lock().unwrap();
    let parts: Vec<_> = request.path.trim_start_matches('/').split('/').collect();
    let refuse = |status: &str, code: &str| {
        let head =
            format!("{status}\r\nx-error-code: {code}\r\nx-error-message: because of {code}");
        (head, vec![])
    };
    let find = |repo: String, path: String| {
        let content = state.files.get(&(repo, path.clone()));
        content.map(|content| (path, content.clone()))
    };
    match parts[..] {
        ["api", "models", owner, name, "revision", "main"] => {
            let repo = format!("{owner}/{name}");
            let stored = state.files.keys().chain(&state.listed);
            let files: Vec<_> = stored
                .filter(|(r, _)| *r == repo)
                .map(|(_, path)| json!({ "rfilename": path }))
                .collect();
            if files.is_empty() {
                return refuse("404 Not Found", "RepoNotFound");
            }
            let body = json!({ "id": repo, "sha": COMMIT, "siblings": files }).to_string();
            ("200 OK\r\ncontent-type: application/json".into(), body.into_bytes())
        }
        ["api", "resolve-cache", "models", owner, name, COMMIT, ref path @ ..] => {
            let Some((_, content)) = find(format!("{owner}/{name}"), path.join("/")) else {
                return refuse("404 Not Found", "EntryNotFound");
            };
            (format!("200 OK\r\netag: \"{}\"", git_hash(&content)), content.to_vec())
        }
        [owner, name, "resolve", COMMIT | "main", ref path @ ..] => {
            let Some((path, content)) = find(format!("{owner}/{name}"), path.join("/")) else {
                return refuse("404 Not Found", "EntryNotFound");
            };
            let bearer = state.gated.map(|token| format!("Bearer {token}"));
            if bearer.is_some() && request.token.is_none() {
                return refuse("401 Unauthorized", "GatedRepo");
            }
            if bearer.is_some() && request.token != bearer {
                return refuse("403 Forbidden", "GatedRepo");
            }
            if !is_large(&path) {
                let place = format!("/api/resolve-cache/models/{owner}/{name}/{COMMIT}/{path}");
                return (
                    format!(
                        "307 Temporary Redirect\r\nlocation: {place}\r\nx-repo-commit: {COMMIT}"
                    ),
                    vec![],
                );
            }
            let hash = sha256(&content);
            let etag = match state.fault {
                Some(Fault::Etag(etag)) => etag,
                _ => &hash,
            };
            let head = format!(
                "302 Found\r\nlocation: {cdn}/{hash}?signature=secret\r\nx-repo-commit: {COMMIT}\r\n\
                 x-linked-etag: \"{etag}\"\r\nx-linked-size: {}\r\netag: \"of-the-redirect\"",
                content.len()
            );
            (head, vec![])
        }
        _ => refuse("404 Not Found", "RepoNotFound"),
    }
}

/// The other host's: bytes by their hash.
fn serve_large(mut stream: TcpStream, shared: &Mutex<State>, request: &Request) {
    let (content, fault) = {
        let mut state = shared.lock().unwrap();
        let wanted = request.path.trim_start_matches('/').split('?').next().unwrap().to_owned();
        let content =
            state.files.values().find(|content| sha256(content) == wanted).unwrap().clone();
        let fault = state.fault.unwrap_or(Fault::None);
        match fault {
            Fault::CutOnce(_) => state.fault = None,
            Fault::Cut(_) => state.fault = Some(Fault::Cut(0)),
            _ => {}
        }
        (content, fault)
    };
    let mut content = content.to_vec();
    if fault == Fault::WrongBytes {
        content[100] ^= 1;
    }
    let total = content.len();
    let from = request.range.as_deref().filter(|_| fault != Fault::NoRanges);
    let from =
        from.and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let status = match from {
        Some(from) if from >= total => "416 Range Not Satisfiable".to_owned(),
        Some(from) => {
            let said = if fault == Fault::WrongRange { 0 } else { from };
            format!("206 Partial Content\r\ncontent-range: bytes {said}-{}/{total}", total - 1)
        }
        None => "200 OK".to_owned(),
    };
    let body = &content[from.unwrap_or(0).min(total)..];
    let whole = match fault {
        Fault::CutOnce(bytes) | Fault::Cut(bytes) | Fault::Hang(bytes) => bytes.min(body.len()),
        _ => body.len(),
    };
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let piece = if fault == Fault::Slow { 20_000 } else { whole.max(1) };
    let mut sent = stream.write_all(head.as_bytes());
    for part in body[..whole].chunks(piece) {
        if fault == Fault::Slow {
            thread::sleep(Duration::from_millis(300));
        }
        sent = sent.and_then(|()| stream.write_all(part));
    }
    drop(sent);
    shared.lock().unwrap().sent += whole;
    if matches!(fault, Fault::Hang(_)) {
        thread::sleep(Duration::from_secs(60));
    }
}
