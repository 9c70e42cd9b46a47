//! One caller of the cloud's service, over either transport, so that a test is written once.

use std::sync::Arc;

use cloud::{
    Address, Opening, Remote, Service, ServiceConfig, Settings,
    protocol::{
        ErrorResponse, Health, NextRequest, NextResponse, OpenRequest, OpenResponse, Prefix,
        Prompt, ScoreRequest, ScoreResponse,
    },
    service::{LazyModel, ServiceError},
};
use engine::LoadOptions;
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use tandem_server::cloud::Config;

use super::{compute, settings, start};

#[derive(Clone, Copy, Debug)]
pub enum Transport {
    Http,
    InProcess,
}

pub enum Peer {
    Http { client: Client, address: Address },
    InProcess(Arc<Service>),
}

/// A refusal as both transports tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub status: u16,
    pub code: String,
    pub message: String,
    pub have: Option<Prefix>,
}

impl Refused {
    pub fn is(&self, status: u16, code: &str) -> bool {
        (self.status, self.code.as_str()) == (status, code)
    }
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        let (status, code, message) = (error.status(), error.code().into(), error.to_string());
        let have = match error {
            ServiceError::Conflict { have, .. } => Some(have),
            _ => None,
        };
        Self { status, code, message, have }
    }
}

impl Peer {
    pub async fn new(transport: Transport, options: LoadOptions) -> Self {
        match transport {
            Transport::Http => {
                cloud::http::provide_cryptography();
                let client = Client::builder().no_proxy().build().unwrap();
                Self::Http { client, address: start(options, Config::default()).await }
            }
            Transport::InProcess => {
                let model = LazyModel::new(compute(), options);
                Self::InProcess(Arc::new(Service::new(model, ServiceConfig::default())))
            }
        }
    }

    /// How the program's own client reaches it.
    pub fn settings(&self) -> Settings {
        match self {
            Self::Http { address, .. } => settings(address),
            Self::InProcess(service) => Settings::in_process(service.clone()),
        }
    }

    /// The program's own client, without an edge.
    pub fn remote(&self, question: &str) -> Remote {
        let prompt = Prompt::Messages(super::messages(question));
        Remote::new(self.settings(), Opening::alone(prompt)).unwrap()
    }

    pub async fn open(&self, open: OpenRequest) -> Result<OpenResponse, Refused> {
        match self {
            Self::Http { .. } => self.send(self.post("/v1/sessions").json(&open)).await,
            Self::InProcess(service) => Ok(service.open(open).await?),
        }
    }

    pub async fn next(&self, id: &str, next: NextRequest) -> Result<NextResponse, Refused> {
        match self {
            Self::Http { .. } => {
                self.send(self.post(&format!("/v1/sessions/{id}/next")).json(&next)).await
            }
            Self::InProcess(service) => Ok(service.next(id, next).await?),
        }
    }

    pub async fn score(&self, id: &str, score: ScoreRequest) -> Result<ScoreResponse, Refused> {
        match self {
            Self::Http { .. } => {
                self.send(self.post(&format!("/v1/sessions/{id}/score")).json(&score)).await
            }
            Self::InProcess(service) => Ok(service.score(id, score).await?),
        }
    }

    pub async fn close(&self, id: &str) -> Result<(), Refused> {
        match self {
            Self::Http { client, address } => {
                let request = client.delete(format!("{address}/v1/sessions/{id}"));
                let response = request.send().await.unwrap();
                if response.status() == 204 {
                    return Ok(());
                }
                let status = response.status().as_u16();
                Err(refused(status, response.json().await.unwrap()))
            }
            Self::InProcess(service) => Ok(service.close(id).await?),
        }
    }

    pub async fn health(&self) -> Health {
        match self {
            Self::Http { client, address } => {
                self.send(client.get(format!("{address}/health"))).await.unwrap()
            }
            Self::InProcess(service) => service.health(),
        }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        let Self::Http { client, address } = self else { panic!("nothing is posted in process") };
        client.post(format!("{address}{path}"))
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Refused> {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        match status {
            200 => Ok(response.json().await.unwrap()),
            _ => Err(refused(status, response.json().await.unwrap())),
        }
    }
}

fn refused(status: u16, failure: ErrorResponse) -> Refused {
    let ErrorResponse { error, have } = failure;
    Refused { status, code: error.code, message: error.message, have }
}
