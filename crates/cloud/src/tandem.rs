//! The client of Tandem's own cloud, over HTTP or in the same process; `score` has drafts judged.

mod score;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use decode::{
    Answer, Ask, CloudError, Exchange, Handshake, Step, Times, Token, Usage, common_prefix,
};

use crate::{
    Opening,
    ask::OwnedAsk,
    protocol::{
        self, Amount, EdgeModel, EdgeState, Health, NextRequest, OpenRequest, Piece, Prompt,
        Sharing, code, id_bytes, prefix_hash,
    },
    transport::Transport,
};

/// How long a session may take to open: the model may have to be loaded first.
const LOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// How often a session is brought back in step before an ask fails.
const ATTEMPTS: usize = 4;

/// How long to leave a cloud alone whose sessions are all at work.
const BUSY_DELAY: Duration = Duration::from_millis(400);

/// A conversation with Tandem's own cloud. Nothing is sent before it is opened. Clones speak in the
/// same conversation, so that several asks can be on their way.
#[derive(Clone, Debug)]
pub(crate) struct TandemClient {
    transport: Transport,
    opening: Arc<Opening>,
    state: Arc<Mutex<State>>,
    /// Held while a session is opened again: asks that lost it together open one.
    reopening: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Session>,
    /// An earlier conversation whose cache the next session takes over.
    from: Option<String>,
    /// The edge, if its states are offered.
    shares: Option<EdgeModel>,
}

#[derive(Debug)]
struct Session {
    id: String,
    exchange: Exchange,
    /// Whether the cloud collects what the edge sees.
    collects: bool,
    sequence: u64,
    /// The last question that was answered, of those that count.
    answered: u64,
    /// What the cloud has of the text since that answer.
    held: SharedPrefix,
    /// What it was sent since: it may have it instead, now or soon.
    sent: Vec<(u64, SharedPrefix)>,
    /// And the texts behind which it is judging a draft.
    judging: Vec<score::Judging>,
}

#[derive(Debug, Default)]
struct SharedPrefix {
    tokens: Vec<Token>,
    text: String,
}

impl TandemClient {
    pub fn new(transport: Transport, opening: Arc<Opening>) -> Self {
        Self { transport, opening, state: Arc::default(), reopening: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers the edge's states from the next session on.
    pub fn share(&self, edge: EdgeModel) {
        self.state().shares = Some(edge);
    }

    /// What the edge saw, for the next ask, if the cloud collects.
    pub fn seen(&self, step: &Step) -> Option<EdgeState> {
        let exchange = self.state().session.as_ref().filter(|s| s.collects)?.exchange;
        EdgeState::new(step, exchange, self.opening.edge.as_ref()?.vocabulary.as_ref())
    }

    /// Goes on with another conversation. Asks of this one that are still on their way stay with it.
    pub fn reopen(&mut self, opening: Arc<Opening>) {
        let State { session, from, shares } = std::mem::take(&mut *self.state());
        let from = session.map(|session| session.id).or(from);
        self.state = Arc::new(Mutex::new(State { session: None, from, shares }));
        self.opening = opening;
    }

    pub async fn close(&self) {
        let ids = {
            let mut state = self.state();
            [state.session.take().map(|s| s.id), state.from.take()]
        };
        for id in ids.into_iter().flatten() {
            self.transport.close(&id).await;
        }
    }

    pub async fn open(&self) -> Result<Handshake, CloudError> {
        let started = Instant::now();
        self.health().await?;
        let edge = self.opening.edge.as_ref();
        let open = {
            let state = self.state();
            OpenRequest {
                prompt: self.opening.prompt.clone(),
                vocabulary: edge.map(|e| e.vocabulary.fingerprint()),
                from: state.from.clone(),
                edge: state.shares.clone().filter(|_| edge.is_some()),
                grammar: self.opening.grammar.clone(),
            }
        };
        self.note_prompt(&open.prompt);
        let offered = open.edge.is_some();
        let opened = self.transport.open(open, LOAD_TIMEOUT).await.map_err(|f| f.error)?;
        let exchange = opened.exchange;
        // Not its whole id: that is the right to use a session.
        tracing::debug!(session = opened.session.get(..4), ?exchange, "cloud session opened");
        let collects = offered && collects(opened.sharing.as_ref());
        let mut state = self.state();
        state.from = None;
        if offered && !collects {
            // Said once, it need not be said at every session.
            state.shares = None;
        }
        state.session = Some(Session::new(opened.session, exchange, collects));
        drop(state);
        let cloud_load = duration(opened.load_ms);
        let network = started.elapsed().saturating_sub(cloud_load);
        Ok(Handshake { exchange, times: Times { cloud_load, network, ..Times::default() } })
    }

    /// Takes account of what a conversation begins with.
    fn note_prompt(&self, prompt: &Prompt) {
        match prompt {
            Prompt::Text(text) => self.transport.sent().note(text),
            Prompt::Tokens(ids) => self.transport.sent().note(&self.spelled(ids)),
            Prompt::Messages(messages) => {
                for message in messages {
                    let role = message.role.as_str();
                    self.transport.sent().note(&format!("[{role}] {}\n", message.content));
                }
            }
        }
    }

    /// Ids as people read them, where this side knows their vocabulary.
    fn spelled(&self, ids: &[Token]) -> String {
        match &self.opening.edge {
            Some(edge) => edge.spelled(ids),
            None => ids.iter().map(|id| format!("[{}]", id.0)).collect(),
        }
    }

    /// Whether a cloud is there at all: an answer may take minutes, this may not.
    pub async fn health(&self) -> Result<Health, CloudError> {
        self.transport.health().await
    }

    pub async fn next(&self, ask: &OwnedAsk, within: Duration) -> Result<Answer, CloudError> {
        let mut reason = None;
        for _ in 0..ATTEMPTS {
            match self.try_next(ask, within).await? {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Again(why) => reason = why.or(reason),
            }
        }
        let message = "it cannot be brought back in step".into();
        Err(reason.unwrap_or(CloudError::Refused { status: 409, message, retry_after: None }))
    }

    /// Opens a session that was lost. What travels must be what travelled before: ids of another
    /// vocabulary would pass for ours.
    async fn reopen_session(&self, ask: &Ask<'_>) -> Result<(), CloudError> {
        let _reopening = self.reopening.lock().await;
        if self.state().session.is_some() {
            return Ok(());
        }
        let opened = self.open().await?;
        let words = ask.want == decode::AnswerLength::Word;
        if words == (opened.exchange == Exchange::Text) {
            return Ok(());
        }
        // Its ids would pass for ours.
        self.state().session = None;
        let message = "it came back with another vocabulary".into();
        Err(CloudError::Refused { status: 409, message, retry_after: None })
    }

    /// One try; it may only have brought the session back in step.
    async fn try_next(&self, ask: &OwnedAsk, within: Duration) -> Result<Attempt, CloudError> {
        let begun = self.state().session.as_mut().map(|session| session.begin(ask));
        let Some((id, request)) = begun else {
            self.reopen_session(&ask.as_ask()).await?;
            return Ok(Attempt::Again(None));
        };
        let (started, sequence) = (Instant::now(), request.sequence);
        match &request.append {
            Piece::Text(text) => self.transport.sent().note(text),
            Piece::Ids(ids) => self.transport.sent().note(&self.spelled(ids)),
        }
        if let Some(seen) = &request.edge {
            let proposal = self.spelled(&[seen.proposed]);
            self.transport.sent().note(&format!(" [hidden state, proposal {proposal:?}]"));
        }
        let answered = self.transport.next(&id, request, within).await;
        let failure = {
            let mut state = self.state();
            let session = state.session.as_mut().filter(|session| session.id == id);
            match (answered, session) {
                (Ok(answer), session) => {
                    let answer = read(answer, started.elapsed());
                    if let Some(session) = session {
                        session.answered(sequence, ask, &answer);
                    }
                    return Ok(Attempt::Answered(answer));
                }
                // Another ask has opened it again meanwhile.
                (Err(failure), None) if failure.code.is_some() => return Ok(Attempt::Again(None)),
                (Err(failure), None) => failure,
                (Err(failure), Some(session)) => {
                    session.sent.retain(|(sent, _)| *sent != sequence);
                    match failure.code.as_deref() {
                        Some(code::CONFLICT) => {
                            // Everything is sent again; what the cloud's cache shares with it is
                            // not read again.
                            tracing::warn!("the cloud lost step and is brought back");
                            session.held = SharedPrefix::default();
                            return Ok(Attempt::Again(None));
                        }
                        Some(code::EVICTED | code::UNKNOWN_SESSION) => {
                            tracing::warn!("the cloud forgot the session; it is opened again");
                            state.session = None;
                            return Ok(Attempt::Again(None));
                        }
                        _ => failure,
                    }
                }
            }
        };
        if failure.code.as_deref() == Some(code::BUSY) {
            tokio::time::sleep(BUSY_DELAY).await;
            return Ok(Attempt::Again(Some(failure.error)));
        }
        Err(failure.error)
    }
}

impl Session {
    fn new(id: String, exchange: Exchange, collects: bool) -> Self {
        let (held, sent, judging) = (SharedPrefix::default(), vec![], vec![]);
        Self { id, exchange, collects, sequence: 0, answered: 0, held, sent, judging }
    }

    /// Numbers a question and remembers it as one that is on its way.
    fn begin(&mut self, ask: &OwnedAsk) -> (String, NextRequest) {
        self.sequence += 1;
        let edge = ask.seen.clone().filter(|_| self.collects);
        let request = NextRequest { edge, ..self.request(&ask.as_ask()) };
        let content = SharedPrefix { tokens: ask.tokens.clone(), text: ask.text.clone() };
        self.sent.push((self.sequence, content));
        (self.id.clone(), request)
    }

    /// How much of `ask` the cloud has for certain, whichever of the questions on their way it has read
    /// when this one comes.
    fn shared(&self, of: impl Fn(&SharedPrefix) -> usize) -> usize {
        let sent = self.sent.iter().map(|(_, content)| content);
        let judging = self.judging.iter().map(|judging| &judging.behind);
        sent.chain(judging).chain([&self.held]).map(of).min().unwrap_or(0)
    }

    fn request(&self, ask: &Ask<'_>) -> NextRequest {
        let (position, hash, append) = match self.exchange {
            Exchange::Ids => {
                let shared = self.shared(|held| common_prefix(&held.tokens, ask.tokens));
                let (before, after) = ask.tokens.split_at(shared);
                (shared, prefix_hash(id_bytes(before)), Piece::Ids(after.to_vec()))
            }
            Exchange::Text => {
                let shared = self.shared(|held| shared_text(&held.text, ask.text));
                let (before, after) = ask.text.split_at(shared);
                (before.len(), prefix_hash(before), Piece::Text(after.to_owned()))
            }
        };
        let want = match ask.want {
            decode::AnswerLength::Tokens(n) => Amount::Tokens(n),
            decode::AnswerLength::Word => Amount::Word(true),
        };
        let (sequence, sampling) = (self.sequence, *ask.sampling);
        NextRequest { sequence, position, hash, append, want, sampling, edge: None }
    }

    /// The cloud answers questions in their order and refuses those that come too late, so whatever was
    /// sent before this one changes nothing any more.
    fn answered(&mut self, sequence: u64, ask: &OwnedAsk, answer: &Answer) {
        if sequence < self.answered {
            return;
        }
        self.answered = sequence;
        self.sent.retain(|(sent, _)| *sent > sequence);
        let written = answer.tokens.iter().filter_map(|t| t.id);
        self.held.tokens = ask.tokens.iter().copied().chain(written).collect();
        self.held.text = format!("{}{}", ask.text, answer.text());
    }
}

/// An answer as the loop takes it; it came after `took`.
pub(crate) fn read(answer: protocol::NextResponse, took: Duration) -> Answer {
    let cost = answer.cost;
    let times = Times {
        // The other side's clock may say anything; it cannot have taken longer than we waited.
        cloud_queue: duration(cost.queued_ms).min(took),
        cloud_prefill: duration(cost.prefill_ms).min(took),
        cloud_decode: duration(cost.decode_ms).min(took),
        ..Times::default()
    };
    let at_cloud = times.cloud_queue + times.cloud_prefill + times.cloud_decode;
    let protocol::Cost { prefilled, cached, decoded, .. } = cost;
    Answer {
        end: answer.finish_reason == Some(protocol::FinishReason::Stop),
        full: answer.finish_reason == Some(protocol::FinishReason::Length),
        tokens: answer.tokens,
        usage: Usage {
            prefilled: Some(prefilled),
            cached: Some(cached),
            decoded,
            ..Usage::default()
        },
        times: Times { network: took.saturating_sub(at_cloud), ..times },
        ..Answer::default()
    }
}

/// Whether states are to be sent; says so where they were offered in vain.
fn collects(sharing: Option<&Sharing>) -> bool {
    let reason = match sharing {
        Some(Sharing::Welcome) => return true,
        Some(Sharing::Refused(reason)) => reason,
        None => "it does not say that it collects",
    };
    tracing::warn!("the cloud takes no hidden states, and none are sent: {reason}");
    false
}

/// How many leading bytes two texts share, whole characters only.
fn shared_text(a: &str, b: &str) -> usize {
    let mut shared = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    while !b.is_char_boundary(shared) {
        shared -= 1;
    }
    shared
}

/// A time the other side told us; nonsense counts nothing.
fn duration(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}

#[derive(Debug)]
enum Attempt {
    Answered(Answer),
    /// Nothing yet, and perhaps why.
    Again(Option<CloudError>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_share_whole_characters() {
        assert_eq!(shared_text("", "abc"), 0);
        assert_eq!(shared_text("abc", "abd"), 2);
        assert_eq!(shared_text("中文", "中国"), 3);
        // 文 and 斆 share their first byte.
        assert_eq!(shared_text("中\u{6587}", "中\u{6586}"), 3);
        assert_eq!(shared_text("abc", "ab"), 2);
    }
}
