//! Several clouds as one: a conversation stays where its cache is, and the next cloud of the list takes
//! over, within the same ask, where that one fails.
//!
//! A new text begins at the first cloud that is well, so that a cloud which is back is used again. Which
//! cloud wrote an answer, and how often another took over, is told with the answer.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use decode::{
    Answer, Ask, Cloud, CloudError, Draft, Exchange, Handshake, Judgement, OnCloudError, Pending,
    PendingAnswer, Sent, Step, Usage,
};
use tokio::time::{sleep, timeout};

use crate::{
    CacheSalt, Delay, Introduction, Opening, Remote, RequestOrigin,
    ask::OwnedAsk,
    group::CloudGroup,
    protocol::{EdgeModel, Piece, ScoredToken},
    waiting::Waiting,
};

/// How long a text that waits for its clouds leaves them alone.
const WAIT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// A conversation with whichever of several clouds answers. With one cloud it is that cloud's.
#[derive(Clone, Debug)]
pub struct Clouds {
    group: Arc<CloudGroup>,
    /// The same conversation with each of them.
    remotes: Vec<Remote>,
    state: Arc<State>,
    on_error: OnCloudError,
}

/// What is known of one text. Asks that are on their way share it.
#[derive(Debug, Default)]
struct State {
    /// The cloud that has the conversation.
    current: AtomicUsize,
    /// How often another took over.
    failovers: AtomicUsize,
    /// What travels, once it is open.
    exchange: Mutex<Option<Exchange>>,
    waiting: Waiting,
    /// Held while a conversation is opened: asks that lost their cloud together open the next one once.
    opening: tokio::sync::Mutex<()>,
}

/// What is asked of a cloud, whichever it is.
enum Job<'a> {
    Open,
    Next(&'a OwnedAsk),
    Judge(Ask<'a>, &'a Piece),
}

enum Done {
    Opened(Handshake),
    Answered(Answer),
    Judged(Judgement),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another cloud may know better. What is wrong with the text is wrong everywhere.
fn is_of_one_cloud(error: &CloudError) -> bool {
    error.is_outage()
        || matches!(
            error,
            CloudError::CircuitOpen { .. }
                | CloudError::AnotherModel { .. }
                | CloudError::OutOfSync { .. }
        )
}

impl Clouds {
    /// A conversation that any of these may have. Nothing is sent before it is opened.
    pub fn new(group: Arc<CloudGroup>, opening: Opening) -> Result<Self, CloudError> {
        let remotes = group.conversations(&opening)?;
        let on_error = group.settings().next().map_or(OnCloudError::Keep, |first| first.on_error);
        Ok(Self { group, remotes, state: Arc::default(), on_error })
    }

    /// No cloud at all: every ask fails, and no socket is ever opened.
    pub fn offline(opening: Opening) -> Self {
        Self {
            group: Arc::new(CloudGroup::new(vec![])),
            remotes: vec![Remote::offline(opening)],
            state: Arc::default(),
            on_error: OnCloudError::Keep,
        }
    }

    /// The conversation with each cloud by itself, and whether it serves the others' model.
    pub fn each(&mut self) -> (&CloudGroup, &mut [Remote]) {
        (&self.group, &mut self.remotes)
    }

    /// See [`Remote::identify`]: the cloud that has the conversation.
    pub async fn identify(&self) -> Result<Introduction, CloudError> {
        self.remote(self.current())?.identify().await
    }

    /// See [`Remote::share`].
    pub fn share(&mut self, edge: &EdgeModel) {
        self.remotes.iter_mut().for_each(|remote| remote.share(edge.clone()));
    }

    /// Goes on with another conversation, at the first cloud that is well.
    pub fn reopen(&mut self, opening: &Opening) {
        self.remotes.iter_mut().for_each(|remote| remote.reopen(opening.clone()));
        let current = self.current();
        self.group.check_before(current);
        let well = (0..current).find(|&at| self.group.is_well(at)).unwrap_or(current);
        self.state = Arc::new(State { current: AtomicUsize::new(well), ..State::default() });
    }

    /// Tells every cloud that the conversation is over.
    pub async fn close(&mut self) {
        for remote in &mut self.remotes {
            remote.close().await;
        }
    }

    /// See [`Remote::simulate_network`].
    pub fn simulate_network(&mut self, delay: Option<Delay>) {
        self.remotes.iter_mut().for_each(|remote| remote.simulate_network(delay.clone()));
    }

    /// See [`Remote::separate`].
    pub fn separate(&mut self, salt: Option<&CacheSalt>) {
        self.remotes.iter_mut().for_each(|remote| remote.separate(salt.cloned()));
    }

    /// See [`Remote::set_origin`].
    pub fn set_origin(&self, origin: &RequestOrigin) {
        self.remotes.iter().for_each(|remote| remote.set_origin(origin.clone()));
    }

    pub fn set_on_error(&mut self, on_error: OnCloudError) {
        self.on_error = on_error;
        if let [only] = self.remotes.as_mut_slice() {
            only.set_on_error(on_error);
        }
    }

    /// See [`Remote::score`]: by the cloud that has the conversation.
    pub async fn score(
        &self,
        accepted: Ask<'_>,
        continuation: Piece,
    ) -> Result<Vec<ScoredToken>, CloudError> {
        self.remote(self.current())?.score(accepted, continuation).await
    }

    fn current(&self) -> usize {
        self.state.current.load(Ordering::SeqCst)
    }

    fn remote(&self, at: usize) -> Result<&Remote, CloudError> {
        self.remotes.get(at).ok_or(CloudError::NotOpened)
    }

    /// At the cloud that has the conversation, else at the first of the others that can.
    async fn anywhere(&self, job: Job<'_>) -> Result<Done, CloudError> {
        if self.remotes.len() == 1 {
            let done = self.at(0, &job).await;
            self.group.asked(0, &done);
            return done;
        }
        loop {
            let first = self.current();
            let others = (0..self.remotes.len()).filter(|&at| at != first);
            let mut failed = None;
            for at in [first].into_iter().chain(others) {
                match self.in_time(at, &job).await {
                    Ok(done) => return Ok(self.settle(first, at, done)),
                    Err(error) if is_of_one_cloud(&error) => {
                        if error.is_outage() {
                            tracing::warn!("{error}; another cloud is asked");
                            self.group.doubt(at);
                        }
                        failed = Some(told(failed, error));
                    }
                    Err(error) => return Err(error),
                }
            }
            let error = failed.unwrap_or(CloudError::NotOpened);
            let most = self.group.settings().next().and_then(|settings| settings.max_wait);
            if error.is_temporary()
                && let Some(left) = self.state.waiting.left(self.on_error, most)
            {
                tracing::warn!("waiting for a cloud: {error}");
                sleep(WAIT_RETRY_DELAY.min(left)).await;
                continue;
            }
            self.state.waiting.end();
            return Err(error);
        }
    }

    /// At one cloud of several, within its part of the ask's time: proof, opening and answer together.
    async fn in_time(&self, at: usize, job: &Job<'_>) -> Result<Done, CloudError> {
        let (begun, after) = (Instant::now(), self.group.part(at));
        let done = timeout(after, self.proven(at, job)).await.unwrap_or_else(|_| {
            let error = CloudError::TimedOut { url: self.group.name(at), after };
            self.group.failed(at, begun, &error);
            Err(error)
        });
        self.group.asked(at, &done);
        done
    }

    /// At one cloud of several, which is of the others' model and exchanges what was exchanged before.
    async fn proven(&self, at: usize, job: &Job<'_>) -> Result<Done, CloudError> {
        let remote = self.remote(at)?;
        // One that is left alone is left alone by the proof too.
        remote.admit().await?;
        self.group.prove(at).await?;
        let agreed = *lock(&self.state.exchange);
        if let (Job::Next(_) | Job::Judge(..), Some(agreed)) = (job, agreed) {
            let _opening = self.state.opening.lock().await;
            if remote.exchange().is_none() {
                let opened = remote.open_patiently().await?.exchange;
                if opened != agreed {
                    remote.forget_exchange();
                    let reason = "its vocabulary is another one".to_owned();
                    let (url, known) = (self.group.name(at), "the cloud that was asked before");
                    return Err(CloudError::AnotherModel { url, known: known.into(), reason });
                }
            }
        }
        self.at(at, job).await
    }

    async fn at(&self, at: usize, job: &Job<'_>) -> Result<Done, CloudError> {
        let remote = self.remote(at)?;
        Ok(match job {
            Job::Open => {
                let opened = remote.open_patiently().await?;
                *lock(&self.state.exchange) = Some(opened.exchange);
                Done::Opened(opened)
            }
            Job::Next(ask) => Done::Answered(remote.answer(ask).await?),
            Job::Judge(ask, draft) => Done::Judged(remote.judge_patiently(*ask, draft).await?),
        })
    }

    /// The conversation is there from now on; says so in what was answered.
    fn settle(&self, first: usize, at: usize, mut done: Done) -> Done {
        let state = &self.state;
        state.waiting.end();
        // Of several asks that moved at once, the first counts.
        let moved = at != first
            && state
                .current
                .compare_exchange(first, at, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
        if moved {
            state.failovers.fetch_add(1, Ordering::SeqCst);
            tracing::warn!("the cloud at {} took over", self.group.name(at));
        }
        self.group.check_before(at);
        let tell = |usage: &mut Usage| {
            usage.answered_by = Some(at + 1);
            usage.failovers = state.failovers.load(Ordering::SeqCst);
        };
        match &mut done {
            Done::Opened(_) => {}
            Done::Answered(answer) => tell(&mut answer.usage),
            Done::Judged(judgement) => tell(&mut judgement.usage),
        }
        done
    }

    async fn open_anywhere(&self) -> Result<Handshake, CloudError> {
        match self.anywhere(Job::Open).await? {
            Done::Opened(opened) => Ok(opened),
            Done::Answered(_) | Done::Judged(_) => Err(CloudError::NotOpened),
        }
    }

    async fn answer(&self, ask: &OwnedAsk) -> Result<Answer, CloudError> {
        match self.anywhere(Job::Next(ask)).await? {
            Done::Answered(answer) => Ok(answer),
            Done::Opened(_) | Done::Judged(_) => Err(CloudError::NotOpened),
        }
    }

    async fn judge_anywhere(&self, ask: Ask<'_>, draft: &Piece) -> Result<Judgement, CloudError> {
        match self.anywhere(Job::Judge(ask, draft)).await? {
            Done::Judged(judgement) => Ok(judgement),
            Done::Opened(_) | Done::Answered(_) => Err(CloudError::NotOpened),
        }
    }

    /// The next ask, with what the edge saw there for the cloud that has the conversation.
    fn owned(&mut self, ask: Ask<'_>) -> OwnedAsk {
        let current = self.current();
        OwnedAsk::new(ask, self.remotes.get_mut(current).and_then(Remote::take_seen))
    }
}

/// Which of two failures to tell: that a cloud is left alone says less than why.
fn told(before: Option<CloudError>, error: CloudError) -> CloudError {
    match before {
        Some(before) if !matches!(before, CloudError::CircuitOpen { .. }) => before,
        Some(before) if matches!(error, CloudError::CircuitOpen { .. }) => before,
        _ => error,
    }
}

impl Cloud for Clouds {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.open_anywhere().await
    }

    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        let clouds = self.clone();
        Some(Box::pin(async move { clouds.open_anywhere().await }))
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let ask = self.owned(ask);
        self.answer(&ask).await
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        let ask = self.owned(ask);
        let clouds = self.clone();
        Some(Box::pin(async move { clouds.answer(&ask).await }))
    }

    async fn judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Result<Judgement, CloudError> {
        self.judge_anywhere(ask, &Piece::from(draft)).await
    }

    fn judges_asks(&self) -> bool {
        self.remote(self.current()).is_ok_and(Remote::judges)
    }

    fn begin_judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Option<Pending<Judgement>> {
        let (clouds, draft) = (self.clone(), Piece::from(draft));
        let ask = OwnedAsk::new(ask, None);
        Some(Box::pin(async move { clouds.judge_anywhere(ask.as_ask(), &draft).await }))
    }

    fn record_step(&mut self, step: &Step) {
        let current = self.current();
        if let Some(remote) = self.remotes.get_mut(current) {
            remote.record_step(step);
        }
    }

    fn take_sent(&mut self) -> Sent {
        let mut all = Sent::default();
        for sent in self.remotes.iter_mut().map(Cloud::take_sent) {
            all.bytes += sent.bytes;
            all.text += &sent.text;
        }
        all
    }
}
