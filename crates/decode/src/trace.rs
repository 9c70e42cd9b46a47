//! What is recorded of every accepted token: its source, its score and where its time went.

use std::{iter::Sum, ops::AddAssign, time::Duration};

use serde::{Serialize, Serializer};

use crate::{Constrained, Exchange, Score, Token};

/// Who wrote a token: `edge`, `cloud`, or `fallback`, the edge where the cloud was asked and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The small model, where the router trusted it or no cloud could be asked.
    #[default]
    Edge,
    /// The large model, asked because the score was below the threshold.
    Cloud,
    /// The small model, because the large one was asked and failed.
    Fallback,
}

impl Source {
    /// The name written in traces and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Cloud => "cloud",
            Self::Fallback => "fallback",
        }
    }
}

/// How a token stood to what the edge wrote while an answer was on its way: read before it was certain
/// that the text would come here; the answer, as expected; another of the edge's choices, which it had gone
/// on behind too; one that it had not; or one that had come with an earlier answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Speculation {
    /// The edge had read up to here before it was certain that the text would come here.
    Provisional,
    /// The cloud's answer was what the edge had gone on behind.
    Confirmed,
    /// The cloud's answer was another of the edge's choices, and the edge had gone on behind that too.
    Branch,
    /// The cloud judged this place together with others, and agreed with what the edge had gone on behind.
    Judged,
    /// The cloud's answer was another: what the edge had written behind its own choice was void.
    Contradicted,
    /// The cloud had said it with an earlier answer.
    Foreseen,
}

/// Where the time of a token or a text was spent. The parts do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Times {
    /// The edge reading all unread tokens but the last.
    #[serde(rename = "edge_prefill_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub edge_prefill: Duration,
    /// The edge reading the last token.
    #[serde(rename = "edge_decode_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub edge_decode: Duration,
    /// The router scoring the step.
    #[serde(rename = "router_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub router: Duration,
    /// The cloud loading its model: once, and only where it is loaded on demand.
    #[serde(rename = "cloud_load_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cloud_load: Duration,
    /// Waiting for other sessions at the cloud.
    #[serde(rename = "cloud_queue_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cloud_queue: Duration,
    /// The cloud reading what was appended.
    #[serde(rename = "cloud_prefill_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cloud_prefill: Duration,
    /// The cloud writing its answer.
    #[serde(rename = "cloud_decode_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cloud_decode: Duration,
    /// The rest of an ask: the round trip over the network, and encoding the messages.
    #[serde(rename = "network_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub network: Duration,
    /// The part of an ask in which nothing waited for it, because the edge went on. It is in none of
    /// the others.
    #[serde(rename = "hidden_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub hidden: Duration,
}

impl Times {
    /// The times of an ask of which only `waited` was waited for. What was hidden is taken from the
    /// way first, then from the cloud's work.
    pub(crate) fn waited(mut self, waited: Duration) -> Self {
        let parts = [
            &mut self.network,
            &mut self.cloud_queue,
            &mut self.cloud_decode,
            &mut self.cloud_prefill,
            &mut self.cloud_load,
        ];
        let whole: Duration = parts.iter().map(|part| **part).sum();
        let mut left = whole.saturating_sub(waited);
        for part in parts {
            let hidden = left.min(*part);
            *part -= hidden;
            left -= hidden;
        }
        self.hidden += whole.saturating_sub(waited);
        self
    }
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
        self.hidden += other.hidden;
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

/// What an ask cost the cloud, by the cloud's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = AskUsage))]
pub struct Usage {
    /// Tokens the cloud had to read for this answer; unknown where the engine does not report it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub prefilled: Option<usize>,
    /// Tokens it found in its cache; unknown where the engine does not report it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub cached: Option<usize>,
    /// Tokens it wrote, look-ahead included.
    pub decoded: usize,
    /// Which of several clouds answered, counted from 1 in the order they were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<usize>,
    /// How often another of them had to take over so far. Not since the answer before: that one may have
    /// been void.
    #[serde(skip_serializing_if = "is_zero")]
    pub failovers: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One accepted token with its provenance: one line of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Token))]
pub struct Accepted {
    /// How many tokens were accepted before it.
    pub index: usize,
    /// Its id, in the vocabulary of the model that reads it next; absent in mode `large` where the
    /// cloud returns no ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u32>, nullable = false))]
    pub id: Option<Token>,
    /// The characters that became whole with it.
    pub text: String,
    /// Which model wrote it, and why that one.
    pub source: Source,
    /// The router's trust in the edge's proposal, if there is a router.
    #[cfg_attr(feature = "schema", schema(value_type = Option<f32>, required = true))]
    pub score: Option<Score>,
    /// Whether the cloud could have been asked here; absent until the first ask has shown whether
    /// ids or text are exchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub eligible: Option<bool>,
    /// Whether ids or text were exchanged for it; set on tokens of the cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub exchange: Option<Exchange>,
    /// Set where the text is held to a form and that decided about the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub constrained: Option<Constrained>,
    /// Where its time was spent; for a word of several tokens, all of it is on the first.
    pub times: Times,
    /// What the ask cost the cloud; on the first token of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub cloud: Option<Usage>,
    /// How it stood to what the edge wrote while an answer was on its way; absent where the edge
    /// waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub speculation: Option<Speculation>,
    /// The log-probability that the model that wrote it gave it, from raw logits. Only with
    /// details, and only where that model reports it. A word that was translated into the edge's
    /// tokens has the log-probability of the whole word on its first token.
    #[serde(skip)]
    pub logprob: Option<f32>,
    /// The edge's most likely tokens at this position; only with details.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The text that was sent to the cloud for this ask; only with details, on the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub sent: Option<String>,
}

/// A token that the edge might have written, with its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Alternative {
    /// Its text, with U+FFFD in place of incomplete characters.
    pub text: String,
    /// Its exact bytes, which may end inside a character.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// The softmax of the raw logits, before temperature and penalties.
    pub probability: f32,
    /// The natural logarithm of `probability`.
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
    /// The tokens that became visible, in order.
    pub tokens: Vec<Accepted>,
    /// U+FFFD for a character that was still incomplete when the text ended; empty before that.
    /// It belongs to the last token shown.
    pub rest: String,
}

impl Span {
    /// The text of all its tokens and the rest, joined.
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
    /// A model failed; the text written before stays valid.
    Error,
}

impl FinishReason {
    /// The name written in traces and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}
