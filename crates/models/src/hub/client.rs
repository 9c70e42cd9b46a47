//! The hub's routes: the list of a repository's files, what it says of one, and its bytes.

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

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The most redirects followed: the hub itself uses two.
const REDIRECTS: usize = 5;

/// The largest list of files read: an endless one must not fill the memory.
const LONGEST_LIST: u64 = 64 << 20;

/// The most characters of a server's own words that are repeated.
const LONGEST_WORDS: usize = 300;

/// A repository as it is now.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The commit its main branch is at.
    pub commit: String,
    /// Paths of its files.
    pub files: Vec<String>,
}

/// What the hub promises of a file.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub hash: Hash,
    pub bytes: u64,
}

/// A file's bytes on their way.
pub(crate) struct Body {
    pub response: Response,
    /// Where in the file they begin.
    pub from: u64,
    /// Who sends them.
    pub host: String,
}

/// The hub, with a warm connection.
pub(crate) struct Client {
    http: Http,
    access: Access,
}

impl Client {
    pub fn new(access: Access) -> Result<Self, HubError> {
        provide_cryptography();
        let mut builder = Http::builder()
            // In the blocking client this bounds every read by itself, not the whole answer.
            .timeout(access.stall)
            .connect_timeout(CONNECT.min(access.stall))
            .user_agent(concat!("tandem/", env!("CARGO_PKG_VERSION")))
            // Followed here: the token must not travel, and what is said on the way counts.
            .redirect(Policy::none());
        if is_loopback(&access.endpoint) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|e| HubError::Unreachable {
            host: host(&access.endpoint),
            reason: cause(&e),
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
        let garbled = |reason: String| HubError::Garbled { what: what.clone(), reason };
        let url = self.url(&["api", "models"], repo, &["revision", "main"]);
        let (url, response) = self.follow(&Method::GET, url, None, |_| false)?;
        let response = self.good(repo, &what, response)?;
        let mut text = vec![];
        let mut limited = std::io::Read::take(response, LONGEST_LIST);
        std::io::Read::read_to_end(&mut limited, &mut text)
            .map_err(|e| HubError::Broken { host: host(&url), reason: cause(&e) })?;
        let model: Model = serde_json::from_slice(&text).map_err(|e| garbled(e.to_string()))?;
        if model.sha.len() != 40 || !model.sha.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(garbled(format!("{:?} is not a commit", tidy(&model.sha))));
        }
        let files: Vec<_> = model.siblings.into_iter().map(|s| s.rfilename).collect();
        if let Some(file) = files.iter().find(|file| !is_plain_path(file)) {
            return Err(garbled(format!("the file name {file:?} leads out of the repository")));
        }
        Ok(Listing { commit: model.sha, files })
    }

    /// A file's hash and size.
    pub fn promise(&self, repo: &Repo, commit: &str, file: &str) -> Result<Promise, HubError> {
        let what = format!("{repo}/{file}");
        let url = self.file_url(repo, commit, file);
        // A large file is elsewhere, and only the redirect to it tells what it is.
        let tells = |headers: &HeaderMap| text(headers, "x-linked-etag").is_some();
        let (_, response) = self.follow(&Method::HEAD, url, None, tells)?;
        let headers = response.headers().clone();
        if !tells(&headers) {
            self.good(repo, &what, response)?;
        }
        let etag = text(&headers, "x-linked-etag").or_else(|| text(&headers, ETAG.as_str()));
        let bytes = text(&headers, "x-linked-size")
            .or_else(|| text(&headers, CONTENT_LENGTH.as_str()).filter(|_| !tells(&headers)));
        let garbled =
            |reason: &str| HubError::Garbled { what: what.clone(), reason: reason.into() };
        let hash = etag.and_then(Hash::of_etag);
        Ok(Promise {
            hash: hash.ok_or_else(|| garbled("it has no hash to check the file against"))?,
            bytes: bytes
                .and_then(|b| b.parse().ok())
                .ok_or_else(|| garbled("it does not say how long the file is"))?,
        })
    }

    /// A file's bytes from a position on, or from the start if the server cannot do that.
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
            // What is here is longer than the file there: begin again.
            StatusCode::RANGE_NOT_SATISFIABLE if from > 0 => self.bytes(repo, commit, file, 0),
            StatusCode::PARTIAL_CONTENT if from > 0 => {
                let said = text(response.headers(), CONTENT_RANGE.as_str()).unwrap_or("none");
                let start = said.strip_prefix("bytes ").and_then(|r| r.split('-').next());
                if start.and_then(|s| s.parse().ok()) != Some(from) {
                    let reason = format!("bytes from {from} were asked for, and {said} came");
                    return Err(HubError::Garbled { what, reason: tidy(&reason) });
                }
                Ok(Body { response, from, host })
            }
            _ => Ok(Body { response: self.good(repo, &what, response)?, from: 0, host }),
        }
    }

    /// Asks, and follows redirects until there is an answer or one that says enough.
    fn follow(
        &self,
        method: &Method,
        mut url: Url,
        from: Option<u64>,
        enough: impl Fn(&HeaderMap) -> bool,
    ) -> Result<(Url, Response), HubError> {
        for _ in 0..=REDIRECTS {
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
            let garbled = |reason: String| HubError::Garbled { what: host(&url), reason };
            let next = url.join(target).map_err(|e| garbled(format!("a redirect: {e}")))?;
            let is_web = matches!(next.scheme(), "http" | "https");
            if !is_web || (url.scheme() == "https" && next.scheme() != "https") {
                return Err(garbled(format!("a redirect to {}, in the clear", host(&next))));
            }
            url = next;
        }
        Err(HubError::Garbled { what: host(&url), reason: "too many redirects".into() })
    }

    /// What an answer that is none means.
    fn good(&self, repo: &Repo, what: &str, response: Response) -> Result<Response, HubError> {
        let (status, headers) = (response.status(), response.headers());
        if status.is_success() {
            return Ok(response);
        }
        let code = text(headers, "x-error-code").unwrap_or_default();
        let words = text(headers, "x-error-message").map(tidy);
        let mut reason = words.map_or(String::new(), |words| format!(": {words}"));
        if let Some(seconds) = text(headers, RETRY_AFTER.as_str()) {
            reason += &format!("; try again in {} s", tidy(seconds));
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
            return HubError::Stalled { host: host(url), after: self.access.stall };
        }
        HubError::Unreachable { host: host(url), reason: cause(error) }
    }

    /// How long a server may send nothing.
    pub fn stall(&self) -> Duration {
        self.access.stall
    }

    fn file_url(&self, repo: &Repo, commit: &str, file: &str) -> Url {
        let path: Vec<_> = ["resolve", commit].into_iter().chain(file.split('/')).collect();
        self.url(&[], repo, &path)
    }

    fn url(&self, before: &[&str], repo: &Repo, after: &[&str]) -> Url {
        let mut url = self.access.endpoint.clone();
        // Only addresses without a path fail here, and an endpoint has one.
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

/// Addresses of files are signed, so only the host is shown.
fn host(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// A server must neither fill the user's screen nor steer it.
fn tidy(text: &str) -> String {
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(LONGEST_WORDS).map(harmless).collect()
}

/// The innermost reason: the outer ones only say that a request failed.
pub(crate) fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// TLS needs a provider of its primitives, once a process, before the first client is made.
fn provide_cryptography() {
    static ONCE: Once = Once::new();
    // If another was there first, that one is used.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
