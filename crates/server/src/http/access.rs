//! Who may use a server: whoever has a key, or anybody on this machine.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::Response,
};
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};
use thiserror::Error;

use super::ApiError;

/// The keys that open a server; without any, everybody may come in.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

/// An empty key would be no key: a server that looks locked and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a key must not be empty")]
pub struct EmptyKey;

impl Keys {
    /// Only hashes are kept.
    pub fn new(keys: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, EmptyKey> {
        let digest = |key: &str| match key.trim() {
            "" => Err(EmptyKey),
            key => Ok(Sha256::digest(key).into()),
        };
        keys.into_iter().map(|key| digest(key.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether everybody may come in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these headers bring a key.
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        self.which(headers).is_some()
    }

    /// Which key these headers bring. How long the answer takes tells nothing of the keys: hashes
    /// are compared, all of them, to the end.
    pub fn which(&self, headers: &HeaderMap) -> Option<usize> {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.split_once(' '));
        // The scheme's name has no case (RFC 9110, 11.1).
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let digest: [u8; 32] = Sha256::digest(given.map_or("", |(_, key)| key.trim())).into();
        let numbered = self.0.iter().zip(1u64..);
        let found = numbered.fold(0u64, |found, (key, number)| {
            u64::conditional_select(&found, &number, key.ct_eq(&digest))
        });
        usize::try_from(found).ok()?.checked_sub(1)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

#[derive(Clone, Debug)]
pub struct Access {
    /// Keys, one of which every request must bring, if there are any.
    pub keys: Keys,
    pub loopback: bool,
    /// The code of the error for whoever brings no key.
    pub no_key: &'static str,
}

pub async fn check_key(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if access.keys.is_empty() || access.keys.admit(request.headers()) {
        return Ok(next.run(request).await);
    }
    let message = "a valid API key is needed: Authorization: Bearer KEY";
    Err(ApiError::new(StatusCode::UNAUTHORIZED, message).code(access.no_key))
}

/// A page of somebody else's may have its own name point to this machine, and would then be of the
/// same origin. Where anybody on this machine is let in, the name must be this machine's own.
pub async fn check_host(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let guarded = access.loopback && access.keys.is_empty();
    // A name that is no text is not this machine's either.
    let host = request.headers().get(header::HOST);
    if !guarded || host.is_none_or(|host| host.to_str().is_ok_and(is_local)) {
        return Ok(next.run(request).await);
    }
    let message =
        "this server is for its own machine: use http://localhost, or start it with a key";
    Err(ApiError::new(StatusCode::FORBIDDEN, message).code("wrong_host"))
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let ip = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_whole_keys_open() {
        let keys = Keys::new(["sesame", "other"]).unwrap();
        let admits = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            keys.admit(&headers)
        };
        assert!(admits("Bearer sesame") && admits("bearer other") && admits("BEARER other"));
        for wrong in ["Bearer ", "Bearer sesam", "Bearer sesame2", "sesame", "Basic sesame", ""] {
            assert!(!admits(wrong), "{wrong}");
        }
        assert!(!keys.admit(&HeaderMap::new()));
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer other"));
        assert_eq!(keys.which(&headers), Some(1));
        assert!(!format!("{keys:?}").contains("sesame"));
    }

    #[test]
    fn a_key_is_never_empty() {
        for keys in [vec![""], vec!["sesame", ""], vec!["  "]] {
            assert_eq!(Keys::new(&keys).unwrap_err(), EmptyKey, "{keys:?}");
        }
        assert!(Keys::new([""; 0]).unwrap().is_empty());
    }

    #[test]
    fn names_of_this_machine() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8080", "10.0.0.1:80", "[::2]:80", ""] {
            assert!(!is_local(host), "{host}");
        }
    }
}
