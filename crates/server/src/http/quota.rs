//! What each key may use in a minute: requests, and tokens of the cloud.
//!
//! A quota is a bucket that fills evenly and holds a minute's worth. A request takes one from the
//! first bucket before it is read; tokens are taken from the second when a text is over, because
//! nobody knows them before, and a bucket below zero lets nobody in until it is filled again.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use tokio::time::Instant;

use super::{ApiError, Keys};

const MINUTE: Duration = Duration::from_secs(60);

/// Which key a request came with; all requests without one are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyId(pub usize);

tokio::task_local! {
    static CALLER: KeyId;
}

/// The key of the request that this task answers.
pub fn caller() -> KeyId {
    CALLER.try_with(|key| *key).unwrap_or_default()
}

/// What a key may use in a minute; `None` for no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    pub requests: Option<u32>,
    pub cloud_tokens: Option<u32>,
}

/// What every key has left.
#[derive(Debug, Default)]
pub struct Quotas {
    quota: RwLock<Quota>,
    left: Mutex<HashMap<KeyId, Remaining>>,
}

#[derive(Clone, Copy, Debug)]
struct Remaining {
    requests: f64,
    cloud_tokens: f64,
    at: Instant,
}

impl Quotas {
    pub fn new(quota: Quota) -> Self {
        Self { quota: RwLock::new(quota), left: Mutex::default() }
    }

    /// Holds every key to another quota from now on; what it has left of this minute is at most that.
    pub fn replace(&self, quota: Quota) {
        *self.quota.write().unwrap_or_else(PoisonError::into_inner) = quota;
    }

    fn quota(&self) -> Quota {
        *self.quota.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request; or how long to wait, and for what.
    fn admit(&self, key: KeyId, now: Instant) -> Result<(), (Duration, &'static str)> {
        let Quota { requests, cloud_tokens } = self.quota();
        self.with(key, now, |left| {
            if let Some(most) = cloud_tokens.filter(|_| left.cloud_tokens <= 0.0) {
                return Err((refill(1.0 - left.cloud_tokens, most), "tokens of the cloud"));
            }
            if let Some(most) = requests.filter(|_| left.requests < 1.0) {
                return Err((refill(1.0 - left.requests, most), "requests"));
            }
            left.requests -= 1.0;
            Ok(())
        })
    }

    /// Tokens that a text of this key had from the cloud.
    pub fn charge(&self, key: KeyId, cloud_tokens: usize) {
        self.charge_at(key, cloud_tokens, Instant::now());
    }

    fn charge_at(&self, key: KeyId, cloud_tokens: usize, now: Instant) {
        self.with(key, now, |left| left.cloud_tokens -= cloud_tokens as f64);
    }

    fn with<T>(&self, key: KeyId, now: Instant, act: impl FnOnce(&mut Remaining) -> T) -> T {
        let full = |most: Option<u32>| f64::from(most.unwrap_or(u32::MAX));
        let quota = self.quota();
        let (requests, cloud_tokens) = (full(quota.requests), full(quota.cloud_tokens));
        let mut table = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = table.entry(key).or_insert(Remaining { requests, cloud_tokens, at: now });
        let passed = now.saturating_duration_since(left.at).as_secs_f64() / MINUTE.as_secs_f64();
        left.requests = (left.requests + passed * requests).min(requests);
        left.cloud_tokens = (left.cloud_tokens + passed * cloud_tokens).min(cloud_tokens);
        left.at = now;
        act(left)
    }
}

/// How long a bucket that holds `most` takes to get this much.
fn refill(missing: f64, most: u32) -> Duration {
    MINUTE.mul_f64(missing / f64::from(most.max(1)))
}

/// What the middleware needs.
#[derive(Clone, Debug)]
pub struct QuotaCheck {
    pub keys: Keys,
    pub quotas: Arc<Quotas>,
}

/// Lets a request in that its key may still make, and remembers whose it is. Only what has a body is
/// work for the models.
pub async fn check_quota(
    State(check): State<QuotaCheck>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let key = check.keys.which(request.headers()).map_or_else(KeyId::default, |i| KeyId(i + 1));
    if request.method() == Method::POST
        && let Err((pause, what)) = check.quotas.admit(key, Instant::now())
    {
        let message = format!("this key has no {what} left for now: try again later");
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
        // Rounded up: who comes back too early is refused again.
        let pause = Duration::from_secs(pause.as_secs_f64().ceil() as u64);
        return Err(error.code("rate_limit_exceeded").retry_after(pause));
    }
    Ok(as_caller(key, next.run(request)).await)
}

/// Runs what answers a request of this key.
async fn as_caller<T>(key: KeyId, work: impl Future<Output = T>) -> T {
    CALLER.scope(key, work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_evenly() {
        let quotas = Quotas::new(Quota { requests: Some(6), cloud_tokens: None });
        let start = Instant::now();
        let (one, other) = (KeyId(1), KeyId(2));
        for _ in 0..6 {
            quotas.admit(one, start).unwrap();
        }
        let (pause, what) = quotas.admit(one, start).unwrap_err();
        assert_eq!((pause.as_secs(), what), (10, "requests"));
        // Another key has its own.
        quotas.admit(other, start).unwrap();
        let later = start + Duration::from_secs(11);
        quotas.admit(one, later).unwrap();
        assert!(quotas.admit(one, later).is_err());
        // It holds a minute's worth and no more.
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| quotas.admit(one, much_later).is_ok()).count(), 6);
    }

    #[test]
    fn another_quota_holds_at_once() {
        let quotas = Quotas::new(Quota::default());
        let (key, now) = (KeyId(1), Instant::now());
        assert!((0..100).all(|_| quotas.admit(key, now).is_ok()));
        quotas.replace(Quota { requests: Some(2), cloud_tokens: None });
        assert_eq!((0..100).filter(|_| quotas.admit(key, now).is_ok()).count(), 2);
        quotas.replace(Quota::default());
        assert!(quotas.admit(key, now + MINUTE).is_ok());
    }

    #[test]
    fn tokens_are_charged_afterwards_and_waited_for() {
        let quotas = Quotas::new(Quota { requests: None, cloud_tokens: Some(60) });
        let (key, start) = (KeyId(1), Instant::now());
        quotas.admit(key, start).unwrap();
        quotas.charge_at(key, 90, start);
        let (pause, what) = quotas.admit(key, start).unwrap_err();
        assert_eq!((pause.as_secs(), what), (31, "tokens of the cloud"));
        quotas.admit(key, start + pause).unwrap();
    }

    #[tokio::test]
    async fn a_task_knows_whose_request_it_answers() {
        assert_eq!(caller(), KeyId::default());
        assert_eq!(as_caller(KeyId(3), async { caller() }).await, KeyId(3));
    }
}
