//! What was accepted, where it came from and where its time went.

use std::{iter::Sum, ops::AddAssign, time::Duration};

use serde::{Serialize, Serializer};

use crate::{Exchange, Score, Token};

/// Who wrote a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The small model, trusted.
    Edge,
    /// The large model.
    Cloud,
    /// The small model, because the large one could not be had.
    Fallback,
}

impl Source {
    /// As traces and results write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Cloud => "cloud",
            Self::Fallback => "fallback",
        }
    }
}

/// Where time went. The parts do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// The edge reading all unread tokens but the last.
    #[serde(rename = "edge_prefill_ms", serialize_with = "milliseconds")]
    pub edge_prefill: Duration,
    /// The edge reading the last token.
    #[serde(rename = "edge_decode_ms", serialize_with = "milliseconds")]
    pub edge_decode: Duration,
    /// Scoring.
    #[serde(rename = "router_ms", serialize_with = "milliseconds")]
    pub router: Duration,
    /// The cloud loading its model: once, and only where it is loaded on demand.
    #[serde(rename = "cloud_load_ms", serialize_with = "milliseconds")]
    pub cloud_load: Duration,
    /// Waiting for other sessions at the cloud.
    #[serde(rename = "cloud_queue_ms", serialize_with = "milliseconds")]
    pub cloud_queue: Duration,
    /// The cloud reading what was appended.
    #[serde(rename = "cloud_prefill_ms", serialize_with = "milliseconds")]
    pub cloud_prefill: Duration,
    /// The cloud writing its answer.
    #[serde(rename = "cloud_decode_ms", serialize_with = "milliseconds")]
    pub cloud_decode: Duration,
    /// The rest of an ask: the way there and back.
    #[serde(rename = "network_ms", serialize_with = "milliseconds")]
    pub network: Duration,
}

/// Writes a duration as a number of milliseconds.
pub fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Whole microseconds: more digits are noise.
    serializer.serialize_f64(duration.as_micros() as f64 / 1000.0)
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.edge_prefill += other.edge_prefill;
        self.edge_decode += other.edge_decode;
        self.router += other.router;
        self.cloud_load += other.cloud_load;
        self.cloud_queue += other.cloud_queue;
        self.cloud_prefill += other.cloud_prefill;
        self.cloud_decode += other.cloud_decode;
        self.network += other.network;
    }
}

impl Sum for Times {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), |mut total, t| {
            total += t;
            total
        })
    }
}

/// What an ask cost the cloud, by its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens the cloud had to read for this answer; `None` where it does not say.
    pub prefilled: Option<usize>,
    /// Tokens it found in its cache; `None` where it does not say.
    pub cached: Option<usize>,
    /// Tokens it wrote, look-ahead included.
    pub decoded: usize,
}

/// One accepted token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accepted {
    /// How many tokens were accepted before it.
    pub index: usize,
    /// Its id, in the vocabulary of the model that reads it next; `None` where a cloud alone writes
    /// and gives no ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Token>,
    /// The characters that became whole with it.
    pub text: String,
    /// Who wrote it.
    pub source: Source,
    /// The router's trust in the edge's proposal; `None` where no router was asked.
    pub score: Option<Score>,
    /// Whether the cloud could have been asked here; `None` while it is not known what will travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eligible: Option<bool>,
    /// `text` on what the cloud wrote where ids could not travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Exchange>,
    /// Where its time went; for a word of several tokens, all on the first.
    pub times: Times,
    /// What the cloud said of the ask; on the first token of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<Usage>,
    /// How likely its writer held it, from raw logits; only where it was asked for, and where the
    /// writer says. A word that was translated has its own on its first token.
    #[serde(skip)]
    pub logprob: Option<f32>,
    /// What the edge held likeliest at this position; only where it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What left this device for the ask; only where it was asked for, on the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
}

/// A token the edge might have written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Its text; what is not a whole character is replaced.
    pub text: String,
    /// Its bytes as they are.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// From raw logits.
    pub probability: f32,
    /// The same as a logarithm.
    #[serde(skip)]
    pub logprob: f32,
}

/// What the cloud was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// What left this device, as it travelled: none where the cloud is in the same process.
    pub bytes: usize,
    /// The words, also where they did not leave it.
    pub text: String,
}

/// Tokens accepted together, from one source, as far as their text is certain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// In order.
    pub tokens: Vec<Accepted>,
    /// At the end of the text only: what stands for a character that never became whole. It
    /// belongs to the last token shown.
    pub rest: String,
}

impl Span {
    /// All its text.
    pub fn text(&self) -> String {
        self.tokens.iter().map(|t| t.text.as_str()).chain([self.rest.as_str()]).collect()
    }
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// End-of-text, or a stop string.
    Stop,
    /// The token limit, or a full context.
    Length,
    /// The caller stopped it.
    Cancelled,
    /// It could not go on; the text so far stands.
    Error,
}

impl FinishReason {
    /// As traces and results write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}
