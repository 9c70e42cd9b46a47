//! The client of Tandem's own cloud, over HTTP or in the same process.

use std::time::{Duration, Instant};

use decode::{
    Answer, Ask, CloudError, Exchange, Handshake, Step, Times, Token, Usage, common_prefix,
};

use crate::{
    Opening,
    protocol::{
        self, Amount, EdgeModel, EdgeState, Health, NextRequest, OpenRequest, Piece, Prompt,
        ScoreRequest, ScoredToken, Sharing, code, id_bytes, prefix_hash,
    },
    transport::Transport,
};

/// How long a session may take to open: the model may have to be loaded first.
const LOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// How often a session is brought back in step before an ask fails.
const ATTEMPTS: usize = 4;

/// How long to leave a cloud alone whose sessions are all at work.
const BUSY_DELAY: Duration = Duration::from_millis(400);

/// A conversation with Tandem's own cloud. Nothing is sent before it is opened.
#[derive(Debug)]
pub(crate) struct TandemClient {
    transport: Transport,
    opening: Opening,
    session: Option<Session>,
    /// An earlier conversation whose cache the next session takes over.
    from: Option<String>,
    /// The edge, if its states are offered.
    shares: Option<EdgeModel>,
    /// What it saw where the next ask is made.
    seen: Option<EdgeState>,
}

#[derive(Debug)]
struct Session {
    id: String,
    exchange: Exchange,
    /// Whether the cloud collects what the edge sees.
    collects: bool,
    sequence: u64,
    /// What the cloud has of what was accepted.
    held: SharedPrefix,
}

#[derive(Debug, Default)]
struct SharedPrefix {
    tokens: Vec<Token>,
    text: String,
}

impl TandemClient {
    pub fn new(transport: Transport, opening: Opening) -> Self {
        Self { transport, opening, session: None, from: None, shares: None, seen: None }
    }

    /// Offers the edge's states from the next session on.
    pub fn share(&mut self, edge: EdgeModel) {
        self.shares = Some(edge);
    }

    /// Keeps what the edge saw for the next ask, if the cloud collects.
    pub fn record_step(&mut self, step: &Step) {
        let collects = |session: &&Session| session.collects;
        let asked = self.session.as_ref().filter(collects).zip(self.opening.edge.as_ref());
        self.seen = asked.and_then(|(session, edge)| {
            EdgeState::new(step, session.exchange, edge.vocabulary.as_ref())
        });
    }

    pub fn reopen(&mut self, opening: Opening) {
        self.opening = opening;
        self.seen = None;
        self.from = self.session.take().map(|s| s.id).or(self.from.take());
    }

    pub async fn close(&mut self) {
        let ids = [self.session.take().map(|s| s.id), self.from.take()];
        for id in ids.into_iter().flatten() {
            self.transport.close(&id).await;
        }
    }

    pub async fn open(&mut self) -> Result<Handshake, CloudError> {
        let started = Instant::now();
        self.health().await?;
        let edge = self.opening.edge.as_ref();
        let open = OpenRequest {
            prompt: self.opening.prompt.clone(),
            vocabulary: edge.map(|e| e.vocabulary.fingerprint()),
            from: self.from.clone(),
            edge: self.shares.clone().filter(|_| edge.is_some()),
            grammar: self.opening.grammar.clone(),
        };
        self.note_prompt(&open.prompt);
        let offered = open.edge.is_some();
        let opened = self.transport.open(open, LOAD_TIMEOUT).await.map_err(|f| f.error)?;
        self.from = None;
        let exchange = opened.exchange;
        tracing::debug!(session = opened.session, ?exchange, "cloud session opened");
        let collects = offered && collects(opened.sharing.as_ref());
        if offered && !collects {
            // Said once, it need not be said at every session.
            self.shares = None;
        }
        let (id, held) = (opened.session, SharedPrefix::default());
        self.session = Some(Session { id, exchange, collects, sequence: 0, held });
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

    pub async fn next(&mut self, ask: Ask<'_>, within: Duration) -> Result<Answer, CloudError> {
        let mut reason = None;
        for _ in 0..ATTEMPTS {
            match self.try_next(&ask, within).await? {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Again(why) => reason = why.or(reason),
            }
        }
        let message = "it cannot be brought back in step".into();
        Err(reason.unwrap_or(CloudError::Refused { status: 409, message, retry_after: None }))
    }

    pub async fn score(
        &mut self,
        accepted: &Ask<'_>,
        continuation: Piece,
        within: Duration,
    ) -> Result<Vec<ScoredToken>, CloudError> {
        let session = self.session.as_ref().ok_or(CloudError::NotOpened)?;
        let NextRequest { position, hash, append, .. } = session.request(accepted);
        let score = ScoreRequest { position, hash, append, continuation };
        let scores = self.transport.score(&session.id, score, within).await;
        scores.map(|scores| scores.tokens).map_err(|f| f.error)
    }

    /// Opens a session that was lost. What travels must be what travelled before: ids of another
    /// vocabulary would pass for ours.
    async fn reopen_session(&mut self, ask: &Ask<'_>) -> Result<(), CloudError> {
        let opened = self.open().await?;
        let words = ask.want == decode::AnswerLength::Word;
        if words == (opened.exchange == Exchange::Text) {
            return Ok(());
        }
        // Its ids would pass for ours.
        self.session = None;
        let message = "it came back with another vocabulary".into();
        Err(CloudError::Refused { status: 409, message, retry_after: None })
    }

    /// One try; it may only have brought the session back in step.
    async fn try_next(&mut self, ask: &Ask<'_>, within: Duration) -> Result<Attempt, CloudError> {
        let Some(session) = self.session.as_mut() else {
            self.reopen_session(ask).await?;
            return Ok(Attempt::Again(None));
        };
        let started = Instant::now();
        session.sequence += 1;
        let id = session.id.clone();
        let seen = self.seen.clone().filter(|_| session.collects);
        let request = NextRequest { edge: seen, ..session.request(ask) };
        match &request.append {
            Piece::Text(text) => self.transport.sent().note(text),
            Piece::Ids(ids) => self.transport.sent().note(&self.spelled(ids)),
        }
        if let Some(seen) = &request.edge {
            let proposal = self.spelled(&[seen.proposed]);
            self.transport.sent().note(&format!(" [hidden state, proposal {proposal:?}]"));
        }
        let answered = self.transport.next(&id, request, within).await;
        let Some(session) = self.session.as_mut() else { return Ok(Attempt::Again(None)) };
        match answered {
            Ok(answer) => Ok(Attempt::Answered(session.accept(ask, answer, started.elapsed()))),
            Err(failure) => match failure.code.as_deref() {
                Some(code::CONFLICT) => {
                    // Everything is sent again; what the cloud's cache shares with it is not read
                    // again.
                    tracing::warn!("the cloud lost step and is brought back");
                    session.held = SharedPrefix::default();
                    Ok(Attempt::Again(None))
                }
                Some(code::BUSY) => {
                    tokio::time::sleep(BUSY_DELAY).await;
                    Ok(Attempt::Again(Some(failure.error)))
                }
                Some(code::EVICTED | code::UNKNOWN_SESSION) => {
                    tracing::warn!("the cloud forgot the session; it is opened again");
                    self.session = None;
                    Ok(Attempt::Again(None))
                }
                _ => Err(failure.error),
            },
        }
    }
}

impl Session {
    fn request(&self, ask: &Ask<'_>) -> NextRequest {
        let (position, hash, append) = match self.exchange {
            Exchange::Ids => {
                let shared = common_prefix(&self.held.tokens, ask.tokens);
                let (before, after) = ask.tokens.split_at(shared);
                (shared, prefix_hash(id_bytes(before)), Piece::Ids(after.to_vec()))
            }
            Exchange::Text => {
                let (before, after) = ask.text.split_at(shared_text(&self.held.text, ask.text));
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

    fn accept(&mut self, ask: &Ask<'_>, answer: protocol::NextResponse, took: Duration) -> Answer {
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
        let answer = Answer {
            end: answer.finish_reason == Some(protocol::FinishReason::Stop),
            full: answer.finish_reason == Some(protocol::FinishReason::Length),
            tokens: answer.tokens,
            usage: Usage { prefilled: Some(prefilled), cached: Some(cached), decoded },
            times: Times { network: took.saturating_sub(at_cloud), ..times },
        };
        let written = answer.tokens.iter().filter_map(|t| t.id);
        self.held.tokens = ask.tokens.iter().copied().chain(written).collect();
        self.held.text = format!("{}{}", ask.text, answer.text());
        answer
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
