//! Who may use a server: whoever has a key, or anybody on this machine.

use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

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

/// The keys that open a server; without any, everybody may come in. Copies share them, so that all
/// parts of a server know at once when others take their place.
#[derive(Clone, Default)]
pub struct Keys(Arc<RwLock<Ring>>);

#[derive(Default)]
struct Ring {
    /// Hashes, each with its number: what a key has used and what its caches hold are known by that.
    keys: Vec<([u8; 32], u64)>,
    /// The number of the next key that is new.
    next: u64,
}

/// An empty key would be no key: a server that looks locked and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a key must not be empty")]
pub struct EmptyKey;

impl Keys {
    /// Only hashes are kept.
    pub fn new(keys: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, EmptyKey> {
        let digest = |key: &str| match key.trim() {
            "" => Err(EmptyKey),
            key => Ok(<[u8; 32]>::from(Sha256::digest(key))),
        };
        let digests = keys.into_iter().map(|key| digest(key.as_ref()));
        let keys: Vec<_> = digests.collect::<Result<Vec<_>, _>>()?.into_iter().zip(0..).collect();
        let next = keys.len() as u64;
        Ok(Self(Arc::new(RwLock::new(Ring { keys, next }))))
    }

    /// Lets in whoever has one of these keys from now on, and nobody else. A key that stays keeps its
    /// number, and one that is new never gets that of another.
    pub fn replace(&self, others: &Self) {
        if Arc::ptr_eq(&self.0, &others.0) {
            return;
        }
        let others: Vec<[u8; 32]> = others.ring().keys.iter().map(|(digest, _)| *digest).collect();
        let mut ring = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = ring.next;
        let numbered = others.into_iter().map(|digest| {
            let known = ring.keys.iter().find(|(known, _)| *known == digest);
            let number = known.map_or(next, |(_, number)| *number);
            next = next.max(number + 1);
            (digest, number)
        });
        let keys = numbered.collect();
        *ring = Ring { keys, next };
    }

    fn ring(&self) -> RwLockReadGuard<'_, Ring> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everybody may come in.
    pub fn is_empty(&self) -> bool {
        self.ring().keys.is_empty()
    }

    /// Whether these headers bring a key.
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        self.which(headers).is_some()
    }

    /// The number of the key that these headers bring. How long the answer takes tells nothing of the
    /// keys: hashes are compared, all of them, to the end.
    pub fn which(&self, headers: &HeaderMap) -> Option<usize> {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.split_once(' '));
        // The scheme's name has no case (RFC 9110, 11.1).
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let digest: [u8; 32] = Sha256::digest(given.map_or("", |(_, key)| key.trim())).into();
        let found = self.ring().keys.iter().fold(0u64, |found, (key, number)| {
            u64::conditional_select(&found, &(number + 1), key.ct_eq(&digest))
        });
        usize::try_from(found).ok()?.checked_sub(1)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.ring().keys.len())
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
    fn keys_are_replaced_in_every_copy_and_keep_their_numbers() {
        let keys = Keys::new(["one", "two"]).unwrap();
        let copy = keys.clone();
        let which = |key: &str| {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
            headers.insert(header::AUTHORIZATION, value);
            copy.which(&headers)
        };
        assert_eq!((which("one"), which("two")), (Some(0), Some(1)));
        keys.replace(&Keys::new(["three", "two"]).unwrap());
        assert_eq!((which("one"), which("two"), which("three")), (None, Some(1), Some(2)));
        // Who comes back is somebody new: what the first one left is not theirs.
        keys.replace(&Keys::new(["one", "three"]).unwrap());
        assert_eq!((which("one"), which("two"), which("three")), (Some(3), None, Some(2)));
        keys.replace(&copy);
        assert_eq!(which("one"), Some(3));
        keys.replace(&Keys::default());
        assert!(copy.is_empty());
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
