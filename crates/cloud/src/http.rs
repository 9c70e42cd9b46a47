//! Requests, answers, and what their failures mean.

use std::{fmt, str::FromStr, time::Duration};

use decode::CloudError;
use reqwest::{Client, Method, Url, redirect};
use serde::{Serialize, de::DeserializeOwned};

use crate::protocol::{Failure, code};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// The largest answer read: an endless one must not fill the memory.
const LARGEST: usize = 16 << 20;

/// Where a cloud is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Url);

/// Not an address.
#[derive(Debug, PartialEq, Eq)]
pub struct AddressError {
    given: String,
    reason: String,
}

impl std::error::Error for AddressError {}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, reason } = self;
        write!(f, "{given:?} is not the address of a cloud: {reason}; write http://HOST:PORT")
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |reason: &str| AddressError { given: text.into(), reason: reason.into() };
        let url = Url::parse(text).map_err(|e| wrong(&e.to_string()))?;
        match url.scheme() {
            "http" => {}
            "https" => return Err(wrong("this build speaks plain http only")),
            _ => return Err(wrong("it does not begin with http://")),
        }
        if url.host().is_none() || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it is not a plain address"));
        }
        Ok(Self(url))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// What came back instead of an answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A clear word of the server's.
    Failure { status: u16, failure: Failure },
    /// Anything else.
    Error(CloudError),
}

impl Trouble {
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Failure { failure, .. } => Some(&failure.error.code),
            Self::Error(_) => None,
        }
    }

    pub fn into_error(self) -> CloudError {
        match self {
            Self::Error(error) => error,
            Self::Failure { failure, .. } if failure.error.code == code::CONTEXT_FULL => {
                CloudError::ContextFull
            }
            Self::Failure { status, failure } => {
                CloudError::Refused { status, message: failure.error.message }
            }
        }
    }
}

/// A warm connection to one cloud.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    address: Address,
    key: Option<String>,
    deadline: Duration,
}

impl Http {
    pub fn new(
        address: Address,
        key: Option<String>,
        deadline: Duration,
    ) -> Result<Self, CloudError> {
        let builder = Client::builder()
            .connect_timeout(CONNECT)
            // A redirect could carry the key elsewhere.
            .redirect(redirect::Policy::none());
        // Nothing on this machine is reached through a proxy.
        let local = address.0.host_str().is_some_and(|h| h == "localhost" || h.starts_with("127."));
        let builder = if local { builder.no_proxy() } else { builder };
        let client = builder
            .build()
            .map_err(|e| CloudError::Unreachable { url: address.to_string(), reason: cause(&e) })?;
        Ok(Self { client, address, key, deadline })
    }

    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Trouble> {
        let bytes = serde_json::to_vec(body).map_err(|e| self.garbled(e.to_string()))?;
        self.ask(Method::POST, path, bytes, self.deadline).await
    }

    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        within: Duration,
    ) -> Result<T, Trouble> {
        self.ask(Method::GET, path, vec![], within).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<T, Trouble> {
        let (status, body) = self.send(method, path, body, within).await.map_err(Trouble::Error)?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(|e| self.garbled(e.to_string()));
        }
        match serde_json::from_slice::<Failure>(&body) {
            Ok(failure) => Err(Trouble::Failure { status, failure }),
            Err(_) => Err(self.garbled(format!("status {status}, {}", excerpt(&body)))),
        }
    }

    /// Asks for something to be forgotten; whether it is matters to nobody here.
    pub async fn delete(&self, path: &str) {
        if let Err(error) = self.send(Method::DELETE, path, vec![], GOODBYE).await {
            tracing::debug!(%error, "a session was not closed");
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(u16, Vec<u8>), CloudError> {
        let url = format!("{}{path}", self.address);
        let mut request = self.client.request(method, url).timeout(within);
        request = request.header("content-type", "application/json").body(body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let mut response = request.send().await.map_err(|e| self.failed(&e, within))?;
        let status = response.status().as_u16();
        let mut body = vec![];
        while let Some(chunk) = response.chunk().await.map_err(|e| self.failed(&e, within))? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                let reason = format!("its answer is longer than {} MB", LARGEST >> 20);
                return Err(CloudError::Garbled { url: self.address.to_string(), reason });
            }
        }
        Ok((status, body))
    }

    fn garbled(&self, reason: String) -> Trouble {
        Trouble::Error(CloudError::Garbled { url: self.address.to_string(), reason })
    }

    fn failed(&self, error: &reqwest::Error, within: Duration) -> CloudError {
        let url = self.address.to_string();
        if error.is_timeout() && !error.is_connect() {
            return CloudError::TooLate { url, after: within };
        }
        CloudError::Unreachable { url, reason: cause(error) }
    }
}

/// The innermost reason: the outer ones only say that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    if text.trim().is_empty() { "an empty body".into() } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in ["http://127.0.0.1:8080", "http://box.local:9/", "http://[::1]:80/under"] {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        for bad in ["", "localhost:80", "https://x", "ftp://x", "http://", "http://x/?q=1", "/tmp"]
        {
            let error = bad.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("http://HOST:PORT"), "{error}");
        }
        assert_eq!("http://x:1/".parse::<Address>().unwrap().to_string(), "http://x:1");
    }
}
