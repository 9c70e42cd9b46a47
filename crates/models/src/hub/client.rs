//! The hub's HTTP routes: the files of a repository, the hash and size of one, and its bytes.

use std::{error::Error, sync::Once, time::Duration};

use reqwest::{
    Method, StatusCode, Url,
    blocking::{Client as Http, Response},
    header::{
        ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, LOCATION, RANGE,
        RETRY_AFTER,
    },
    redirect::Policy,
};
use serde::Deserialize;

use crate::hub::{
    Access, HubError,
    blob::Hash,
    name::{Repo, is_plain_path},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The hub itself uses two.
const MAX_REDIRECTS: usize = 5;

/// A longer list of files is cut off, because an endless one must not fill the memory.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// The most characters of a server's message that are shown to the user.
const MAX_MESSAGE_CHARS: usize = 300;

#[derive(Debug)]
pub(crate) struct Listing {
    /// The latest commit of the main branch.
    pub commit: String,
    /// Paths of its files.
    pub files: Vec<String>,
}

/// The hash and size of a file, as the hub announces them.
#[derive(Clone, Debug)]
pub(crate) struct FileInfo {
    pub hash: Hash,
    pub bytes: u64,
}

/// The response with a file's bytes.
pub(crate) struct Body {
    pub response: Response,
    /// The position in the file at which they begin.
    pub from: u64,
    pub host: String,
}

pub(crate) struct Client {
    http: Http,
    access: Access,
}

impl Client {
    pub fn new(access: Access) -> Result<Self, HubError> {
        install_crypto_provider();
        let mut builder = Http::builder()
            // In the blocking client this bounds every read by itself, not the whole answer.
            .timeout(access.stall_timeout)
            .connect_timeout(CONNECT_TIMEOUT.min(access.stall_timeout))
            .user_agent(concat!("tandem/", env!("CARGO_PKG_VERSION")))
            // Redirects are followed in this file: the token must not be sent to other servers, and
            // the redirect itself carries the hash.
            .redirect(Policy::none());
        if is_loopback(&access.endpoint) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|e| HubError::Unreachable {
            host: host(&access.endpoint),
            reason: root_cause(&e),
        })?;
        Ok(Self { http, access })
    }

    /// The files of a repository's main branch.
    pub fn list(&self, repo: &Repo) -> Result<Listing, HubError> {
        #[derive(Deserialize)]
        struct Sibling {
            rfilename: String,
        }
        #[derive(Deserialize)]
        struct Model {
            sha: String,
            #[serde(default)]
            siblings: Vec<Sibling>,
        }
        let what = repo.to_string();
        let garbled = |reason: String| HubError::InvalidAnswer { what: what.clone(), reason };
        let url = self.url(&["api", "models"], repo, &["revision", "main"]);
        let (url, response) = self.follow(&Method::GET, url, None, |_| false)?;
        let response = self.check_status(repo, &what, response)?;
        let mut text = vec![];
        let mut limited = std::io::Read::take(response, MAX_LIST_BYTES);
        std::io::Read::read_to_end(&mut limited, &mut text)
            .map_err(|e| HubError::Broken { host: host(&url), reason: root_cause(&e) })?;
        let model: Model = serde_json::from_slice(&text).map_err(|e| garbled(e.to_string()))?;
        if model.sha.len() != 40 || !model.sha.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(garbled(format!("{:?} is not a commit", sanitise(&model.sha))));
        }
        let files: Vec<_> = model.siblings.into_iter().map(|s| s.rfilename).collect();
        if let Some(file) = files.iter().find(|file| !is_plain_path(file)) {
            return Err(garbled(format!("the file name {file:?} leads out of the repository")));
        }
        Ok(Listing { commit: model.sha, files })
    }

    pub fn file_info(&self, repo: &Repo, commit: &str, file: &str) -> Result<FileInfo, HubError> {
        let what = format!("{repo}/{file}");
        let url = self.file_url(repo, commit, file);
        // A large file is on another server, and only the redirect to it has the hash.
        let has_hash = |headers: &HeaderMap| text(headers, "x-linked-etag").is_some();
        let (_, response) = self.follow(&Method::HEAD, url, None, has_hash)?;
        let headers = response.headers().clone();
        if !has_hash(&headers) {
            self.check_status(repo, &what, response)?;
        }
        let etag = text(&headers, "x-linked-etag").or_else(|| text(&headers, ETAG.as_str()));
        let bytes = text(&headers, "x-linked-size")
            .or_else(|| text(&headers, CONTENT_LENGTH.as_str()).filter(|_| !has_hash(&headers)));
        let garbled =
            |reason: &str| HubError::InvalidAnswer { what: what.clone(), reason: reason.into() };
        let hash = etag.and_then(Hash::from_etag);
        Ok(FileInfo {
            hash: hash.ok_or_else(|| garbled("it has no hash to check the file against"))?,
            bytes: bytes
                .and_then(|b| b.parse().ok())
                .ok_or_else(|| garbled("it does not say how long the file is"))?,
        })
    }

    /// Requests a file's bytes from a position on; they begin at the start if the server cannot
    /// resume.
    pub fn bytes(
        &self,
        repo: &Repo,
        commit: &str,
        file: &str,
        from: u64,
    ) -> Result<Body, HubError> {
        let what = format!("{repo}/{file}");
        let url = self.file_url(repo, commit, file);
        let range = (from > 0).then_some(from);
        let (url, response) = self.follow(&Method::GET, url, range, |_| false)?;
        let host = host(&url);
        match response.status() {
            // The local file is longer than the hub's, so it is downloaded from the start.
            StatusCode::RANGE_NOT_SATISFIABLE if from > 0 => self.bytes(repo, commit, file, 0),
            StatusCode::PARTIAL_CONTENT if from > 0 => {
                let said = text(response.headers(), CONTENT_RANGE.as_str()).unwrap_or("none");
                let start = said.strip_prefix("bytes ").and_then(|r| r.split('-').next());
                if start.and_then(|s| s.parse().ok()) != Some(from) {
                    let reason = format!("bytes from {from} were requested, and {said} was sent");
                    return Err(HubError::InvalidAnswer { what, reason: sanitise(&reason) });
                }
                Ok(Body { response, from, host })
            }
            _ => Ok(Body { response: self.check_status(repo, &what, response)?, from: 0, host }),
        }
    }

    /// Sends a request and follows redirects until there is an answer, or a redirect whose headers
    /// are enough.
    fn follow(
        &self,
        method: &Method,
        mut url: Url,
        from: Option<u64>,
        enough: impl Fn(&HeaderMap) -> bool,
    ) -> Result<(Url, Response), HubError> {
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.http.request(method.clone(), url.clone());
            request = request.header(ACCEPT_ENCODING, "identity");
            if let Some(from) = from {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            if let Some(token) = &self.access.token
                && url.origin() == self.access.endpoint.origin()
            {
                request = request.bearer_auth(token.expose());
            }
            let response = request.send().map_err(|e| self.failed(&url, &e))?;
            let target = text(response.headers(), LOCATION.as_str());
            let target = target.filter(|_| response.status().is_redirection());
            let Some(target) = target.filter(|_| !enough(response.headers())) else {
                return Ok((url, response));
            };
            let garbled = |reason: String| HubError::InvalidAnswer { what: host(&url), reason };
            let next = url.join(target).map_err(|e| garbled(format!("a redirect: {e}")))?;
            let is_web = matches!(next.scheme(), "http" | "https");
            if !is_web || (url.scheme() == "https" && next.scheme() != "https") {
                return Err(garbled(format!("it redirects to {} without encryption", host(&next))));
            }
            url = next;
        }
        Err(HubError::InvalidAnswer { what: host(&url), reason: "too many redirects".into() })
    }

    /// Turns an error status into an error that says what to do.
    fn check_status(
        &self,
        repo: &Repo,
        what: &str,
        response: Response,
    ) -> Result<Response, HubError> {
        let (status, headers) = (response.status(), response.headers());
        if status.is_success() {
            return Ok(response);
        }
        let code = text(headers, "x-error-code").unwrap_or_default();
        let words = text(headers, "x-error-message").map(sanitise);
        let mut reason = words.map_or(String::new(), |words| format!(": {words}"));
        if let Some(seconds) = text(headers, RETRY_AFTER.as_str()) {
            reason += &format!("; try again in {} s", sanitise(seconds));
        }
        let repo = repo.clone();
        Err(match status.as_u16() {
            404 if code != "EntryNotFound" => HubError::NoRepo {
                repo,
                endpoint: self.access.endpoint.as_str().trim_end_matches('/').into(),
            },
            status @ (401 | 403) => {
                let advice = self.advice(&repo, code == "GatedRepo");
                HubError::Denied { repo, status, reason, advice }
            }
            status => HubError::Refused { what: what.into(), status, reason },
        })
    }

    fn advice(&self, repo: &Repo, gated: bool) -> String {
        let page = self.url(&[], repo, &[]);
        let licence = format!("accept its licence at {page}");
        match (&self.access.token, gated) {
            (None, true) => format!("{licence} and set HF_TOKEN to a token of yours"),
            (None, false) => format!(
                "there is no such model, or it is private or gated: check the name, {licence} if \
                 it has one, and set HF_TOKEN to a token of yours"
            ),
            (Some(token), _) => {
                let source = token.source();
                format!("the token from {source} may not read it: {licence}, or use another token")
            }
        }
    }

    fn failed(&self, url: &Url, error: &reqwest::Error) -> HubError {
        if error.is_timeout() && !error.is_connect() {
            return HubError::Stalled { host: host(url), after: self.access.stall_timeout };
        }
        HubError::Unreachable { host: host(url), reason: root_cause(error) }
    }

    pub fn stall_timeout(&self) -> Duration {
        self.access.stall_timeout
    }

    fn file_url(&self, repo: &Repo, commit: &str, file: &str) -> Url {
        let path: Vec<_> = ["resolve", commit].into_iter().chain(file.split('/')).collect();
        self.url(&[], repo, &path)
    }

    fn url(&self, before: &[&str], repo: &Repo, after: &[&str]) -> Url {
        let mut url = self.access.endpoint.clone();
        // This fails only for addresses without a path, and an endpoint has one.
        if let Ok(mut path) = url.path_segments_mut() {
            let repo = repo.to_string();
            path.pop_if_empty().extend(before).extend(repo.split('/')).extend(after);
        }
        url
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Only the host is shown, because the addresses of files contain signatures.
fn host(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Shortens a server's text and removes control characters, so that it can neither fill nor control
/// the user's terminal.
fn sanitise(text: &str) -> String {
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_MESSAGE_CHARS).map(harmless).collect()
}

/// The innermost error: the outer ones only say that a request failed.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// TLS needs a cryptography provider, installed once in a process before the first client is made.
fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    // If one is already installed, that one is used.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
