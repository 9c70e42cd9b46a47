//! Requests, replies, and what their failures mean.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use decode::{CloudError, Sent};
use reqwest::{Certificate, Client, Method, Response, header, redirect};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{Address, Key, RequestOrigin, delay::Network};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest answer read: an endless one must not fill the memory.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The most characters of a server's own words that are repeated.
const MAX_MESSAGE_CHARS: usize = 300;

/// The longest pause a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// How a server is reached. Certificates are always verified.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub address: Address,
    pub key: Option<Key>,
    /// Certificates (PEM) of an authority of one's own, trusted besides the system's.
    pub authority: Option<Vec<u8>>,
}

/// A warm connection to one server.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    address: Address,
    key: Option<Key>,
    /// Whom we take it for.
    pub engine: &'static str,
    pub sent: SentLog,
    pub network: Network,
    caller: Arc<Caller>,
}

/// For whose request the server is asked; shared by all clones, which speak in the same conversation.
#[derive(Debug, Default)]
struct Caller {
    origin: RwLock<RequestOrigin>,
}

/// Calls of this process that were named after a request: two seats may write for one name.
static NAMED: AtomicU64 = AtomicU64::new(0);

impl Caller {
    /// The headers by which the other side knows the request.
    fn headers(&self, path: &str) -> Vec<(&'static str, String)> {
        let RequestOrigin { id, traceparent } =
            self.origin.read().unwrap_or_else(PoisonError::into_inner).clone();
        let id = id.map(|id| {
            // Tandem's cloud only repeats it in its log. An engine may take it for the name of one
            // completion, and refuses another of that name while the first is under way.
            let own = path == "/health" || path.starts_with("/v1/sessions");
            let number = NAMED.fetch_add(1, Ordering::Relaxed);
            if own { id } else { format!("{id}.{number}") }
        });
        let traceparent = traceparent.map(|parent| ("traceparent", parent));
        id.map(|id| ("x-request-id", id)).into_iter().chain(traceparent).collect()
    }
}

/// What was sent since somebody took account of it; shared by all clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentLog(Arc<Mutex<Sent>>);

impl SentLog {
    /// Takes note of words that are about to be sent.
    pub fn note(&self, words: &str) {
        self.lock().text.push_str(words);
    }

    pub fn take(&self) -> Sent {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Http {
    pub fn new(endpoint: &Endpoint, engine: &'static str) -> Result<Self, CloudError> {
        let Endpoint { address, key, authority } = endpoint.clone();
        provide_cryptography();
        let broken = |reason: String| CloudError::Unreachable { url: address.to_string(), reason };
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect could carry the key elsewhere.
            .redirect(redirect::Policy::none());
        if address.is_loopback() {
            builder = builder.no_proxy();
        }
        if let Some(pem) = authority {
            let certificates = Certificate::from_pem_bundle(&pem)
                .map_err(|e| broken(format!("the authority's certificates: {}", cause(&e))))?;
            if certificates.is_empty() {
                return Err(broken("the authority's file holds no certificate (PEM)".into()));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder.build().map_err(|e| broken(cause(&e)))?;
        Ok(Self {
            client,
            address,
            key,
            engine,
            sent: SentLog::default(),
            network: Network::default(),
            caller: Arc::default(),
        })
    }

    /// The same connection, now that we know who answers.
    pub fn with_engine(&self, engine: &'static str) -> Self {
        Self { engine, ..self.clone() }
    }

    /// From now on the server is asked for this request.
    pub fn set_origin(&self, origin: RequestOrigin) {
        *self.caller.origin.write().unwrap_or_else(PoisonError::into_inner) = origin;
    }

    pub async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<Reply, CloudError> {
        let bytes = serde_json::to_vec(body).map_err(|e| self.invalid_answer(e.to_string()))?;
        self.sent.lock().bytes += bytes.len();
        self.network.wait().await;
        self.send(Method::POST, path, bytes, within).await
    }

    pub async fn get(&self, path: &str, within: Duration) -> Result<Reply, CloudError> {
        self.network.wait().await;
        self.send(Method::GET, path, vec![], within).await
    }

    /// Asks for something to be forgotten; whether it is matters to nobody here.
    pub async fn delete(&self, path: &str) {
        if let Err(error) = self.send(Method::DELETE, path, vec![], CLOSE_TIMEOUT).await {
            tracing::debug!(%error, "a session was not closed");
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Reply, CloudError> {
        let url = format!("{}{path}", self.address);
        let mut request = self.client.request(method, url).timeout(within);
        request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        for (name, value) in self.caller.headers(path) {
            request = request.header(name, value);
        }
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let mut response = request.send().await.map_err(|e| self.failed(&e, within))?;
        let status = response.status().as_u16();
        let text = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        if response.status().is_redirection() {
            let target = tidy(text(header::LOCATION).unwrap_or("nowhere"));
            return Err(CloudError::Redirected { url: self.address.to_string(), target });
        }
        let kind = tidy(text(header::CONTENT_TYPE).unwrap_or_default());
        // A stream we did not ask for need not ever end.
        if kind.starts_with("text/event-stream") {
            return Err(self.invalid_answer("it streams, though it was not asked to".into()));
        }
        let retry_after = text(header::RETRY_AFTER).and_then(pause);
        let body = self.body(&mut response, within).await?;
        Ok(Reply { status, kind, body, retry_after })
    }

    async fn body(&self, response: &mut Response, within: Duration) -> Result<Vec<u8>, CloudError> {
        let mut body = vec![];
        while let Some(chunk) = response.chunk().await.map_err(|e| self.failed(&e, within))? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE_BYTES {
                let megabytes = MAX_RESPONSE_BYTES >> 20;
                return Err(
                    self.invalid_answer(format!("its answer is longer than {megabytes} MB"))
                );
            }
        }
        Ok(body)
    }

    pub fn invalid_answer(&self, reason: String) -> CloudError {
        CloudError::InvalidAnswer { url: self.address.to_string(), engine: self.engine, reason }
    }

    fn failed(&self, error: &reqwest::Error, within: Duration) -> CloudError {
        let url = self.address.to_string();
        if error.is_timeout() && !error.is_connect() {
            return CloudError::TimedOut { url, after: within };
        }
        CloudError::Unreachable { url, reason: cause(error) }
    }

    /// What a good reply says; the words of a bad one become an error.
    pub fn read<T: DeserializeOwned>(&self, reply: &Reply) -> Result<T, CloudError> {
        if !reply.is_good() {
            return Err(self.refusal(reply));
        }
        if !reply.kind.is_empty() && !reply.kind.contains("json") {
            return Err(self.invalid_answer(format!("its answer is {}, not JSON", reply.kind)));
        }
        serde_json::from_slice(&reply.body).map_err(|e| self.invalid_answer(e.to_string()))
    }

    pub fn refusal(&self, reply: &Reply) -> CloudError {
        let words = words(&reply.body);
        if is_context_full(reply.status, &words) {
            return CloudError::ContextFull;
        }
        let message = match reply.status {
            401 | 403 if words.is_empty() => "no or a wrong key; give it with --cloud-key".into(),
            401 => format!("{words}: no or a wrong key; give it with --cloud-key"),
            _ if words.is_empty() => "it gave no reason".into(),
            _ => words,
        };
        CloudError::Refused { status: reply.status, message, retry_after: reply.retry_after }
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub status: u16,
    kind: String,
    pub body: Vec<u8>,
    retry_after: Option<Duration>,
}

impl Reply {
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// What an error says: every engine, and every proxy before it, has its own shape for that.
fn words(body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        let error = value.get("error").unwrap_or(&value);
        let places = [Some(error), error.get("message"), error.get("detail"), value.get("message")];
        places.into_iter().flatten().find_map(Value::as_str).map(tidy)
    });
    message.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        if text.trim().is_empty() { String::new() } else { format!("{text:?}") }
    })
}

/// A server must neither fill the user's screen nor steer it.
fn tidy(text: &str) -> String {
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_MESSAGE_CHARS).map(harmless).collect()
}

/// The engines say in words that a context is full.
fn is_context_full(status: u16, words: &str) -> bool {
    let words = words.to_lowercase();
    let says = |what: &str| words.contains(what);
    matches!(status, 400 | 413 | 422)
        && (says("context") || says("model length"))
        && ["exceed", "longer", "maximum", "too long"].into_iter().any(says)
}

/// `Retry-After`: seconds, or a date. A clock that jumps makes it at most the longest pause.
#[expect(clippy::disallowed_methods, reason = "a date can only be compared with the time of day")]
fn pause(text: &str) -> Option<Duration> {
    let pause = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // A date that is over asks for no pause.
        Err(_) => httpdate::parse_http_date(text.trim())
            .ok()?
            .duration_since(SystemTime::now())
            .unwrap_or_default(),
    };
    Some(pause.min(MAX_RETRY_AFTER))
}

/// TLS needs a provider of its primitives, once a process, before the first client is made.
pub fn provide_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("another provider of cryptography was there first");
        }
    });
}

/// The innermost reason: the outer ones only say that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_never_gets_one_name_twice_and_tandem_always_the_requests_own() {
        let caller = Caller::default();
        assert!(caller.headers("/v1/sessions").is_empty());
        let traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
        let id = Some("mine-7".to_owned());
        *caller.origin.write().unwrap() = RequestOrigin { id, traceparent };
        let name = |path| {
            let headers = caller.headers(path);
            assert_eq!((headers[0].0, headers[1].0), ("x-request-id", "traceparent"));
            headers[0].1.clone()
        };
        for path in ["/v1/sessions", "/v1/sessions/7/next", "/health"] {
            assert_eq!(name(path), "mine-7");
        }
        let (first, second) = (name("/v1/completions"), name("/v1/completions"));
        assert!(first.starts_with("mine-7.") && second.starts_with("mine-7.") && first != second);
    }

    #[test]
    fn every_shape_of_error_is_read() {
        for (body, expected) in [
            (r#"{"error":"Unauthorized"}"#, "Unauthorized"),
            (r#"{"error":{"message":"no such model","type":"x"}}"#, "no such model"),
            (r#"{"object":"error","message":"too hot"}"#, "too hot"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            ("<html>502</html>", "\"<html>502</html>\""),
            ("", ""),
        ] {
            assert_eq!(words(body.as_bytes()), expected);
        }
    }

    #[test]
    fn a_full_context_is_told_from_other_refusals() {
        let full = "This model's maximum context length is 2048 tokens.";
        assert!(is_context_full(400, full));
        assert!(!is_context_full(500, full));
        assert!(!is_context_full(400, "Prompt contains invalid tokens"));
    }

    #[test]
    fn pauses_are_bounded() {
        assert_eq!(pause("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause("99999999999"), Some(MAX_RETRY_AFTER));
        assert_eq!(pause("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(pause("Wed, 21 Oct 2815 07:28:00 GMT"), Some(MAX_RETRY_AFTER));
        assert_eq!(pause("soon"), None);
    }
}
