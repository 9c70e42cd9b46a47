//! The trait of the large model, wherever it runs, and the types of an ask and its answer.

use std::{future::Future, pin::Pin, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Sampling, Step, Token,
    trace::{Sent, Times, Usage},
};

/// What edge and cloud exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    /// Token ids: both models have the same vocabulary. Every position can be routed.
    Ids,
    /// Text, one word an answer, at positions that are a word boundary for both.
    Text,
}

/// What opening the cloud found out.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    /// Ids where both models have the same vocabulary and the engine can take them, else text.
    pub exchange: Exchange,
    /// How long it took, for example to load the model.
    pub times: Times,
}

/// How much text an ask wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerLength {
    /// At most this many tokens.
    Tokens(usize),
    /// One whole word. The cloud looks ahead as far as it needs to see where the word ends.
    Word,
}

/// Asks what comes after everything accepted so far.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Everything accepted since the prompt, as ids.
    pub tokens: &'a [Token],
    /// Everything accepted since the prompt, as text.
    pub text: &'a str,
    /// How much text to return.
    pub want: AnswerLength,
    /// The parameters the cloud samples with: the session's own.
    pub sampling: &'a Sampling,
}

/// The next tokens, as the cloud wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// May be empty: with `end`, the cloud says that the text is finished.
    pub tokens: Vec<AnswerToken>,
    /// The text ends after these tokens.
    pub end: bool,
    /// The cloud's context is full after these tokens.
    pub full: bool,
    /// It was judged together with other places, in one request.
    pub judged: bool,
    /// Tokens that the cloud read and wrote for this answer.
    pub usage: Usage,
    /// Time spent at the cloud and on the way there and back.
    pub times: Times,
}

/// One token of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerToken {
    /// In the cloud's vocabulary; `None` where the cloud gives text alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Token>,
    /// The characters that became whole with it.
    pub text: String,
    /// The log-probability from raw logits; `None` where the engine does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprob: Option<f32>,
}

impl Answer {
    /// The text of all tokens, joined.
    pub fn text(&self) -> String {
        self.tokens.iter().map(|t| t.text.as_str()).collect()
    }

    /// The log-probabilities of so many tokens. A word was translated into other tokens: the first of
    /// them carries the log-probability of the word, and the others follow from it with certainty.
    pub(crate) fn logprobs(&self, want: AnswerLength, count: usize) -> Vec<Option<f32>> {
        match want {
            AnswerLength::Tokens(_) => self.tokens.iter().map(|t| t.logprob).collect(),
            AnswerLength::Word => {
                let word: Option<f32> = self.tokens.iter().map(|t| t.logprob).sum();
                let behind = std::iter::repeat_n(word.map(|_| 0.0), count.saturating_sub(1));
                [word].into_iter().chain(behind).collect()
            }
        }
    }
}

/// What to do when the cloud fails in the middle of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCloudError {
    /// The edge's own token is accepted and marked; the cloud is asked again later.
    #[default]
    Keep,
    /// The text waits until the cloud is back. An error that waiting cannot cure ends it.
    Wait,
    /// The text ends with an error.
    Fail,
}

impl FromStr for OnCloudError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "keep" => Ok(Self::Keep),
            "wait" => Ok(Self::Wait),
            "fail" => Ok(Self::Fail),
            _ => Err(format!("{text:?} is not keep, wait or fail")),
        }
    }
}

/// Why the cloud gave no answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say what each error and its fields are")]
pub enum CloudError {
    #[error("the cloud at {url} cannot be reached: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("the cloud at {url} did not answer within {} s", after.as_secs_f32())]
    TimedOut { url: String, after: Duration },
    #[error("the cloud refused: {message} (status {status})")]
    Refused { status: u16, message: String, retry_after: Option<Duration> },
    /// Redirects are not followed: the key must not reach another server.
    #[error("{url} redirects to {target}: if that is your cloud, give that address")]
    Redirected { url: String, target: String },
    #[error(
        "{url} does not answer like {engine}: {reason}; check the address and the kind of engine"
    )]
    InvalidAnswer { url: String, engine: &'static str, reason: String },
    /// The circuit breaker is open: the cloud is not asked until `left` has passed.
    #[error("the cloud failed and is not asked again for {:.1} s: {last}", left.as_secs_f32())]
    CircuitOpen { left: Duration, last: Box<CloudError> },
    /// Clouds of one list must serve one model: nobody could tell whose words a text has otherwise.
    #[error("the cloud at {url} is not asked: it serves another model than {known} ({reason})")]
    AnotherModel { url: String, known: String, reason: String },
    #[error("the cloud is not asked in offline mode")]
    Offline,
    #[error(
        "the conversation no longer fits the cloud's context: start the cloud with a larger one"
    )]
    ContextFull,
    #[error("the cloud was asked before it was opened")]
    NotOpened,
    #[error("{engine} takes only text and has no chat template: give one with --cloud-template")]
    NoTemplate { engine: &'static str },
    #[error("{engine} {what}")]
    Unsupported { engine: &'static str, what: &'static str },
    #[error("{engine}'s session no longer holds the text that was sent to it")]
    OutOfSync { engine: &'static str },
    #[error(
        "the cloud returned token {}, which is not in the vocabulary that both models claim to have",
        id.0
    )]
    UnknownToken { id: Token },
    #[error("the cloud returned no token id for {text:?}, although ids are exchanged")]
    MissingToken { text: String },
    #[error("the edge's tokenizer cannot write the cloud's word {word:?}")]
    Untranslatable { word: String },
}

impl CloudError {
    /// Whether the server or the network is at fault rather than the request.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::TimedOut { .. }
                | Self::Refused { .. }
                | Self::Redirected { .. }
                | Self::InvalidAnswer { .. }
        )
    }

    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status, 408 | 429 | 500..=599) && !matches!(status, 501 | 505)
            }
            Self::CircuitOpen { last, .. } => last.is_temporary(),
            _ => false,
        }
    }
}

/// What is written tentatively, for the cloud to judge.
#[derive(Clone, Copy, Debug)]
pub enum Draft<'a> {
    /// Where ids are exchanged.
    Ids(&'a [Token]),
    /// Where text is.
    Text(&'a str),
}

/// One token of a draft, in the cloud's vocabulary; without ids, a piece of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The token of the draft.
    pub given: AnswerToken,
    /// What the cloud would have written there.
    pub greedy: AnswerToken,
}

impl Judged {
    /// Whether the cloud would have written what was given. An engine that takes text alone gives no ids.
    pub fn agrees(&self) -> bool {
        match (self.given.id, self.greedy.id) {
            (Some(given), Some(greedy)) => given == greedy,
            (None, _) | (_, None) => self.given.text == self.greedy.text,
        }
    }
}

/// What the cloud thinks of a draft.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// Every token of the draft, or as many from its beginning as were judged.
    pub tokens: Vec<Judged>,
    /// Tokens that the cloud read for it.
    pub usage: Usage,
    /// Time spent at the cloud and on the way there and back.
    pub times: Times,
}

/// What a cloud is still about to say. It needs nothing of the cloud any more; dropping it gives it up.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, CloudError>> + Send>>;

/// An answer that is on its way.
pub type PendingAnswer = Pending<Answer>;

/// The large model with its cache of one conversation.
pub trait Cloud: Send {
    /// Connects and finds out what to exchange. Called once, before the first ask.
    fn open(&mut self) -> impl Future<Output = Result<Handshake, CloudError>> + Send;

    /// Begins to open it, and returns at once: the edge can read its prompt meanwhile. `None` where
    /// that can only be waited for, by [`open`](Self::open).
    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        None
    }

    /// Asks for the next tokens. Sends only what is new since the last ask.
    fn next(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer, CloudError>> + Send;

    /// Begins an ask and returns at once: the edge can go on, and ask again, while the answer is on its
    /// way. Asks may then be about a text that is taken back later. `None` where the cloud can only
    /// be waited for, by [`next`](Self::next).
    fn begin(&mut self, _ask: Ask<'_>) -> Option<PendingAnswer> {
        None
    }

    /// Judges a draft behind everything accepted so far, in one pass; nothing of it is accepted.
    fn judge(
        &mut self,
        _ask: Ask<'_>,
        _draft: Draft<'_>,
    ) -> impl Future<Output = Result<Judgement, CloudError>> + Send {
        let what = "cannot judge a draft: use another cloud for mode verify";
        async move { Err(CloudError::Unsupported { engine: "this cloud", what }) }
    }

    /// Whether judging several places with one request costs this cloud less than an ask for each. Known
    /// once it is open.
    fn judges_asks(&self) -> bool {
        false
    }

    /// Begins to judge a draft behind this text, and returns at once, as [`begin`](Self::begin) does.
    /// `None` where [`judges_asks`](Self::judges_asks) is false.
    fn begin_judge(&mut self, _ask: Ask<'_>, _draft: Draft<'_>) -> Option<Pending<Judgement>> {
        None
    }

    /// Gets the edge's step at the position of the next ask, right before it. A cloud that collects
    /// training samples sends it along; others ignore it.
    fn record_step(&mut self, _step: &Step) {}

    /// Returns what was sent since the last call, and resets the count.
    fn take_sent(&mut self) -> Sent {
        Sent::default()
    }
}

impl<C: Cloud> Cloud for &mut C {
    fn open(&mut self) -> impl Future<Output = Result<Handshake, CloudError>> + Send {
        (**self).open()
    }

    fn begin_open(&mut self) -> Option<Pending<Handshake>> {
        (**self).begin_open()
    }

    fn next(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer, CloudError>> + Send {
        (**self).next(ask)
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        (**self).begin(ask)
    }

    fn judge(
        &mut self,
        ask: Ask<'_>,
        draft: Draft<'_>,
    ) -> impl Future<Output = Result<Judgement, CloudError>> + Send {
        (**self).judge(ask, draft)
    }

    fn judges_asks(&self) -> bool {
        (**self).judges_asks()
    }

    fn begin_judge(&mut self, ask: Ask<'_>, draft: Draft<'_>) -> Option<Pending<Judgement>> {
        (**self).begin_judge(ask, draft)
    }

    fn record_step(&mut self, step: &Step) {
        (**self).record_step(step);
    }

    fn take_sent(&mut self) -> Sent {
        (**self).take_sent()
    }
}
