//! Calls of the session protocol in any order, against a model of what it promises.
//!
//! The service is the real one, with a real engine and a made-up model of one tiny layer. One call comes after
//! the other, so that it is known which session has to leave when there is no room. What is called is drawn:
//! from a seed by the tests of `sequences`, from libFuzzer's bytes by the fuzz target `sessions`.

#[path = "../../../engine/tests/it/gguf/mod.rs"]
pub mod gguf;

use std::{path::Path, sync::Arc, time::Duration};

use decode::{Sampling, Token, sampling};
use engine::{Compute, LoadOptions};
use serde_json::to_value;
use tandem_cloud::{
    Service, ServiceConfig,
    protocol::{
        Amount, NextRequest, NextResponse, OpenRequest, Piece, Prefix, Prompt, ScoreRequest,
        id_bytes, prefix_hash,
    },
    service::{LazyModel, ServiceError},
};
use tokio::time::timeout;

pub const SESSIONS: usize = 3;
pub const CONTEXT: usize = 96;
const WORDS: u32 = 256;

/// What a session must hold.
#[derive(Clone)]
struct Expected {
    id: String,
    prompt: usize,
    tokens: Vec<Token>,
    /// The number of the next question.
    sequence: u64,
    last: Option<(NextRequest, NextResponse)>,
}

impl Expected {
    fn at(&self, position: usize) -> Prefix {
        Prefix { position, hash: prefix_hash(id_bytes(&self.tokens[..position])) }
    }
}

/// Where numbers come from.
pub enum Draws {
    Seed {
        seed: u64,
        drawn: usize,
    },
    /// Two bytes a number; 0 when there are no more.
    Bytes(std::vec::IntoIter<u8>),
}

impl Draws {
    pub fn seed(seed: u64) -> Self {
        Self::Seed { seed, drawn: 0 }
    }

    fn next(&mut self, below: usize) -> usize {
        let number = match self {
            Self::Seed { seed, drawn } => {
                *drawn += 1;
                (sampling::hash(*seed, *drawn) >> 20) as usize
            }
            Self::Bytes(bytes) => {
                let mut byte = || usize::from(bytes.next().unwrap_or(0));
                byte() << 8 | byte()
            }
        };
        number % below.max(1)
    }

    pub fn is_over(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.as_slice().is_empty())
    }
}

/// A service with a model of one tiny layer, which is written to this folder.
pub fn service(folder: &Path) -> Arc<Service> {
    let path = folder.join("model.gguf");
    gguf::model(&path, "default");
    let options = LoadOptions {
        sequences: SESSIONS,
        cells: CONTEXT * SESSIONS,
        ..LoadOptions::new(&path, CONTEXT, 1)
    };
    let model = LazyModel::new(Compute::start().unwrap(), options);
    Arc::new(Service::new(model, ServiceConfig::default()))
}

pub struct Campaign {
    service: Arc<Service>,
    /// Live sessions, the least recently used first.
    live: Vec<Expected>,
    evicted: Vec<String>,
    closed: Vec<String>,
    pub draws: Draws,
    /// How many calls of each kind there were, and how many of them were refused.
    pub calls: [[usize; 2]; 8],
}

impl Campaign {
    /// The service must have no sessions.
    pub fn new(service: Arc<Service>, draws: Draws) -> Self {
        let (live, evicted, closed) = (vec![], vec![], vec![]);
        Self { service, live, evicted, closed, draws, calls: [[0; 2]; 8] }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.draws.next(below)
    }

    fn ids(&mut self, most: usize) -> Vec<Token> {
        let count = self.draw(most + 1);
        (0..count).map(|_| Token(self.draw(WORDS as usize) as u32)).collect()
    }

    /// A live session, which is then the one used last.
    fn pick(&mut self) -> Option<usize> {
        if self.live.is_empty() {
            return None;
        }
        let chosen = self.draw(self.live.len());
        let session = self.live.remove(chosen);
        self.live.push(session);
        Some(self.live.len() - 1)
    }

    /// Ends all sessions.
    pub async fn finish(mut self) {
        for session in self.live.drain(..) {
            self.service.close(&session.id).await.unwrap();
        }
        assert_eq!(self.service.sessions(), 0);
    }

    pub async fn call(&mut self) {
        let kind = self.draw(100);
        let (kind, refused) = match kind {
            0..15 => (0, self.open().await),
            15..60 => (1, self.next().await),
            60..68 => (2, self.again().await),
            68..76 => (3, self.wrong().await),
            76..86 => (4, self.score().await),
            86..91 => (5, self.close().await),
            91..96 => (6, self.cancel().await),
            _ => (7, self.gone().await),
        };
        self.calls[kind][usize::from(refused)] += 1;
        assert_eq!(self.service.sessions(), self.live.len());
        assert_eq!(self.service.health().status, "ok");
    }

    async fn open(&mut self) -> bool {
        let mut prompt = self.ids(CONTEXT + 20);
        let from = match self.draw(4) {
            0 if !self.live.is_empty() => {
                let chosen = self.draw(self.live.len());
                Some(self.live[chosen].id.clone())
            }
            1 => self.evicted.last().cloned(),
            _ => None,
        };
        if self.draw(10) == 0 {
            prompt.push(Token(9999));
        }
        let open = OpenRequest {
            prompt: Prompt::Tokens(prompt.clone()),
            vocabulary: None,
            from: from.clone(),
            edge: None,
            grammar: None,
        };
        let opened = self.service.open(open).await;
        let bad = prompt.contains(&Token(9999));
        if prompt.is_empty() || prompt.len() >= CONTEXT || bad {
            let error = opened.unwrap_err();
            let long = matches!(error, ServiceError::ContextFull { .. });
            assert!(long || bad || prompt.is_empty(), "{error}");
            return true;
        }
        let opened = opened.unwrap();
        // It takes the place of the one it goes on from, or of the one that waited longest.
        let earlier = from.and_then(|from| self.live.iter().position(|s| s.id == from));
        match earlier {
            Some(i) => self.closed.push(self.live.remove(i).id),
            None if self.live.len() == SESSIONS => self.evicted.push(self.live.remove(0).id),
            None => {}
        }
        self.live.push(Expected {
            id: opened.session,
            prompt: prompt.len(),
            tokens: vec![],
            sequence: 1,
            last: None,
        });
        false
    }

    fn question(&mut self, i: usize) -> NextRequest {
        let position = self.draw(self.live[i].tokens.len() + 1);
        let append = self.ids(6);
        let tokens = 1 + self.draw(3);
        let session = &mut self.live[i];
        let Prefix { position, hash } = session.at(position);
        session.sequence += 1;
        NextRequest {
            sequence: session.sequence,
            position,
            hash,
            append: Piece::Ids(append),
            want: Amount::Tokens(tokens),
            sampling: Sampling::default(),
            edge: None,
        }
    }

    /// What a session holds once a question is accepted; `None` where it does not fit.
    fn accepted(&self, i: usize, position: usize, append: &Piece) -> Option<Vec<Token>> {
        let Piece::Ids(append) = append else { panic!() };
        let session = &self.live[i];
        let tokens = [&session.tokens[..position], append].concat();
        (session.prompt + tokens.len() <= CONTEXT).then_some(tokens)
    }

    async fn next(&mut self) -> bool {
        let Some(i) = self.pick() else { return false };
        let question = self.question(i);
        let accepted = self.accepted(i, question.position, &question.append);
        let answer = self.service.next(&self.live[i].id, question.clone()).await;
        let Some(mut tokens) = accepted else {
            let error = answer.unwrap_err();
            assert!(matches!(error, ServiceError::ContextFull { .. }), "{error}");
            return true;
        };
        let answer = answer.unwrap();
        let Amount::Tokens(most) = question.want else { panic!() };
        assert!(answer.tokens.len() <= most);
        assert!(!answer.tokens.is_empty() || answer.finish_reason.is_some());
        tokens.extend(answer.tokens.iter().filter_map(|t| t.id));
        let session = &mut self.live[i];
        session.tokens = tokens;
        session.last = Some((question, answer));
        false
    }

    /// The same question gets the same answer, and changes nothing.
    async fn again(&mut self) -> bool {
        let Some(i) = self.pick() else { return false };
        let Some((question, answer)) = self.live[i].last.clone() else {
            let have = self.live[i].at(self.live[i].tokens.len());
            self.holds(i, &[have]).await;
            return false;
        };
        let again = self.service.next(&self.live[i].id, question).await.unwrap();
        assert_eq!(to_value(&again).unwrap(), to_value(&answer).unwrap());
        false
    }

    /// Another prefix, an id that is not there or an earlier number: refused, and nothing changes.
    async fn wrong(&mut self) -> bool {
        let Some(i) = self.pick() else { return false };
        let question = self.question(i);
        let have = self.live[i].at(self.live[i].tokens.len());
        let last = self.live[i].last.as_ref().map(|(question, _)| question.sequence);
        let wrong = match (self.draw(4), last) {
            (0, _) => NextRequest { hash: "another".into(), ..question },
            (1, _) => NextRequest { position: have.position + 1, ..question },
            (2, Some(last)) => NextRequest { sequence: last - 1, ..question },
            (3, _) => NextRequest { want: Amount::Tokens(0), ..question },
            _ => NextRequest { append: Piece::Ids(vec![Token(WORDS + 9999)]), ..question },
        };
        let error = self.service.next(&self.live[i].id, wrong).await.unwrap_err();
        match error {
            ServiceError::Conflict { have: told, .. } => assert_eq!(told, have),
            ServiceError::Invalid { .. } | ServiceError::ContextFull { .. } => {}
            other => panic!("{other}"),
        }
        self.holds(i, &[have]).await;
        true
    }

    async fn score(&mut self) -> bool {
        let Some(i) = self.pick() else { return false };
        let NextRequest { position, hash, append, .. } = self.question(i);
        let continuation = self.ids(8);
        let accepted = self.accepted(i, position, &append);
        let score =
            ScoreRequest { position, hash, append, continuation: Piece::Ids(continuation.clone()) };
        let scored = self.service.score(&self.live[i].id, score).await;
        let Some(tokens) = accepted else {
            assert!(matches!(scored, Err(ServiceError::ContextFull { .. })));
            return true;
        };
        let session = &mut self.live[i];
        session.tokens = tokens;
        let fits = session.prompt + session.tokens.len() + continuation.len() <= CONTEXT;
        match scored {
            Ok(scored) => assert_eq!(scored.tokens.len(), continuation.len()),
            Err(ServiceError::Invalid { .. }) => assert!(continuation.is_empty()),
            Err(ServiceError::ContextFull { .. }) => assert!(!fits),
            Err(other) => panic!("{other}"),
        }
        false
    }

    async fn close(&mut self) -> bool {
        let Some(i) = self.pick() else { return false };
        self.service.close(&self.live[i].id).await.unwrap();
        let session = self.live.remove(i);
        self.closed.push(session.id);
        false
    }

    /// A caller that goes away in the middle: the session is where it was, or where it was asked to
    /// go on from.
    async fn cancel(&mut self) -> bool {
        let Some(i) = self.pick() else { return false };
        let question = self.question(i);
        let before = self.live[i].tokens.clone();
        let accepted = self.accepted(i, question.position, &question.append);
        let patience = Duration::from_micros(self.draw(300) as u64);
        let id = self.live[i].id.clone();
        let answered = timeout(patience, self.service.next(&id, question.clone())).await;
        let mut may_hold = vec![before];
        match (answered, accepted) {
            (Ok(Ok(answer)), Some(mut tokens)) => {
                tokens.extend(answer.tokens.iter().filter_map(|t| t.id));
                may_hold = vec![tokens];
                self.live[i].last = Some((question, answer));
            }
            (Err(_), Some(tokens)) => may_hold.push(tokens),
            (_, None) | (Ok(Err(_)), Some(_)) => {}
        }
        let prefix = |tokens: &Vec<Token>| Prefix {
            position: tokens.len(),
            hash: prefix_hash(id_bytes(tokens)),
        };
        let prefixes: Vec<_> = may_hold.iter().map(prefix).collect();
        let holds = self.holds(i, &prefixes).await;
        self.live[i].tokens = may_hold.swap_remove(holds);
        true
    }

    /// A session that is no more says why.
    async fn gone(&mut self) -> bool {
        let evicted = self.draw(2) == 0;
        let names = if evicted { &self.evicted } else { &self.closed };
        let Some(id) = names.last().cloned() else { return false };
        let error = self.service.close(&id).await.unwrap_err();
        let expected = if evicted { ServiceError::Evicted } else { ServiceError::UnknownSession };
        assert_eq!(error, expected);
        true
    }

    /// Which of these prefixes a session holds: it says so when it is told another.
    async fn holds(&mut self, i: usize, any: &[Prefix]) -> usize {
        self.live[i].sequence += 1;
        let odd = NextRequest {
            sequence: self.live[i].sequence,
            position: 0,
            hash: "another".into(),
            append: Piece::Ids(vec![]),
            want: Amount::Tokens(1),
            sampling: Sampling::default(),
            edge: None,
        };
        match self.service.next(&self.live[i].id, odd).await {
            Err(ServiceError::Conflict { have, .. }) => {
                let found = any.iter().position(|prefix| *prefix == have);
                found.unwrap_or_else(|| panic!("it holds {have:?}, not one of {any:?}"))
            }
            other => panic!("{other:?}"),
        }
    }
}
