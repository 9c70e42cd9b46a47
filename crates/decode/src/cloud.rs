//! The seam to the large model, wherever it runs.

use std::{future::Future, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Sampling, Step, Token,
    trace::{Sent, Times, Usage},
};

/// What travels between edge and cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    /// Token ids: both models have the same vocabulary. Every position can be routed.
    Ids,
    /// Text, one word an answer, at positions that are a word boundary for both.
    Text,
}

/// The cloud is ready.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// What will travel.
    pub exchange: Exchange,
    /// What it took to get ready.
    pub times: Times,
}

/// How much is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// At most this many tokens.
    Tokens(usize),
    /// One word, whole.
    Word,
}

/// A question: what comes after everything accepted so far?
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Everything accepted since the prompt, as ids.
    pub tokens: &'a [Token],
    /// The same as text.
    pub text: &'a str,
    /// How much is wanted.
    pub want: Want,
    /// How the cloud is to choose.
    pub sampling: &'a Sampling,
}

/// The cloud's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Its tokens in order.
    pub tokens: Vec<Answered>,
    /// The text ends behind these tokens.
    pub end: bool,
    /// The cloud's context is full behind these tokens.
    pub full: bool,
    /// What it cost.
    pub usage: Usage,
    /// Where the time went.
    pub times: Times,
}

/// One token of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// In the cloud's vocabulary; `None` where the cloud gives text alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Token>,
    /// The characters that became whole with it.
    pub text: String,
    /// How likely the cloud held it, from raw logits; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprob: Option<f32>,
}

impl Answer {
    /// The tokens' text.
    pub fn text(&self) -> String {
        self.tokens.iter().map(|t| t.text.as_str()).collect()
    }
}

/// What a failure of the cloud means for the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCloudError {
    /// The edge's own token is accepted and marked; the cloud is asked again later.
    #[default]
    Keep,
    /// The text waits until the cloud is back; what waiting cannot mend ends it.
    Wait,
    /// The text ends here.
    Fail,
}

impl FromStr for OnCloudError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "keep" => Ok(Self::Keep),
            "wait" => Ok(Self::Wait),
            "fail" => Ok(Self::Fail),
            _ => Err(format!("{text:?} is none of keep, wait and fail")),
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CloudError {
    /// Nobody there, or the connection broke.
    #[error("the cloud at {url} cannot be reached: {reason}")]
    Unreachable {
        /// Whom we asked.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// No answer in time.
    #[error("the cloud at {url} did not answer within {} s", after.as_secs_f32())]
    TooLate {
        /// Whom we asked.
        url: String,
        /// How long we waited.
        after: Duration,
    },
    /// A clear no.
    #[error("the cloud refused: {message} (status {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
        /// When it may be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// It sends us elsewhere, where the key must not follow.
    #[error("{url} redirects to {target}: if that is your cloud, give that address")]
    Redirected {
        /// Whom we asked.
        url: String,
        /// Where it points.
        target: String,
    },
    /// Something that is not an answer.
    #[error("{url} does not answer like {engine}: {reason}; is it one?")]
    Garbled {
        /// Whom we asked.
        url: String,
        /// Whom we took it for.
        engine: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// It failed before and is left alone for a while.
    #[error("the cloud is left alone for {:.1} s more after failing: {last}", left.as_secs_f32())]
    Resting {
        /// Until it is asked again.
        left: Duration,
        /// What happened last.
        last: Box<CloudError>,
    },
    /// No network was wanted.
    #[error("offline: no cloud is asked")]
    Offline,
    /// The conversation no longer fits.
    #[error("the conversation no longer fits the cloud's context: raise it there")]
    ContextFull,
    /// Asked before it was opened, or where there is none.
    #[error("no cloud was opened")]
    NotOpened,
    /// A cloud that takes only text cannot be given messages.
    #[error("{engine} takes only text and has no chat template: give one with --cloud-template")]
    NoTemplate {
        /// Which engine.
        engine: &'static str,
    },
    /// The engine cannot do this.
    #[error("{engine} {what}")]
    Unsupported {
        /// Which engine.
        engine: &'static str,
        /// What it lacks.
        what: &'static str,
    },
    /// An engine's session does not hold what it should.
    #[error("{engine} lost step with its own session")]
    LostStep {
        /// Which engine.
        engine: &'static str,
    },
    /// An id outside the vocabulary both sides said they share.
    #[error("token {} is not in the vocabulary the two models are said to share", id.0)]
    UnknownToken {
        /// The id.
        id: Token,
    },
    /// No id where ids travel.
    #[error("the cloud gave no token id for {text:?}, where ids were agreed on")]
    MissingToken {
        /// What it gave.
        text: String,
    },
    /// The edge's tokenizer cannot write the word.
    #[error("the edge's tokenizer cannot write the cloud's word {word:?}")]
    Untranslatable {
        /// The word.
        word: String,
    },
}

impl CloudError {
    /// Whether it is the server's or the network's doing, and not the question's.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::TooLate { .. }
                | Self::Refused { .. }
                | Self::Redirected { .. }
                | Self::Garbled { .. }
        )
    }

    /// Whether the same question may be answered later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TooLate { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status, 408 | 429 | 500..=599) && !matches!(status, 501 | 505)
            }
            Self::Resting { last, .. } => last.is_temporary(),
            _ => false,
        }
    }
}

/// The large model with its cache of one conversation.
pub trait Cloud: Send {
    /// Gets ready, once; the conversation was given when the cloud was made.
    fn open(&mut self) -> impl Future<Output = Result<Opened, CloudError>> + Send;

    /// The next tokens. Sends only what is new since the last ask.
    fn next(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer, CloudError>> + Send;

    /// Shows what the edge record_step where the next ask is about to be made, to a cloud that may pass it
    /// on. Most do not look.
    fn record_step(&mut self, _step: &Step) {}

    /// Takes the account of what left this device since it was last taken.
    fn take_sent(&mut self) -> Sent {
        Sent::default()
    }
}

impl<C: Cloud> Cloud for &mut C {
    fn open(&mut self) -> impl Future<Output = Result<Opened, CloudError>> + Send {
        (**self).open()
    }

    fn next(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer, CloudError>> + Send {
        (**self).next(ask)
    }

    fn record_step(&mut self, step: &Step) {
        (**self).record_step(step);
    }

    fn take_sent(&mut self) -> Sent {
        (**self).take_sent()
    }
}
