//! Who may use the server, and what browsers are told.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use ::tandem::Pair;

use super::{
    Server,
    config::{Config, Cors},
    error::ApiError,
};

/// The keys that open the server.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    /// Empty ones are left out.
    pub fn new(keys: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let keys = keys.into_iter().filter(|key| !key.as_ref().is_empty());
        Self(keys.map(|key| Sha256::digest(key.as_ref()).into()).collect())
    }

    /// Whether everybody may come in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long it takes tells nothing of the keys: hashes are compared, all of them, to the end.
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let digest: [u8; 32] = Sha256::digest(given.map_or("", |(_, key)| key.trim())).into();
        let none = subtle::Choice::from(0);
        self.0.iter().fold(none, |any, key| any | key.ct_eq(&digest)).into()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// Refuses whoever brings no valid key.
pub async fn check_key<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let keys = &server.config.keys;
    if keys.is_empty() || keys.admit(request.headers()) {
        return Ok(next.run(request).await);
    }
    let message = "a valid API key is needed: Authorization: Bearer KEY";
    Err(ApiError::new(StatusCode::UNAUTHORIZED, message).code("invalid_api_key"))
}

/// A page of somebody else's may have its own name point to this machine, and would then be of the
/// same origin. Where anybody on this machine is let in, the name must be this machine's own.
pub async fn check_host<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Config { keys, loopback, .. } = &server.config;
    let guarded = *loopback && keys.is_empty();
    let host = request.headers().get(header::HOST).and_then(|v| v.to_str().ok());
    if !guarded || host.is_none_or(is_local) {
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

/// What every answer tells browsers: nothing is to be guessed, framed, or fetched from elsewhere.
pub async fn security_headers(request: Request, next: Next) -> Response {
    const HEADERS: [(HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Pages of others, where they are let in.
pub fn cors(cors: &Cors) -> Option<CorsLayer> {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE]);
    match cors {
        Cors::Off => None,
        Cors::Any => Some(layer.allow_origin(Any).allow_headers(Any)),
        Cors::Origins(origins) => Some(layer.allow_origin(AllowOrigin::list(origins.clone()))),
    }
}

/// A wrong address or method, in the same shape as any other error.
pub async fn nothing_here() -> Response {
    ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this address").into_response()
}

/// As above.
pub async fn wrong_method() -> Response {
    let message = "this address does not take that method";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_keys_open() {
        let keys = Keys::new(["sesame", "", "other"]);
        let admits = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            keys.admit(&headers)
        };
        assert!(admits("Bearer sesame") && admits("bearer other"));
        for wrong in ["Bearer ", "Bearer sesam", "Bearer sesame2", "sesame", "Basic sesame", ""] {
            assert!(!admits(wrong), "{wrong}");
        }
        assert!(!keys.admit(&HeaderMap::new()));
        assert!(!format!("{keys:?}").contains("sesame"));
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
