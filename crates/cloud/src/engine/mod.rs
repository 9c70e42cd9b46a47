//! Serving engines and how each is spoken to.
//!
//! One question serves them all: given this context, what are the next k tokens, how likely were
//! they, and how much of the context came from the cache? A `Dialect` turns it into an engine's
//! request and the engine's reply into an answer: pure both ways, one file an engine.

mod llama_server;
#[cfg(any(test, fuzzing))]
pub mod mutated;
mod openai;
mod sglang;
mod vllm;

use std::{fmt, str::FromStr, time::Duration};

use decode::{Message, Sampling, Times, Token, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::{Piece, ScoredToken};

pub(crate) use llama_server::LlamaServer;
pub(crate) use openai::OpenAi;
pub(crate) use sglang::Sglang;
pub(crate) use vllm::Vllm;

/// Who answers at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Tandem,
    Sglang,
    Vllm,
    LlamaServer,
    /// Anything else that has `/v1/completions`.
    OpenAi,
}

impl Engine {
    pub const ALL: [Self; 5] =
        [Self::Tandem, Self::Sglang, Self::Vllm, Self::LlamaServer, Self::OpenAi];

    /// As users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tandem => "tandem",
            Self::Sglang => "sglang",
            Self::Vllm => "vllm",
            Self::LlamaServer => "llama-server",
            Self::OpenAi => "openai",
        }
    }

    /// As it is spoken of.
    pub fn title(self) -> &'static str {
        match self {
            Self::Tandem => "a Tandem cloud",
            Self::Sglang => "SGLang",
            Self::Vllm => "vLLM",
            Self::LlamaServer => "llama-server",
            Self::OpenAi => "an OpenAI-compatible server",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<_> = Self::ALL.iter().map(|e| e.as_str()).collect();
        let found = Self::ALL.into_iter().find(|e| e.as_str() == text);
        found.ok_or_else(|| format!("no engine is called that: there are {}", names.join(", ")))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineInfo {
    pub version: Option<String>,
    pub model: Option<String>,
    /// Tokens a conversation may have there.
    pub context: Option<usize>,
    /// How many tokens its vocabulary has.
    pub vocabulary: Option<usize>,
    /// How many texts it works on at once.
    pub slots: Option<usize>,
    /// Bytes of its weights, and of its cache for each token.
    pub footprint: Option<(u64, u64)>,
}

/// What stands before the question.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Context<'a> {
    Ids(&'a [Token]),
    Text(&'a str),
}

/// A request to continue a context, before it is put into an engine's own JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub context: Context<'a>,
    pub tokens: usize,
    pub sampling: &'a Sampling,
    /// Of this very position.
    pub seed: u32,
    /// Where the engine keeps this conversation, as it said last time.
    pub slot: Option<i64>,
    /// The engine's own session, which has read everything before this context.
    pub stream: Option<&'a str>,
    /// What keeps this conversation apart from those of others in the engine's cache.
    pub salt: Option<&'a str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Completion {
    /// Without the token that ended the text. `None` where the engine gives none.
    pub ids: Option<Vec<Token>>,
    pub text: String,
    /// Of each token as far as the engine says; in order.
    pub logprobs: Vec<Option<f32>>,
    /// The text ends here.
    pub end: bool,
    /// The context is full here.
    pub full: bool,
    /// What was written counts the token that ended the text.
    pub usage: Usage,
    pub times: Times,
    pub slot: Option<i64>,
    /// The token that ended the text, where the engine tells it.
    pub closing: Option<Token>,
}

/// What to send, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub path: &'static str,
    pub body: Value,
}

impl Request {
    pub fn new(path: &'static str, body: Value) -> Self {
        Self { path, body }
    }
}

pub(crate) type ReplyError = String;

/// Said of an engine that cannot judge a continuation.
pub(crate) const CANNOT_SCORE: &str =
    "gives no log-probabilities of a prompt, so it cannot label: use another cloud for that";

/// How one engine is spoken to. Routes it lacks are `None`.
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    fn engine(&self) -> Engine;

    /// Whether ids can be sent and come back.
    fn has_ids(&self) -> bool {
        true
    }

    /// Whether texts with different salts share nothing of its cache.
    fn takes_salt(&self) -> bool {
        false
    }

    /// What of these parameters it does not know.
    fn lacks(&self, sampling: &Sampling) -> Option<&'static str> {
        counts(sampling)
    }

    fn ask(&self, question: &Question<'_>) -> Request;

    fn answer(&self, reply: &Value) -> Result<Completion, ReplyError>;

    /// Asks the same behind several contexts, in one request.
    fn ask_each(&self, _question: &Question<'_>, _contexts: &[&[Token]]) -> Option<Request> {
        None
    }

    /// The answers to that, in the order of their contexts.
    fn answers(&self, reply: &Value) -> Result<Vec<Completion>, ReplyError> {
        self.answer(reply).map(|one| vec![one])
    }

    /// The ids of a text in which special tokens are read as such. `whole`: the text is a whole
    /// prompt, to which the engine may still have to add a beginning.
    fn tokenize(&self, _text: &str, _whole: bool) -> Option<Request> {
        None
    }

    fn tokens(&self, reply: &Value) -> Result<Vec<Token>, ReplyError> {
        ids(reply.get("tokens"))
    }

    fn detokenize(&self, _ids: &[Token]) -> Option<Request> {
        None
    }

    fn text(&self, _reply: &Value) -> Result<String, ReplyError> {
        Err("it has no route for that".into())
    }

    /// A conversation, ready for the assistant's answer.
    fn template(&self, _messages: &[Message]) -> Option<Request> {
        None
    }

    fn templated(&self, reply: &Value) -> Result<Piece, ReplyError> {
        self.tokens(reply).map(Piece::Ids)
    }

    /// Judges everything behind the first `from` ids in one prefill.
    fn score(&self, _ids: &[Token], _from: usize, _salt: Option<&str>) -> Option<Request> {
        None
    }

    /// For every id from `from` on, in order.
    fn scores(
        &self,
        _reply: &Value,
        _ids: &[Token],
        _from: usize,
    ) -> Result<Vec<ScoredToken>, ReplyError> {
        Err(CANNOT_SCORE.into())
    }

    /// Whether scoring a text costs less than an ask for each place that is doubtful in it.
    fn judges_asks(&self) -> bool {
        false
    }

    /// Opens a session that is sent only what is new.
    fn open_stream(&self) -> Option<Request> {
        None
    }

    fn close_stream(&self, _: &str) -> Option<Request> {
        None
    }
}

/// Sampling as most engines name it. Everything is said: an engine's own defaults, or its model's,
/// would change the answer.
pub(crate) fn sampling(question: &Question<'_>) -> Value {
    let Sampling { temperature, top_p, min_p, .. } = question.sampling;
    json!({
        "temperature": temperature, "top_p": top_p, "min_p": min_p,
        "presence_penalty": 0, "frequency_penalty": 0,
    })
}

/// What an engine that counts a prompt's tokens and those of them in its cache has read.
pub(crate) fn usage(prompt: Option<usize>, cached: Option<usize>, decoded: usize) -> Usage {
    let prefilled = prompt.zip(cached).map(|(prompt, cached)| prompt.saturating_sub(cached));
    Usage { prefilled, cached, decoded, ..Usage::default() }
}

/// What an engine without sessions cannot count: it takes every ask for a new text, and what was
/// written before for a prompt.
pub(crate) fn counts(sampling: &Sampling) -> Option<&'static str> {
    let none = sampling.presence_penalty == 0.0 && sampling.frequency_penalty == 0.0;
    (!none).then_some("cannot count for presence and frequency penalties: leave them out")
}

/// `top_k` where all tokens are -1.
pub(crate) fn top_k(sampling: &Sampling) -> i64 {
    i64::try_from(sampling.top_k).ok().filter(|k| *k > 0).unwrap_or(-1)
}

pub(crate) fn ids(value: Option<&Value>) -> Result<Vec<Token>, ReplyError> {
    let list = value.and_then(Value::as_array).ok_or("no token ids where they should be")?;
    list.iter().map(id).collect()
}

pub(crate) fn id(value: &Value) -> Result<Token, ReplyError> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.map(Token).ok_or_else(|| format!("{value} is no token id"))
}

/// Reads a count; nonsense counts nothing.
pub(crate) fn count(value: &Value, path: &str) -> Option<usize> {
    let count = value.pointer(path)?.as_u64()?;
    u32::try_from(count).ok().map(|n| n as usize)
}

/// Reads a time of another clock, which counts this many units a second; nonsense counts nothing.
pub(crate) fn time(value: &Value, path: &str, units: f64) -> Duration {
    let plausible = Duration::from_secs(24 * 3600);
    let number = value.pointer(path).and_then(Value::as_f64);
    let time = number.and_then(|n| Duration::try_from_secs_f64(n / units).ok());
    time.filter(|time| *time < plausible).unwrap_or_default()
}

pub(crate) fn string(value: &Value, path: &str) -> Option<String> {
    value.pointer(path)?.as_str().map(str::to_owned)
}
