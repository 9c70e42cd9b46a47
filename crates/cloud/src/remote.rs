//! A cloud, whoever it is and wherever: found out at the first need, asked within a deadline,
//! left alone while it fails. `judge` has texts judged.

mod judge;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use decode::{
    Answer, Ask, Cloud, CloudError, Draft, Exchange, Handshake, Judgement, OnCloudError, Pending,
    PendingAnswer, Sent, Step,
};
use tokio::time::{sleep, timeout};

use crate::{
    CacheSalt, Delay, Match, Opening, RequestOrigin,
    ask::OwnedAsk,
    breaker::Breaker,
    conversation::Conversation,
    delay::Network,
    engine::{Engine, EngineInfo},
    http::{Http, SentLog},
    probe::probe,
    protocol::{EdgeModel, EdgeState, Piece},
    settings::{Settings, Target},
    tandem::TandemClient,
    transport::Transport,
    waiting::Waiting,
};

/// How long after a lost connection the same question is asked once more. Asks may be repeated:
/// they change nothing on the other side but its cache.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// How long to wait at least before a cloud is tried again, where the text waits for it.
const WAIT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// A client in the language of whoever answers.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    Tandem(TandemClient),
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

/// A conversation with a cloud. Nothing is sent before it is opened. Clones speak in the same
/// conversation: each ask that is on its way is one.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `None` where no cloud may be asked.
    connection: Option<(Settings, Transport)>,
    opening: Arc<Opening>,
    state: Arc<State>,
    breaker: Arc<Mutex<Breaker>>,
    /// The edge, if its states are offered to a cloud that collects.
    shares: Option<EdgeModel>,
    /// What it saw where the next ask is made.
    seen: Option<EdgeState>,
}

/// What is known of one conversation.
#[derive(Debug, Default)]
struct State {
    client: Mutex<Option<Client>>,
    /// What travels, once it is open.
    exchange: Mutex<Option<Exchange>>,
    /// Since when the text waits for a cloud that fails.
    waiting: Waiting,
    /// Held while it is opened again: asks that lost it together open it once.
    opening: tokio::sync::Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Remote {
    pub fn new(settings: Settings, opening: Opening) -> Result<Self, CloudError> {
        let transport = match &settings.target {
            Target::Http(endpoint) => Transport::Http(Http::new(endpoint, "a cloud")?),
            Target::InProcess(service) => {
                Transport::InProcess(service.clone(), SentLog::default(), Network::default())
            }
        };
        transport.network().simulate(settings.delay.clone());
        Ok(Self { connection: Some((settings, transport)), ..Self::offline(opening) })
    }

    /// No cloud at all: every ask fails, and no socket is ever opened.
    pub fn offline(opening: Opening) -> Self {
        let (opening, breaker) = (Arc::new(opening), Arc::default());
        Self { connection: None, opening, state: Arc::default(), breaker, shares: None, seen: None }
    }

    /// Shares what is known of the cloud's failures with other conversations.
    pub(crate) fn with_breaker(self, breaker: Arc<Mutex<Breaker>>) -> Self {
        Self { breaker, ..self }
    }

    /// What travels, once it is open.
    pub(crate) fn exchange(&self) -> Option<Exchange> {
        *lock(&self.state.exchange)
    }

    /// It was opened, and is not to be asked.
    pub(crate) fn forget_exchange(&self) {
        *lock(&self.state.exchange) = None;
    }

    /// What the edge saw where the next ask is made.
    pub(crate) fn take_seen(&mut self) -> Option<EdgeState> {
        self.seen.take()
    }

    /// Offers what this edge sees to a cloud that collects. Nothing of it is sent to any other.
    pub fn share(&mut self, edge: EdgeModel) {
        if let Some(Client::Tandem(client)) = &*lock(&self.state.client) {
            client.share(edge.clone());
        }
        self.shares = Some(edge);
    }

    /// Goes on with another conversation: what its beginning shares with this one is not read
    /// again. Asks of this one that are still on their way have nothing to do with it.
    pub fn reopen(&mut self, opening: Opening) {
        let opening = Arc::new(opening);
        let mut client = lock(&self.state.client).take();
        match &mut client {
            Some(Client::Tandem(client)) => client.reopen(opening.clone()),
            Some(Client::Engine(client)) => client.reopen(opening.clone()),
            None => {}
        }
        self.state = Arc::new(State { client: Mutex::new(client), ..State::default() });
        (self.opening, self.seen) = (opening, None);
    }

    /// Tells the cloud that the conversation is over.
    pub async fn close(&mut self) {
        *lock(&self.state.exchange) = None;
        match self.known_client() {
            Some(Client::Tandem(client)) => client.close().await,
            Some(Client::Engine(client)) => client.close().await,
            None => {}
        }
    }

    pub fn simulate_network(&mut self, delay: Option<Delay>) {
        // What failed on another network tells nothing of this one.
        lock(&self.breaker).succeeded();
        if let Some((settings, transport)) = &mut self.connection {
            settings.delay.clone_from(&delay);
            transport.network().simulate(delay);
        }
    }

    /// Keeps this conversation apart in an engine's cache from those with another salt.
    pub fn separate(&mut self, salt: Option<CacheSalt>) {
        if let Some(Client::Engine(client)) = &mut *lock(&self.state.client) {
            client.salt.clone_from(&salt);
        }
        if let Some((settings, _)) = &mut self.connection {
            settings.salt = salt;
        }
    }

    /// The cloud is asked for this request from now on, which is told with every call.
    pub fn set_origin(&self, origin: RequestOrigin) {
        if let Some((_, Transport::Http(http))) = &self.connection {
            http.set_origin(origin);
        }
    }

    pub fn set_on_error(&mut self, on_error: OnCloudError) {
        if let Some((settings, _)) = &mut self.connection {
            settings.on_error = on_error;
        }
    }

    /// Who answers, and what it has in common with the edge.
    pub async fn identify(&self) -> Result<Introduction, CloudError> {
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
    pub async fn ping(&self) -> Result<Duration, CloudError> {
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
        transport.ping(path, settings.deadline).await?;
        Ok(started.elapsed())
    }

    fn settings(&self) -> Result<&Settings, CloudError> {
        self.connection.as_ref().map(|(settings, _)| settings).ok_or(CloudError::Offline)
    }

    fn known_client(&self) -> Option<Client> {
        lock(&self.state.client).clone()
    }

    async fn client(&self) -> Result<Client, CloudError> {
        let (settings, transport) = self.connection.as_ref().ok_or(CloudError::Offline)?;
        if let Some(client) = self.known_client() {
            return Ok(client);
        }
        let opening = self.opening.clone();
        let client = match transport {
            Transport::Http(http) => probe(http, settings, opening).await?,
            Transport::InProcess(..) => {
                Client::Tandem(TandemClient::new(transport.clone(), opening))
            }
        };
        match (&client, &self.shares) {
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
        *lock(&self.state.client) = Some(client.clone());
        Ok(client)
    }

    /// Opens within the deadline of an ask. A model in this process may take longer: it is loaded
    /// here; unless nothing may get through to it for a while.
    async fn try_open(&self) -> Result<Handshake, CloudError> {
        let (settings, transport) = self.connection.as_ref().ok_or(CloudError::Offline)?;
        let (after, url) = (settings.deadline, settings.target.to_string());
        let is_remote = matches!(transport, Transport::Http(_));
        let goes_dead = settings.delay.as_ref().is_some_and(Delay::goes_dead);
        let opening = async {
            match self.client().await? {
                Client::Tandem(client) => client.open().await,
                Client::Engine(client) => client.open().await,
            }
        };
        let opened = if is_remote || goes_dead {
            timeout(after, opening).await.unwrap_or(Err(CloudError::TimedOut { url, after }))?
        } else {
            opening.await?
        };
        *lock(&self.state.exchange) = Some(opened.exchange);
        Ok(opened)
    }

    /// One ask within its deadline.
    async fn try_next(&self, ask: &OwnedAsk) -> Result<Answer, CloudError> {
        let settings = self.settings()?;
        let (after, url) = (settings.deadline, settings.target.to_string());
        let answer = timeout(after, self.ask_twice(ask, after)).await;
        answer.unwrap_or(Err(CloudError::TimedOut { url, after }))
    }

    async fn ask_twice(&self, ask: &OwnedAsk, within: Duration) -> Result<Answer, CloudError> {
        match self.ask_once(ask, within).await {
            // A kept-alive connection that the other side closed meanwhile looks like this.
            Err(CloudError::Unreachable { .. }) => {
                sleep(RETRY_DELAY).await;
                self.ask_once(ask, within).await
            }
            other => other,
        }
    }

    async fn ask_once(&self, ask: &OwnedAsk, within: Duration) -> Result<Answer, CloudError> {
        let probing = lock(&self.breaker).is_probing();
        if !self.is_open() {
            self.open_again().await?;
        } else if probing {
            self.ping().await?;
        }
        let client = self.client().await?;
        let answer = match &client {
            Client::Tandem(client) => client.next(ask, within).await,
            Client::Engine(client) => client.next(ask.as_ask(), within).await,
        };
        self.note_change(&client, &answer);
        answer
    }

    /// Whoever answers next at this address may be somebody else.
    fn note_change<T>(&self, client: &Client, answer: &Result<T, CloudError>) {
        let changed = matches!(
            answer,
            Err(CloudError::Unreachable { .. } | CloudError::Refused { status: 403 | 404, .. })
        );
        if changed && matches!(client, Client::Engine(_)) {
            *lock(&self.state.client) = None;
        }
    }

    /// Whether there is somebody who knows the conversation; Tandem's own client sees to that
    /// itself.
    fn is_open(&self) -> bool {
        match &*lock(&self.state.client) {
            Some(Client::Tandem(_)) => true,
            Some(Client::Engine(client)) => client.is_open(),
            None => false,
        }
    }

    /// Opens the conversation again with whoever answers now. What travels must be what travelled
    /// before: ids of another vocabulary would pass for ours.
    async fn open_again(&self) -> Result<(), CloudError> {
        let _opening = self.state.opening.lock().await;
        if self.is_open() {
            return Ok(());
        }
        let before = *lock(&self.state.exchange);
        let opened = self.try_open().await?;
        if before == Some(opened.exchange) {
            return Ok(());
        }
        *lock(&self.state.client) = None;
        *lock(&self.state.exchange) = before;
        let message = "it came back with another vocabulary".into();
        Err(CloudError::Refused { status: 409, message, retry_after: None })
    }

    /// Passes, waits or refuses, as the breaker and the user will have it.
    pub(crate) async fn admit(&self) -> Result<(), CloudError> {
        loop {
            let admitted = lock(&self.breaker).admit(Instant::now());
            match admitted {
                Err(error @ CloudError::CircuitOpen { left, .. }) => match self.wait_left() {
                    Some(wait_left) => sleep(left.min(wait_left)).await,
                    None => return Err(error),
                },
                other => return other,
            }
        }
    }

    /// How much longer the text waits for a cloud that fails; `None` if it does not, or no more.
    fn wait_left(&self) -> Option<Duration> {
        let settings = self.settings().ok()?;
        self.state.waiting.left(settings.on_error, settings.max_wait)
    }

    /// Tells the breaker; gives back what is final.
    async fn settle<T>(
        &self,
        begun: Instant,
        tried: Result<T, CloudError>,
    ) -> Option<Result<T, CloudError>> {
        let error = match tried {
            Ok(answer) => {
                lock(&self.breaker).succeeded();
                self.state.waiting.end();
                return Some(Ok(answer));
            }
            Err(error) => error,
        };
        if error.is_outage() {
            lock(&self.breaker).failed(begun, Instant::now(), &error);
        }
        if error.is_temporary()
            && let Some(wait_left) = self.wait_left()
        {
            tracing::warn!("waiting for the cloud: {error}");
            sleep(WAIT_RETRY_DELAY.min(wait_left)).await;
            return None;
        }
        self.state.waiting.end();
        Some(Err(error))
    }

    pub(crate) async fn open_patiently(&self) -> Result<Handshake, CloudError> {
        loop {
            self.admit().await?;
            let begun = Instant::now();
            let tried = self.try_open().await;
            if let Some(opened) = self.settle(begun, tried).await {
                return opened;
            }
        }
    }

    pub(crate) async fn answer(&self, ask: &OwnedAsk) -> Result<Answer, CloudError> {
        if lock(&self.state.exchange).is_none() {
            return Err(CloudError::NotOpened);
        }
        loop {
            self.admit().await?;
            let begun = Instant::now();
            let tried = self.try_next(ask).await;
            if let Some(answer) = self.settle(begun, tried).await {
                return answer;
            }
        }
    }
}

impl Cloud for Remote {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.open_patiently().await
    }

    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        let remote = self.clone();
        Some(Box::pin(async move { remote.open_patiently().await }))
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let ask = OwnedAsk::new(ask, self.seen.take());
        self.answer(&ask).await
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        let (remote, ask) = (self.clone(), OwnedAsk::new(ask, self.seen.take()));
        Some(Box::pin(async move { remote.answer(&ask).await }))
    }

    async fn judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Result<Judgement, CloudError> {
        self.judge_patiently(ask, &Piece::from(draft)).await
    }

    fn judges_asks(&self) -> bool {
        self.judges()
    }

    fn begin_judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Option<Pending<Judgement>> {
        let (remote, draft) = (self.clone(), Piece::from(draft));
        let ask = OwnedAsk::new(ask, None);
        Some(Box::pin(async move { remote.judge_patiently(ask.as_ask(), &draft).await }))
    }

    fn record_step(&mut self, step: &Step) {
        self.seen = match &*lock(&self.state.client) {
            Some(Client::Tandem(client)) => client.seen(step),
            _ => None,
        };
    }

    fn take_sent(&mut self) -> Sent {
        self.connection.as_ref().map(|(_, transport)| transport.sent().take()).unwrap_or_default()
    }
}
