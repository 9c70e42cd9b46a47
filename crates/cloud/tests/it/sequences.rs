//! The session protocol as random sequences of calls, against a model of what it promises.
//!
//! The service is the real one, with a real engine and a made-up model of one tiny layer. One call
//! comes after the other, so that it is known which session has to leave when there is no room.
//! `TANDEM_SEED` and `TANDEM_CALLS` run another sequence, or a longer one.

#[path = "../../../engine/tests/it/gguf/mod.rs"]
mod gguf;

use std::{env, pin::pin, time::Duration};

use decode::{Sampling, Token, sampling};
use engine::{Compute, LoadOptions};
use futures_util::{FutureExt, future::join_all};
use serde_json::to_value;
use tandem_cloud::{
    CloudState, Service, ServiceConfig,
    protocol::{
        Amount, NextRequest, NextResponse, OpenRequest, Piece, Prefix, Prompt, ScoreRequest,
        id_bytes, prefix_hash,
    },
    service::{LazyModel, ServiceError},
};
use tokio::time::timeout;

const SESSIONS: usize = 3;
const CONTEXT: usize = 96;
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

struct Campaign {
    service: Service,
    /// Live sessions, the least recently used first.
    live: Vec<Expected>,
    evicted: Vec<String>,
    closed: Vec<String>,
    seed: u64,
    draws: usize,
    /// How many calls of each kind there were, and how many of them were refused.
    calls: [[usize; 2]; 8],
}

impl Campaign {
    fn draw(&mut self, below: usize) -> usize {
        self.draws += 1;
        (sampling::hash(self.seed, self.draws) >> 20) as usize % below.max(1)
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

    async fn call(&mut self) {
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

#[tokio::test]
async fn the_state_says_when_the_model_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf::model(&path, "default");
    let options = LoadOptions::new(&path, CONTEXT, 1);
    let compute = Compute::start().unwrap();
    let service = Service::new(LazyModel::new(compute.clone(), options), ServiceConfig::default());
    assert_eq!(service.state(), CloudState::NotLoaded);
    // The model's thread has other work first, so that it cannot be done before it is looked at.
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    drop(compute.work(move || held.recv().is_ok()).now_or_never());
    let mut loading = pin!(service.load());
    assert!(loading.as_mut().now_or_never().is_none());
    assert_eq!(service.state(), CloudState::Loading);
    drop(let_go);
    loading.await.unwrap();
    assert_eq!(service.state(), CloudState::Ready);
}

#[tokio::test]
async fn every_sequence_of_calls_does_what_is_promised() {
    let number = |name: &str, usual: u64| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let (seed, calls) = (number("TANDEM_SEED", 7), number("TANDEM_CALLS", 2000));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf::model(&path, "default");
    let options = LoadOptions {
        sequences: SESSIONS,
        cells: CONTEXT * SESSIONS,
        ..LoadOptions::new(&path, CONTEXT, 1)
    };
    let model = LazyModel::new(Compute::start().unwrap(), options);
    let mut campaign = Campaign {
        service: Service::new(model, ServiceConfig::default()),
        live: vec![],
        evicted: vec![],
        closed: vec![],
        seed,
        draws: 0,
        calls: [[0; 2]; 8],
    };
    for _ in 0..calls {
        campaign.call().await;
    }
    let names = ["open", "next", "again", "wrong", "score", "close", "cancel", "gone"];
    for (name, [done, refused]) in names.iter().zip(campaign.calls) {
        println!("{name}: {done} done, {refused} refused or cancelled");
        assert!(calls < 2000 || done + refused > 10, "{name} was hardly tried");
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_refused_by_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    // Words are split by a regular expression that recurses once a character.
    gguf::model(&path, "gpt-4o");
    let context = 2048;
    let options = LoadOptions::new(&path, context, 1);
    let model = LazyModel::new(Compute::start().unwrap(), options);
    let service = Service::new(model, ServiceConfig::default());
    let open = |prompt: Prompt| OpenRequest {
        prompt,
        vocabulary: None,
        from: None,
        edge: None,
        grammar: None,
    };
    let many = vec![decode::Message::user(""); context + 1];
    let bytes = |length: usize| Prompt::Text("a".repeat(length));
    // The longest token counts as 16 bytes here: the last two are tokenized, apart from the rest.
    for (prompt, least) in [
        (Prompt::Messages(many), context + 1),
        (bytes(4_000_000), 250_000),
        (bytes(33_000), 2063),
        (bytes(30_000), 15_000),
        (bytes(5_000), 2500),
    ] {
        match service.open(open(prompt)).await {
            Err(ServiceError::ContextFull { tokens, context: 2048 }) => {
                assert!(tokens.abs_diff(least) <= 1, "{tokens}, not {least}");
            }
            other => panic!("{other:?}"),
        }
    }
    // A long text that fits is opened, and one that is appended does not stay if it does not fit.
    let opened = service.open(open(bytes(4_000))).await.unwrap();
    let append = |text: &str| NextRequest {
        sequence: 1,
        position: 0,
        hash: prefix_hash(""),
        append: Piece::Text(text.into()),
        want: Amount::Tokens(1),
        sampling: Sampling::default(),
        edge: None,
    };
    let refused = service.next(&opened.session, append(&"a".repeat(5_000))).await.unwrap_err();
    // Ids travel here, so that text is refused for what it is.
    assert!(matches!(refused, ServiceError::Invalid { .. }), "{refused}");
    let foreign = Some(decode::Fingerprint("another".into()));
    let words = OpenRequest { vocabulary: foreign, ..open(bytes(100)) };
    let opened = service.open(words).await.unwrap();
    let refused = service.next(&opened.session, append(&"a".repeat(9_000))).await.unwrap_err();
    assert!(matches!(refused, ServiceError::ContextFull { .. }), "{refused}");
    // It is where it was: the same prefix is the session's still.
    let answer = service.next(&opened.session, append("ab")).await.unwrap();
    assert!(answer.cost.prefilled < 200, "{:?}", answer.cost);
}

#[tokio::test]
async fn few_calls_wait_for_one_session_and_none_with_what_cannot_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf::model(&path, "default");
    let compute = Compute::start().unwrap();
    let model = LazyModel::new(compute.clone(), LoadOptions::new(&path, CONTEXT, 1));
    let service = Service::new(model, ServiceConfig::default());
    let opened = service
        .open(OpenRequest {
            prompt: Prompt::Text("ab".into()),
            vocabulary: None,
            from: None,
            edge: None,
            grammar: None,
        })
        .await;
    // Keeps the model's thread until it is let go: so short a text may be written before it is looked at.
    let occupied = || {
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        drop(compute.work(move || held.recv().is_ok()).now_or_never());
        let_go
    };
    let id = opened.unwrap().session;
    let question = |append: Vec<Token>| NextRequest {
        sequence: 1,
        position: 0,
        hash: prefix_hash(""),
        append: Piece::Ids(append),
        want: Amount::Tokens(2),
        sampling: Sampling::default(),
        edge: None,
    };
    // The first is at work, and all of them ask the same.
    let let_go = occupied();
    let mut all = pin!(join_all((0..100).map(|_| service.next(&id, question(vec![])))));
    assert!(all.as_mut().now_or_never().is_none());
    drop(let_go);
    let answers = all.await;
    let busy = answers.iter().filter(|answer| matches!(answer, Err(ServiceError::Busy))).count();
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!((answered, busy), (33, 67));
    let score = |continuation: Vec<Token>| ScoreRequest {
        position: 0,
        hash: prefix_hash(""),
        append: Piece::Ids(vec![]),
        continuation: Piece::Ids(continuation),
    };
    let let_go = occupied();
    let mut working = pin!(service.score(&id, score(vec![Token(65), Token(66)])));
    assert!(working.as_mut().now_or_never().is_none());
    let long = vec![Token(65); CONTEXT + 1];
    let next = service.next(&id, question(long.clone())).now_or_never();
    assert!(matches!(next, Some(Err(ServiceError::ContextFull { .. }))), "{next:?}");
    let scored = service.score(&id, score(long)).now_or_never();
    assert!(matches!(scored, Some(Err(ServiceError::ContextFull { .. }))), "{scored:?}");
    drop(let_go);
    assert_eq!(working.await.unwrap().tokens.len(), 2);
}
