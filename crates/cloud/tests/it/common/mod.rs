//! A server that speaks every engine's dialect with a scripted model behind it, and misbehaves on
//! request.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

#[path = "../../../../server/tests/it/common/campaign.rs"]
pub mod campaign;
mod judged;
mod wire;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use decode::{
    Message, Router, Score, Step, Token, Vocabulary,
    fake::{FakeModel, FakeVocabulary},
    sampling,
};
use serde_json::{Value, json};
use tandem_cloud::{EdgeSide, Endpoint, Engine, Opening, Remote, Settings, protocol::Prompt};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use wire::{http, read};

pub const PIECES: &[&str] =
    &[" the", " cat", " sat", ".", ",", "\n", " on", " mat", "中", "é", " 1", "9", "ing", " a"];

/// Trusts nothing in every third position.
pub struct Third;

impl Router for Third {
    fn score(&self, step: &Step) -> Score {
        Score::new(if step.position.is_multiple_of(3) { 0.0 } else { 1.0 })
    }
}

/// One dialect, as a test names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    LlamaServer,
    VllmGenerate,
    VllmCompletions,
    Sglang,
    SglangStreaming,
    OpenAi,
}

impl Dialect {
    pub const ALL: [Self; 6] = [
        Self::LlamaServer,
        Self::VllmGenerate,
        Self::VllmCompletions,
        Self::Sglang,
        Self::SglangStreaming,
        Self::OpenAi,
    ];

    pub fn engine(self) -> Engine {
        match self {
            Self::LlamaServer => Engine::LlamaServer,
            Self::VllmGenerate | Self::VllmCompletions => Engine::Vllm,
            Self::Sglang | Self::SglangStreaming => Engine::Sglang,
            Self::OpenAi => Engine::OpenAi,
        }
    }

    /// The routes of an ask.
    pub fn asks_at(self) -> &'static [&'static str] {
        match self {
            Self::LlamaServer => &["/completion"],
            Self::VllmGenerate => &["/inference/v1/generate", "/v1/completions"],
            Self::VllmCompletions | Self::OpenAi => &["/v1/completions"],
            Self::Sglang | Self::SglangStreaming => &["/generate"],
        }
    }
}

/// How asks are answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Mood {
    Well,
    Hangs,
    /// Sends half of its answer, then resets.
    Resets,
    /// Starts anew when it is asked: every connection is cut, sessions are forgotten, and from then on it
    /// is well.
    Restarts,
    HalfJson,
    Says {
        status: u16,
        headers: String,
        body: String,
    },
    /// Has dropped what it kept of conversations, and is well from then on.
    Evicts,
    /// Answers so much later.
    Late(Duration),
    /// Answers a few bytes at a time.
    Dribbles,
    /// Answers with one token, whatever was asked for.
    Curt,
    /// With more than was asked for.
    Verbose,
    /// With nothing at all, and no end.
    Mute,
    Ids(u32),
    /// A body without an end.
    Endless,
}

#[derive(Clone)]
pub struct Fake {
    pub dialect: Dialect,
    pub url: String,
    pub mood: Arc<Mutex<Mood>>,
    /// Requests seen: method and path, and whether they brought the key.
    pub seen: Arc<Mutex<Vec<(String, bool)>>>,
    pub asks: Arc<AtomicUsize>,
    /// How many ids or bytes of context each ask carried.
    pub carried: Arc<Mutex<Vec<usize>>>,
    /// What each ask was kept apart by, in each of the fields that engines know.
    pub salts: Arc<Mutex<Vec<[Option<String>; 2]>>>,
    /// The slot each ask named.
    pub slots: Arc<Mutex<Vec<Option<i64>>>>,
    model: Arc<Mutex<FakeModel>>,
    /// What each streaming session holds; `None` where it was forgotten.
    streams: Arc<Mutex<Vec<Option<Vec<Token>>>>>,
    restarts: Arc<Notify>,
}

pub fn model(seed: u64) -> FakeModel {
    FakeModel::new(seed, PIECES)
}

pub fn prompt(vocabulary: &FakeVocabulary, messages: &[Message]) -> Vec<Token> {
    let text: Vec<String> =
        messages.iter().map(|m| format!("{}: {}\n", m.role.as_str(), m.content)).collect();
    vocabulary.encode(&text.concat())
}

impl Fake {
    pub async fn start(dialect: Dialect, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            dialect,
            url: format!("http://{}", listener.local_addr().unwrap()),
            mood: Arc::new(Mutex::new(Mood::Well)),
            seen: Arc::default(),
            asks: Arc::default(),
            carried: Arc::default(),
            salts: Arc::default(),
            slots: Arc::default(),
            model: Arc::new(Mutex::new(model(seed))),
            streams: Arc::default(),
            restarts: Arc::default(),
        };
        let server = fake.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let server = server.clone();
                tokio::spawn(async move {
                    let restarted = server.restarts.notified();
                    let served = async { while server.serve(&mut stream).await.is_some() {} };
                    tokio::select! {
                        () = restarted => {}
                        () = served => {}
                    }
                });
            }
        });
        fake
    }

    fn model(&self) -> FakeModel {
        self.model.lock().unwrap().clone()
    }

    /// Serves another model from now on.
    pub fn become_another(&self, model: FakeModel) {
        *self.model.lock().unwrap() = model;
    }

    pub fn feel(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn settings(&self) -> Settings {
        let address = self.url.parse().unwrap();
        let key = Some("sesame".parse().unwrap());
        Settings {
            deadline: Duration::from_millis(1500),
            ..Settings::new(Endpoint { address, key, authority: None })
        }
    }

    /// A conversation with this fake, of an edge with the same vocabulary.
    pub fn remote(&self, settings: Settings) -> Remote {
        Remote::new(settings, self.opening(PIECES)).unwrap()
    }

    /// The same conversation as the fake's model sees it.
    pub fn prompt(&self) -> Vec<Token> {
        prompt(&self.model().vocabulary, &[Message::user("Hello")])
    }

    pub fn opening(&self, edge: &[&str]) -> Opening {
        let vocabulary = Arc::new(FakeVocabulary::new(edge));
        let messages = vec![Message::user("Hello")];
        let probe = prompt(&vocabulary, &tandem_cloud::probe_messages());
        let edge = EdgeSide {
            prompt: prompt(&vocabulary, &messages),
            probe,
            vocabulary: vocabulary.clone(),
        };
        let rendered = (self.dialect == Dialect::OpenAi).then(|| "user: Hello\n".to_owned());
        Opening { prompt: Prompt::Messages(messages), edge: Some(edge), rendered, grammar: None }
    }

    async fn serve(&self, stream: &mut TcpStream) -> Option<()> {
        let (head, body) = read(stream).await?;
        let line: Vec<&str> = head.lines().next()?.split(' ').collect();
        let [method, path] = [line.first()?, line.get(1)?];
        let keyed = head.to_lowercase().contains("authorization: bearer sesame");
        self.seen.lock().unwrap().push((format!("{method} {path}"), keyed));
        let mood = self.mood.lock().unwrap().clone();
        // An empty question only tells whether the route is there.
        let asked = self.dialect.asks_at().contains(path) && body != b"{}";
        if asked {
            self.asks.fetch_add(1, Ordering::SeqCst);
        }
        let good =
            |value: &Value| http(200, "content-type: application/json\r\n", &value.to_string());
        // A server that answers at once does not even look.
        if let (true, Mood::Says { status, headers, body }) = (asked, &mood) {
            return stream.write_all(http(*status, headers, body).as_bytes()).await.ok();
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if asked && mood == Mood::Restarts {
            self.restart();
            return None;
        }
        if asked && mood == Mood::Evicts {
            self.forget();
        }
        if asked && self.has_forgotten(&body) {
            return stream.write_all(http(400, "", "").as_bytes()).await.ok();
        }
        let reply = match (asked, mood) {
            (false, _) => match self.aside(path, &body) {
                Some(value) => good(&value),
                None => match (self.dialect, *path) {
                    (Dialect::VllmGenerate, "/inference/v1/generate") => http(400, "", ""),
                    (_, "/inference/v1/generate") => http(403, "", ""),
                    _ => http(404, "", ""),
                },
            },
            (true, Mood::Well | Mood::Evicts) => good(&self.answer(&body, None)),
            (true, Mood::Late(late)) => {
                tokio::time::sleep(late).await;
                good(&self.answer(&body, None))
            }
            (true, Mood::Dribbles) => {
                for piece in good(&self.answer(&body, None)).as_bytes().chunks(16) {
                    stream.write_all(piece).await.ok()?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return Some(());
            }
            (true, Mood::Curt) => good(&self.answer(&body, Some(1))),
            (true, Mood::Verbose) => good(&self.answer(&body, Some(40))),
            (true, Mood::Mute) => good(&self.answer(&body, Some(0))),
            (true, Mood::Ids(id)) => {
                let text = self.answer(&body, Some(1)).to_string();
                // Whatever was written first is now this id.
                good(&with_id(serde_json::from_str(&text).unwrap(), id))
            }
            (true, Mood::HalfJson) => {
                let whole = self.answer(&body, None).to_string();
                http(200, "content-type: application/json\r\n", &whole[..whole.len() / 2])
            }
            (true, Mood::Says { .. } | Mood::Restarts) => return None,
            (true, Mood::Hangs) => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                return None;
            }
            (true, Mood::Resets) => {
                let whole = good(&self.answer(&body, None));
                stream.write_all(&whole.as_bytes()[..whole.len() - 9]).await.ok()?;
                stream.set_zero_linger().ok()?;
                return None;
            }
            (true, Mood::Endless) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                            transfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await.ok()?;
                let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16));
                loop {
                    stream.write_all(chunk.as_bytes()).await.ok()?;
                }
            }
        };
        stream.write_all(reply.as_bytes()).await.ok()
    }

    fn forget(&self) {
        self.streams.lock().unwrap().iter_mut().for_each(|held| *held = None);
        self.feel(Mood::Well);
    }

    fn restart(&self) {
        self.forget();
        self.restarts.notify_waiters();
    }

    /// Whether an ask is made in a session of before a restart.
    fn has_forgotten(&self, body: &Value) -> bool {
        let streams = self.streams.lock().unwrap();
        stream_of(body).is_some_and(|stream| streams[stream].is_none())
    }

    /// Everything but asks.
    fn aside(&self, path: &str, body: &Value) -> Option<Value> {
        let vocabulary = &self.model().vocabulary;
        let spelled = || {
            let ids = ids(&body["tokens"]);
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| vocabulary.spell(id)).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let messages = || serde_json::from_value::<Vec<Message>>(body["messages"].clone()).ok();
        let models = json!({ "data": [{ "id": "fake", "max_model_len": 4096 }] });
        use Dialect::*;
        Some(match (self.dialect, path) {
            (_, "/v1/models") => models,
            (_, "/health") => json!({}),
            (OpenAi, _) => return None,
            (LlamaServer, "/props") => {
                json!({ "build_info": "b1", "default_generation_settings": { "n_ctx": 4096 } })
            }
            (LlamaServer, "/apply-template") => {
                let ids = prompt(vocabulary, &messages()?);
                let bytes: Vec<u8> = ids.iter().flat_map(|&id| vocabulary.piece(id)).collect();
                json!({ "prompt": String::from_utf8(bytes).unwrap() })
            }
            (Sglang | SglangStreaming, "/model_info") => json!({ "model_path": "fake" }),
            (Sglang | SglangStreaming, "/server_info") => json!({
                "version": "0", "enable_streaming_session": self.dialect == SglangStreaming,
            }),
            (VllmGenerate | VllmCompletions, "/version") => json!({ "version": "0" }),
            (_, "/tokenize") => {
                let text = [&body["content"], &body["prompt"]].into_iter().find_map(Value::as_str);
                let ids = match text {
                    Some(text) => vocabulary.encode(text),
                    None => prompt(vocabulary, &messages()?),
                };
                json!({ "tokens": ids })
            }
            (_, "/detokenize") => {
                let text = spelled();
                json!({ "content": text, "prompt": text, "text": text })
            }
            (SglangStreaming, "/open_session") => {
                let mut streams = self.streams.lock().unwrap();
                streams.push(Some(vec![]));
                json!((streams.len() - 1).to_string())
            }
            (SglangStreaming, "/close_session") => json!(null),
            _ => return None,
        })
    }

    /// One answer, whatever the question.
    pub fn canned(&self) -> Mood {
        let body = json!({ "prompt": self.prompt(), "max_tokens": 1 });
        let headers = "content-type: application/json\r\n".into();
        Mood::Says { status: 200, headers, body: self.answer(&body, None).to_string() }
    }

    /// The scripted model's own continuation, or its judgement.
    fn answer(&self, body: &Value, count: Option<usize>) -> Value {
        if let Some(judged) = self.judged(body) {
            return judged;
        }
        let model = self.model();
        let vocabulary = &model.vocabulary;
        let given = ["prompt", "token_ids", "input_ids", "text"].map(|name| &body[name]);
        let given = given.into_iter().find(|v| !v.is_null()).unwrap();
        let mut context = match given.as_str() {
            Some(text) => vocabulary.encode(text),
            None => ids(given),
        };
        self.carried.lock().unwrap().push(context.len());
        let salt = |name: &str| body[name].as_str().map(String::from);
        self.salts.lock().unwrap().push(["cache_salt", "extra_key"].map(salt));
        self.slots.lock().unwrap().push(body["id_slot"].as_i64());
        let stream = stream_of(body);
        if let Some(stream) = stream {
            let held = self.streams.lock().unwrap()[stream].clone();
            context = [held.unwrap_or_default(), context].concat();
        }
        let prompt = context.len();
        let wanted = [&body["n_predict"], &body["max_tokens"]].into_iter();
        let wanted = wanted.chain([
            &body["sampling_params"]["max_tokens"],
            &body["sampling_params"]["max_new_tokens"],
        ]);
        let wanted = wanted.flat_map(Value::as_u64).next().unwrap() as usize;
        let mut end = false;
        for _ in 0..count.unwrap_or(wanted) {
            let token = sampling::argmax(&model.logits(&context)).unwrap();
            context.push(token);
            end = vocabulary.is_end(token) && count.is_none();
            if end {
                break;
            }
        }
        if let Some(stream) = stream {
            self.streams.lock().unwrap()[stream] = Some(context.clone());
        }
        let written = &context[prompt..];
        let bytes: Vec<u8> = written.iter().flat_map(|&id| vocabulary.piece(id)).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let usage = json!({
            "prompt_tokens": prompt, "completion_tokens": written.len(),
            "prompt_tokens_details": { "cached_tokens": prompt - 1 },
        });
        let finish = if end { "stop" } else { "length" };
        match self.dialect {
            Dialect::LlamaServer => json!({
                "content": text, "tokens": written, "id_slot": 0,
                "stop_type": if end { "eos" } else { "limit" }, "truncated": false,
                "timings": { "cache_n": prompt - 1, "prompt_n": 1, "prompt_ms": 0.0, "predicted_ms": 0.0 },
            }),
            Dialect::VllmGenerate | Dialect::VllmCompletions => json!({
                "usage": usage,
                "choices": [{ "text": text, "token_ids": written, "finish_reason": finish }],
            }),
            Dialect::OpenAi => json!({
                "usage": usage, "choices": [{ "text": text, "finish_reason": finish }],
            }),
            Dialect::Sglang | Dialect::SglangStreaming => json!({
                "text": text, "output_ids": written,
                "meta_info": {
                    "finish_reason": { "type": finish }, "prompt_tokens": prompt,
                    "cached_tokens": prompt - 1,
                },
            }),
        }
    }
}

/// The streaming session that an ask is made in.
fn stream_of(body: &Value) -> Option<usize> {
    body["session_params"]["id"].as_str().map(|id| id.parse().unwrap())
}

fn ids(value: &Value) -> Vec<Token> {
    serde_json::from_value(value.clone()).unwrap()
}

/// The reply with another first id.
fn with_id(mut reply: Value, id: u32) -> Value {
    for path in ["/tokens/0", "/choices/0/token_ids/0", "/output_ids/0"] {
        if let Some(first) = reply.pointer_mut(path) {
            *first = json!(id);
        }
    }
    reply
}
