//! The client of Tandem's own cloud server.

use std::time::{Duration, Instant};

use decode::{
    Answer, Ask, Cloud, CloudError, Exchange, Fingerprint, Opened, Times, Token, Usage,
    common_prefix,
};

use crate::{
    http::{Address, Http, Trouble},
    protocol::{self, Health, Next, Open, Piece, Prompt, Want, code, id_bytes, prefix_hash},
};

/// How long an answer may take: a long prompt on a slow machine takes minutes to read.
const DEADLINE: Duration = Duration::from_secs(300);

/// How long a cloud may take to say that it is there.
const KNOCK: Duration = Duration::from_secs(5);

/// How often a session is brought back in step before an ask fails.
const TRIES: usize = 4;

/// How long to leave a cloud alone whose sessions are all at work.
const BUSY: Duration = Duration::from_millis(400);

/// What a cloud is told at the beginning.
#[derive(Clone, Debug)]
pub struct Opening {
    /// What both sides begin with.
    pub prompt: Prompt,
    /// The edge's vocabulary; `None` when there is no edge.
    pub vocabulary: Option<Fingerprint>,
}

/// A conversation with a cloud server. Nothing is sent before it is opened.
#[derive(Debug)]
pub struct Remote {
    http: Http,
    opening: Opening,
    session: Option<Session>,
    /// An earlier conversation whose cache the next session takes over.
    from: Option<String>,
}

#[derive(Debug)]
struct Session {
    id: String,
    exchange: Exchange,
    sequence: u64,
    /// What the cloud has of what was accepted.
    held: Held,
}

#[derive(Debug, Default)]
struct Held {
    tokens: Vec<Token>,
    text: String,
}

impl Remote {
    /// A cloud at an address, with the key it wants, if any.
    pub fn new(
        address: Address,
        key: Option<String>,
        opening: Opening,
    ) -> Result<Self, CloudError> {
        let http = Http::new(address, key, DEADLINE)?;
        Ok(Self { http, opening, session: None, from: None })
    }

    /// Goes on with another conversation: what its beginning shares with this one is not read
    /// again.
    pub fn reopen(&mut self, opening: Opening) {
        self.opening = opening;
        self.from = self.session.take().map(|s| s.id).or(self.from.take());
    }

    /// Tells the cloud that the conversation is over.
    pub async fn close(&mut self) {
        let ids = [self.session.take().map(|s| s.id), self.from.take()];
        for id in ids.into_iter().flatten() {
            self.http.delete(&format!("/v1/sessions/{id}")).await;
        }
    }

    async fn open_session(&mut self) -> Result<Opened, CloudError> {
        let started = Instant::now();
        self.knock().await?;
        let open = Open {
            prompt: self.opening.prompt.clone(),
            vocabulary: self.opening.vocabulary.clone(),
            from: self.from.clone(),
        };
        let opened: protocol::Opened =
            self.http.post("/v1/sessions", &open).await.map_err(Trouble::into_error)?;
        self.from = None;
        let exchange = opened.exchange;
        tracing::debug!(session = opened.session, ?exchange, "cloud session opened");
        let held = Held::default();
        self.session = Some(Session { id: opened.session, exchange, sequence: 0, held });
        let cloud_load = duration(opened.load_ms);
        let network = started.elapsed().saturating_sub(cloud_load);
        Ok(Opened { exchange, times: Times { cloud_load, network, ..Times::default() } })
    }

    /// Whether a cloud is there at all: an answer may take minutes, this may not.
    async fn knock(&self) -> Result<(), CloudError> {
        let health: Health = self.http.get("/health", KNOCK).await.map_err(Trouble::into_error)?;
        tracing::debug!(service = health.service, version = health.version, "a cloud answers");
        Ok(())
    }

    /// Opens a session that was lost. What travels must be what travelled before: ids of another
    /// vocabulary would pass for ours.
    async fn reopen_session(&mut self, ask: &Ask<'_>) -> Result<(), CloudError> {
        let opened = self.open_session().await?;
        let words = ask.want == decode::Want::Word;
        if words == (opened.exchange == Exchange::Text) {
            return Ok(());
        }
        let message = "it came back with another vocabulary".into();
        Err(CloudError::Refused { status: 409, message })
    }

    /// One try; `Ok(None)` when the session had to be brought back in step first.
    async fn try_next(&mut self, ask: &Ask<'_>) -> Result<Option<Answer>, CloudError> {
        let Some(session) = &mut self.session else {
            self.reopen_session(ask).await?;
            return Ok(None);
        };
        let started = Instant::now();
        session.sequence += 1;
        let path = format!("/v1/sessions/{}/next", session.id);
        match self.http.post(&path, &session.request(ask)).await {
            Ok(answer) => Ok(Some(session.accept(ask, answer, started.elapsed()))),
            Err(trouble) => match trouble.code() {
                Some(code::CONFLICT) => {
                    // Everything is sent again; what the cloud's cache shares with it is not read
                    // again.
                    tracing::warn!("the cloud lost step and is brought back");
                    session.held = Held::default();
                    Ok(None)
                }
                Some(code::BUSY) => {
                    tokio::time::sleep(BUSY).await;
                    Ok(None)
                }
                Some(code::EVICTED | code::UNKNOWN_SESSION) => {
                    tracing::warn!("the cloud forgot the session; it is opened again");
                    self.session = None;
                    Ok(None)
                }
                _ => Err(trouble.into_error()),
            },
        }
    }
}

impl Session {
    fn request(&self, ask: &Ask<'_>) -> Next {
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
            decode::Want::Tokens(n) => Want::Tokens(n),
            decode::Want::Word => Want::Word(true),
        };
        Next { sequence: self.sequence, position, hash, append, want, sampling: *ask.sampling }
    }

    fn accept(&mut self, ask: &Ask<'_>, answer: protocol::Answer, took: Duration) -> Answer {
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
            end: answer.finish_reason == Some(protocol::Finish::Stop),
            full: answer.finish_reason == Some(protocol::Finish::Length),
            tokens: answer.tokens,
            usage: Usage { prefilled, cached, decoded },
            times: Times { network: took.saturating_sub(at_cloud), ..times },
        };
        self.held.tokens =
            ask.tokens.iter().copied().chain(answer.tokens.iter().map(|t| t.id)).collect();
        self.held.text = format!("{}{}", ask.text, answer.text());
        answer
    }
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

impl Cloud for Remote {
    async fn open(&mut self) -> Result<Opened, CloudError> {
        self.open_session().await
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        for _ in 0..TRIES {
            if let Some(answer) = self.try_next(&ask).await? {
                return Ok(answer);
            }
        }
        let message = "it cannot be brought back in step".into();
        Err(CloudError::Refused { status: 409, message })
    }
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
