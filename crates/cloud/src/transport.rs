//! How Tandem's own cloud is reached: over HTTP, or by a call in the same process.

use std::{sync::Arc, time::Duration};

use decode::CloudError;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::{
    connection::SIDE_REQUEST_TIMEOUT,
    delay::Network,
    http::{Http, SentLog},
    protocol::{
        ErrorResponse, Health, NextRequest, NextResponse, OpenRequest, OpenResponse, ScoreRequest,
        ScoreResponse, code,
    },
    service::{Service, ServiceError},
};

/// What messages call a cloud that has no address.
pub(crate) const HERE: &str = "this process";

/// A way to a cloud. Clones share the account of what was sent.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Http(Http),
    /// A service that is called directly: nothing is serialised, and nothing leaves the device, but
    /// the words the service was given are told all the same.
    InProcess(Arc<Service>, SentLog, Network),
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, SessionFailure> {
    match timeout(limit, call).await {
        Ok(answer) => answer.map_err(SessionFailure::from),
        Err(_) => Err(CloudError::TimedOut { url: HERE.into(), after: limit }.into()),
    }
}

impl Transport {
    pub fn sent(&self) -> &SentLog {
        match self {
            Self::Http(http) => &http.sent,
            Self::InProcess(_, sent, _) => sent,
        }
    }

    /// The network that requests pass through.
    pub fn network(&self) -> &Network {
        match self {
            Self::Http(http) => &http.network,
            Self::InProcess(_, _, network) => network,
        }
    }

    pub async fn health(&self) -> Result<Health, CloudError> {
        match self {
            Self::Http(http) => http.read(&http.get("/health", SIDE_REQUEST_TIMEOUT).await?),
            Self::InProcess(service, _, network) => {
                network.wait().await;
                Ok(service.health())
            }
        }
    }

    /// One way there and back; `path` is where a server has as little to do as possible.
    pub async fn ping(&self, path: &str, within: Duration) -> Result<(), CloudError> {
        match self {
            Self::Http(http) => {
                let reply = http.get(path, within.min(SIDE_REQUEST_TIMEOUT)).await?;
                if reply.is_good() { Ok(()) } else { Err(http.refusal(&reply)) }
            }
            Self::InProcess(..) => self.health().await.map(drop),
        }
    }

    pub async fn open(
        &self,
        open: OpenRequest,
        limit: Duration,
    ) -> Result<OpenResponse, SessionFailure> {
        match self {
            Self::Http(http) => post(http, "/v1/sessions", &open, limit).await,
            Self::InProcess(service, _, network) => {
                network.wait().await;
                within(limit, service.open(open)).await
            }
        }
    }

    pub async fn next(
        &self,
        id: &str,
        next: NextRequest,
        limit: Duration,
    ) -> Result<NextResponse, SessionFailure> {
        match self {
            Self::Http(http) => post(http, &format!("/v1/sessions/{id}/next"), &next, limit).await,
            Self::InProcess(service, _, network) => {
                network.wait().await;
                within(limit, service.next(id, next)).await
            }
        }
    }

    pub async fn score(
        &self,
        id: &str,
        score: ScoreRequest,
        limit: Duration,
    ) -> Result<ScoreResponse, SessionFailure> {
        match self {
            Self::Http(http) => {
                post(http, &format!("/v1/sessions/{id}/score"), &score, limit).await
            }
            Self::InProcess(service, _, network) => {
                network.wait().await;
                within(limit, service.score(id, score)).await
            }
        }
    }

    /// Whether the session is forgotten now or evicted later matters to nobody here.
    pub async fn close(&self, id: &str) {
        match self {
            Self::Http(http) => http.delete(&format!("/v1/sessions/{id}")).await,
            Self::InProcess(service, ..) => {
                if let Err(error) = service.close(id).await {
                    tracing::debug!(%error, "a session was not closed");
                }
            }
        }
    }
}

async fn post<T: DeserializeOwned>(
    http: &Http,
    path: &str,
    body: &impl Serialize,
    within: Duration,
) -> Result<T, SessionFailure> {
    let reply = http.post(path, body, within).await?;
    if !reply.is_good()
        && let Ok(ErrorResponse { error, .. }) = serde_json::from_slice(&reply.body)
    {
        let full = error.code == code::CONTEXT_FULL;
        let cloud_error = if full { CloudError::ContextFull } else { http.refusal(&reply) };
        return Err(SessionFailure { code: Some(error.code), error: cloud_error });
    }
    Ok(http.read(&reply)?)
}

/// What came back instead of an answer.
#[derive(Debug)]
pub(crate) struct SessionFailure {
    /// One of [`code`], where the service itself refused.
    pub code: Option<String>,
    /// What it means to whoever cannot mend it.
    pub error: CloudError,
}

impl From<CloudError> for SessionFailure {
    fn from(error: CloudError) -> Self {
        Self { code: None, error }
    }
}

impl From<ServiceError> for SessionFailure {
    fn from(error: ServiceError) -> Self {
        let cloud_error = match &error {
            ServiceError::ContextFull { .. } => CloudError::ContextFull,
            other => CloudError::Refused {
                status: other.status(),
                message: other.to_string(),
                retry_after: None,
            },
        };
        Self { code: Some(error.code().into()), error: cloud_error }
    }
}
