//! A cloud, whoever it is and wherever: found out at the first need, asked within a deadline,
//! left alone while it fails.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use decode::{Answer, Ask, Cloud, CloudError, Exchange, Handshake, OnCloudError, Sent, Step};
use tokio::time::{sleep, timeout};

use crate::{
    Delay, Endpoint, Match, Opening,
    breaker::Breaker,
    conversation::Conversation,
    engine::{Engine, EngineInfo},
    http::{Http, SentLog},
    probe::probe,
    protocol::{EdgeModel, Piece, ScoredToken},
    service::Service,
    tandem::TandemClient,
    transport::{HERE, Transport},
};

/// How long after a lost connection the same question is asked once more. Asks may be repeated:
/// they change nothing on the other side but its cache.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// How long to wait at least before a cloud is tried again, where the text waits for it.
const WAIT_RETRY_DELAY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub enum Target {
    Http(Endpoint),
    InProcess(Arc<Service>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(endpoint) => endpoint.address.fmt(f),
            Self::InProcess(_) => f.write_str(HERE),
        }
    }
}

/// How a cloud is reached and treated.
#[derive(Clone, Debug)]
pub struct Settings {
    pub target: Target,
    pub engine: Option<Engine>,
    /// Which of its models, if it has several.
    pub model: Option<String>,
    pub deadline: Duration,
    pub on_error: OnCloudError,
    /// The longest time that a text waits for a cloud that fails, where it waits; `None` for ever.
    pub max_wait: Option<Duration>,
    /// A network to simulate.
    pub delay: Option<Delay>,
}

impl Settings {
    /// How long an ask may take unless told otherwise: a long prompt on a slow machine takes a
    /// minute or two to read.
    pub const DEADLINE: Duration = Duration::from_secs(120);

    /// A cloud at an address; everything else as usual.
    pub fn new(endpoint: Endpoint) -> Self {
        Self::at(Target::Http(endpoint))
    }

    /// A cloud in this process; everything else as usual.
    pub fn in_process(service: Arc<Service>) -> Self {
        Self { engine: Some(Engine::Tandem), ..Self::at(Target::InProcess(service)) }
    }

    fn at(target: Target) -> Self {
        Self {
            target,
            engine: None,
            model: None,
            deadline: Self::DEADLINE,
            on_error: OnCloudError::Keep,
            max_wait: None,
            delay: None,
        }
    }
}

/// A client in the language of whoever answers.
#[derive(Debug)]
pub(crate) enum Client {
    Tandem(Box<TandemClient>),
    Engine(Box<Conversation>),
}

/// What is known of a cloud once it has answered.
#[derive(Clone, Debug)]
pub struct Introduction {
    pub engine: Engine,
    pub about: EngineInfo,
    /// What it has in common with the edge; `None` for Tandem's own cloud, which compares
    /// fingerprints when a session is opened.
    pub matched: Option<Match>,
}

/// A conversation with a cloud. Nothing is sent before it is opened.
#[derive(Debug)]
pub struct Remote {
    /// `None` where no cloud may be asked.
    connection: Option<(Settings, Transport)>,
    opening: Opening,
    client: Option<Client>,
    /// What travels, once a conversation is open.
    exchange: Option<Exchange>,
    breaker: Breaker,
    /// Since when the text waits for a cloud that fails.
    waiting: Option<Instant>,
    asks: usize,
    /// The edge, if its states are offered to a cloud that collects.
    shares: Option<EdgeModel>,
}

impl Remote {
    pub fn new(settings: Settings, opening: Opening) -> Result<Self, CloudError> {
        let transport = match &settings.target {
            Target::Http(endpoint) => Transport::Http(Http::new(endpoint, "a cloud")?),
            Target::InProcess(service) => Transport::InProcess(service.clone(), SentLog::default()),
        };
        Ok(Self { connection: Some((settings, transport)), ..Self::offline(opening) })
    }

    /// No cloud at all: every ask fails, and no socket is ever opened.
    pub fn offline(opening: Opening) -> Self {
        let breaker = Breaker::default();
        let (client, exchange, shares) = (None, None, None);
        Self {
            connection: None,
            opening,
            client,
            exchange,
            breaker,
            waiting: None,
            asks: 0,
            shares,
        }
    }

    /// Offers what this edge sees to a cloud that collects. Nothing of it is sent to any other.
    pub fn share(&mut self, edge: EdgeModel) {
        if let Some(Client::Tandem(client)) = &mut self.client {
            client.share(edge.clone());
        }
        self.shares = Some(edge);
    }

    /// Goes on with another conversation: what its beginning shares with this one is not read
    /// again.
    pub fn reopen(&mut self, opening: Opening) {
        self.exchange = None;
        self.opening = opening.clone();
        match &mut self.client {
            Some(Client::Tandem(client)) => client.reopen(opening),
            Some(Client::Engine(client)) => client.reopen(opening),
            None => {}
        }
    }

    /// Tells the cloud that the conversation is over.
    pub async fn close(&mut self) {
        self.exchange = None;
        match &mut self.client {
            Some(Client::Tandem(client)) => client.close().await,
            Some(Client::Engine(client)) => client.close().await,
            None => {}
        }
    }

    pub fn simulate_network(&mut self, delay: Option<Delay>) {
        if let Some((settings, _)) = &mut self.connection {
            settings.delay = delay;
        }
    }

    pub fn set_on_error(&mut self, on_error: OnCloudError) {
        if let Some((settings, _)) = &mut self.connection {
            settings.on_error = on_error;
        }
    }

    /// Who answers, and what it has in common with the edge.
    pub async fn meet(&mut self) -> Result<Introduction, CloudError> {
        match self.client().await? {
            Client::Tandem(client) => {
                let health = client.health().await?;
                let about = EngineInfo {
                    version: Some(health.version),
                    footprint: health.footprint,
                    ..EngineInfo::default()
                };
                Ok(Introduction { engine: Engine::Tandem, about, matched: None })
            }
            Client::Engine(client) => {
                let matched = client.compare().await?;
                let (engine, about) = (client.connection.dialect.engine(), client.about.clone());
                Ok(Introduction { engine, about, matched })
            }
        }
    }

    /// One way there and back, with as little to do at the other end as there is.
    pub async fn ping(&mut self) -> Result<Duration, CloudError> {
        let path = match self.client().await? {
            Client::Tandem(_) => "/health",
            Client::Engine(client) => match client.connection.dialect.engine() {
                Engine::LlamaServer | Engine::Vllm | Engine::Tandem => "/health",
                // Its health check writes a token.
                Engine::Sglang => "/model_info",
                Engine::OpenAi => "/v1/models",
            },
        };
        let (settings, transport) = self.connection.as_ref().ok_or(CloudError::Offline)?;
        let started = Instant::now();
        if let Some(delay) = settings.delay {
            sleep(delay.of(self.asks)).await;
        }
        self.asks += 1;
        transport.ping(path, settings.deadline).await?;
        Ok(started.elapsed())
    }

    /// What the cloud thinks of a continuation, for every token of it, in one prefill. `accepted`
    /// is what stands before it.
    pub async fn score(
        &mut self,
        accepted: Ask<'_>,
        continuation: Piece,
    ) -> Result<Vec<ScoredToken>, CloudError> {
        let deadline = self.settings()?.deadline;
        match (self.client().await?, continuation) {
            (Client::Tandem(client), piece) => client.score(&accepted, piece, deadline).await,
            (Client::Engine(client), Piece::Ids(ids)) => {
                client.score(accepted.tokens, &ids, deadline).await
            }
            (Client::Engine(client), Piece::Text(_)) => Err(CloudError::Unsupported {
                engine: client.connection.dialect.engine().title(),
                what: "can label only where ids travel",
            }),
        }
    }

    fn settings(&self) -> Result<&Settings, CloudError> {
        self.connection.as_ref().map(|(settings, _)| settings).ok_or(CloudError::Offline)
    }

    async fn client(&mut self) -> Result<&mut Client, CloudError> {
        let (settings, transport) = self.connection.as_ref().ok_or(CloudError::Offline)?;
        if self.client.is_none() {
            let opening = self.opening.clone();
            let mut client = match transport {
                Transport::Http(http) => {
                    probe(http, settings.engine, settings.model.as_deref(), opening).await?
                }
                Transport::InProcess(..) => {
                    Client::Tandem(Box::new(TandemClient::new(transport.clone(), opening)))
                }
            };
            match (&mut client, &self.shares) {
                (Client::Tandem(client), Some(edge)) => client.share(edge.clone()),
                (Client::Engine(client), Some(_)) => {
                    let engine = client.connection.dialect.engine().title();
                    tracing::warn!(
                        "{engine} takes no hidden states, and none are sent: only `tandem cloud \
                         --collect` does"
                    );
                }
                (_, None) => {}
            }
            self.client = Some(client);
        }
        self.client.as_mut().ok_or(CloudError::NotOpened)
    }

    /// Opens within the deadline of an ask. A model in this process may take longer: it is loaded
    /// here.
    async fn try_open(&mut self) -> Result<Handshake, CloudError> {
        let (settings, transport) = self.connection.as_ref().ok_or(CloudError::Offline)?;
        let (after, url) = (settings.deadline, settings.target.to_string());
        let is_remote = matches!(transport, Transport::Http(_));
        let opening = async {
            match self.client().await? {
                Client::Tandem(client) => client.open().await,
                Client::Engine(client) => client.open().await,
            }
        };
        let opened = if is_remote {
            timeout(after, opening).await.unwrap_or(Err(CloudError::TimedOut { url, after }))?
        } else {
            opening.await?
        };
        self.exchange = Some(opened.exchange);
        Ok(opened)
    }

    /// One ask within its deadline, over the network as it is or as it is pretended to be.
    async fn try_next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let settings = self.settings()?;
        let (after, url) = (settings.deadline, settings.target.to_string());
        let delay = settings.delay.map(|delay| delay.of(self.asks));
        self.asks += 1;
        let answer = async {
            let Some(delay) = delay else { return self.ask_twice(ask, after).await };
            sleep(delay).await;
            let mut answer = self.ask_twice(ask, after).await?;
            answer.times.network += delay;
            Ok(answer)
        };
        timeout(after, answer).await.unwrap_or(Err(CloudError::TimedOut { url, after }))
    }

    async fn ask_twice(&mut self, ask: Ask<'_>, within: Duration) -> Result<Answer, CloudError> {
        match self.ask_once(ask, within).await {
            // A kept-alive connection that the other side closed meanwhile looks like this.
            Err(CloudError::Unreachable { .. }) => {
                sleep(RETRY_DELAY).await;
                self.ask_once(ask, within).await
            }
            other => other,
        }
    }

    async fn ask_once(&mut self, ask: Ask<'_>, within: Duration) -> Result<Answer, CloudError> {
        if !self.is_open() {
            self.meet_again().await?;
        } else if self.breaker.is_probing() {
            self.ping().await?;
        }
        let answer = match self.client().await? {
            Client::Tandem(client) => client.next(ask, within).await,
            Client::Engine(client) => client.next(ask, within).await,
        };
        // Whoever answers next at this address may be somebody else.
        let changed = matches!(
            &answer,
            Err(CloudError::Unreachable { .. } | CloudError::Refused { status: 403 | 404, .. })
        );
        if changed && matches!(self.client, Some(Client::Engine(_))) {
            self.client = None;
        }
        answer
    }

    /// Whether there is somebody who knows the conversation; Tandem's own client sees to that
    /// itself.
    fn is_open(&self) -> bool {
        match &self.client {
            Some(Client::Tandem(_)) => true,
            Some(Client::Engine(client)) => client.is_open(),
            None => false,
        }
    }

    /// Opens the conversation again with whoever answers now. What travels must be what travelled
    /// before: ids of another vocabulary would pass for ours.
    async fn meet_again(&mut self) -> Result<(), CloudError> {
        let before = self.exchange;
        let opened = self.try_open().await?;
        if before == Some(opened.exchange) {
            return Ok(());
        }
        (self.client, self.exchange) = (None, before);
        let message = "it came back with another vocabulary".into();
        Err(CloudError::Refused { status: 409, message, retry_after: None })
    }

    /// Passes, waits or refuses, as the breaker and the user will have it.
    async fn admit(&mut self) -> Result<(), CloudError> {
        loop {
            match self.breaker.admit(Instant::now()) {
                Err(error @ CloudError::CircuitOpen { left, .. }) => match self.patience() {
                    Some(patience) => sleep(left.min(patience)).await,
                    None => return Err(error),
                },
                other => return other,
            }
        }
    }

    /// How much longer the text waits for a cloud that fails; `None` if it does not, or no more.
    fn patience(&mut self) -> Option<Duration> {
        let settings = self.settings().ok()?;
        let (patient, most) = (settings.on_error == OnCloudError::Wait, settings.max_wait);
        let waited = self.waiting.get_or_insert_with(Instant::now).elapsed();
        let left = most.map_or(Duration::MAX, |most| most.saturating_sub(waited));
        (patient && !left.is_zero()).then_some(left)
    }

    /// Tells the breaker; gives back what is final.
    async fn settle<T>(&mut self, tried: Result<T, CloudError>) -> Option<Result<T, CloudError>> {
        let error = match tried {
            Ok(answer) => {
                self.breaker.succeeded();
                self.waiting = None;
                return Some(Ok(answer));
            }
            Err(error) => error,
        };
        if error.is_outage() {
            self.breaker.failed(Instant::now(), &error);
        }
        if error.is_temporary()
            && let Some(patience) = self.patience()
        {
            tracing::warn!("waiting for the cloud: {error}");
            sleep(WAIT_RETRY_DELAY.min(patience)).await;
            return None;
        }
        // The next ask may wait as long as this one did.
        self.waiting = None;
        Some(Err(error))
    }
}

impl Cloud for Remote {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        loop {
            self.admit().await?;
            let tried = self.try_open().await;
            if let Some(opened) = self.settle(tried).await {
                return opened;
            }
        }
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        if self.exchange.is_none() {
            return Err(CloudError::NotOpened);
        }
        loop {
            self.admit().await?;
            let tried = self.try_next(ask).await;
            if let Some(answer) = self.settle(tried).await {
                return answer;
            }
        }
    }

    fn record_step(&mut self, step: &Step) {
        if let Some(Client::Tandem(client)) = &mut self.client {
            client.record_step(step);
        }
    }

    fn take_sent(&mut self) -> Sent {
        self.connection.as_ref().map(|(_, transport)| transport.sent().take()).unwrap_or_default()
    }
}
