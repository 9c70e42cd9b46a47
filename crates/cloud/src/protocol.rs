//! The session protocol: JSON over HTTP, and the same types by value when the cloud is in the same
//! process.
//!
//! | request | carries | answers |
//! |---|---|---|
//! | `POST /v1/sessions` | [`OpenRequest`] | [`OpenResponse`] |
//! | `POST /v1/sessions/{id}/next` | [`NextRequest`] | [`NextResponse`] |
//! | `POST /v1/sessions/{id}/score` | [`ScoreRequest`] | [`ScoreResponse`] |
//! | `DELETE /v1/sessions/{id}` | – | 204 |
//! | `GET /health` | – | [`Health`] |
//!
//! A position counts what was accepted behind the prompt: tokens where ids travel, UTF-8 bytes
//! where text does. A lower position than the cloud's truncates; a higher one, or another hash of
//! the prefix, is 409 with what the cloud has ([`ErrorResponse::have`]). The same sequence number gets
//! the same answer. A session that was evicted is 410, one never heard of 404: open a new one.

use decode::{AnswerToken, Draft, Exchange, Fingerprint, Message, Sampling, Token};
use engine::Grammar;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How a conversation begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prompt {
    /// Messages, for the cloud's own chat template.
    Messages(Vec<Message>),
    /// Plain text to be continued.
    Text(String),
    /// Ids of the cloud's own vocabulary.
    Tokens(Vec<Token>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    pub prompt: Prompt,
    /// The edge's vocabulary. Ids travel if it is the cloud's, or if there is no edge at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<Fingerprint>,
    /// A session of the caller's whose cache this one takes over; that session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The edge, where it offers its states to a cloud that collects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<EdgeModel>,
    /// The form that the edge holds the text to, so that answers fit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
}

/// Whose states are shared: they mean nothing beside another model's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeModel {
    pub name: String,
    /// Of the model and its adapters, by their contents.
    pub fingerprint: String,
    /// The length of its hidden state.
    pub hidden: usize,
}

/// A session is open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenResponse {
    /// Its name, and the right to use it.
    pub session: String,
    pub exchange: Exchange,
    pub vocabulary: Fingerprint,
    /// Tokens the session may hold.
    pub context: usize,
    /// Time spent loading the model, where this call did.
    pub load_ms: f64,
    /// What becomes of the edge's states, where it offered them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
}

/// A cloud's word on states it was offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    Welcome,
    Refused(String),
}

/// Ids or text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Piece {
    Ids(Vec<Token>),
    Text(String),
}

impl From<Draft<'_>> for Piece {
    fn from(draft: Draft<'_>) -> Self {
        match draft {
            Draft::Ids(ids) => Self::Ids(ids.to_vec()),
            Draft::Text(text) => Self::Text(text.to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// `{"tokens": n}`: at most n tokens.
    Tokens(usize),
    /// `{"word": true}`: one word, whole.
    Word(bool),
}

/// A prefix of what was accepted, so that two sides can tell whether they mean the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    pub position: usize,
    /// [`prefix_hash`] of it.
    pub hash: String,
}

/// Asks for what comes next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextRequest {
    /// Counts the caller's questions; a repeated one gets the same answer.
    pub sequence: u64,
    /// How much of the conversation both sides share.
    pub position: usize,
    /// [`prefix_hash`] of that.
    pub hash: String,
    /// What was accepted since.
    pub append: Piece,
    pub want: Amount,
    #[serde(default)]
    pub sampling: Sampling,
    /// What the edge saw here, where the cloud welcomed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<EdgeState>,
}

/// What the edge saw at a position; made and read in [`decoded_state`](crate::decoded_state).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeState {
    /// The token it would have written.
    pub proposed: Token,
    /// That token's bytes in base64, where text travels; empty for the end of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<String>,
    /// Its hidden state: base64 of little-endian half-precision numbers.
    pub hidden: String,
    /// The [shape](mod@decode::features) of its distribution.
    pub features: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    Stop,
    Length,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NextResponse {
    pub tokens: Vec<AnswerToken>,
    /// `None` when only the wanted amount was reached.
    pub finish_reason: Option<FinishReason>,
    #[serde(flatten)]
    pub cost: Cost,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Tokens that were passed to the model before the answer.
    pub prefilled: usize,
    /// Tokens that were in its cache.
    pub cached: usize,
    /// Tokens the model wrote, look-ahead included.
    pub decoded: usize,
    /// Waiting for other sessions.
    pub queued_ms: f64,
    /// Reading what was appended.
    pub prefill_ms: f64,
    /// Writing the answer.
    pub decode_ms: f64,
}

/// Asks how likely a continuation is, from where [`NextRequest`] would go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRequest {
    pub position: usize,
    pub hash: String,
    pub append: Piece,
    /// What is to be judged; it is not accepted.
    pub continuation: Piece,
}

/// What the cloud thinks of a continuation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScoreResponse {
    pub tokens: Vec<ScoredToken>,
    #[serde(flatten)]
    pub cost: Cost,
}

/// One token of a continuation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScoredToken {
    #[serde(flatten)]
    pub given: AnswerToken,
    /// What the cloud would have chosen.
    pub greedy: AnswerToken,
}

impl ScoredToken {
    /// From ids and their log-probabilities, of engines that give no texts.
    pub(crate) fn of_ids(given: (Token, f32), greedy: (Token, f32)) -> Self {
        let token = |(id, logprob)| AnswerToken {
            id: Some(id),
            text: String::new(),
            logprob: Some(logprob),
        };
        Self { given: token(given), greedy: token(greedy) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorResponse {
    pub error: ErrorDetail,
    /// With 409: where the cloud stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub have: Option<Prefix>,
}

/// An error in OpenAI's shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorDetail {
    pub message: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// For programs: one of [`code`].
    pub code: String,
}

/// What [`ErrorDetail::code`] can be.
pub mod code {
    pub const INVALID: &str = "invalid_request";
    pub const UNAUTHORIZED: &str = "unauthorized";
    pub const NOT_FOUND: &str = "not_found";
    pub const TOO_LARGE: &str = "too_large";
    /// Position, prefix or sequence number are not the cloud's.
    pub const CONFLICT: &str = "conflict";
    pub const EVICTED: &str = "evicted";
    /// There never was such a session, or not since this server started.
    pub const UNKNOWN_SESSION: &str = "unknown_session";
    /// The conversation does not fit the context.
    pub const CONTEXT_FULL: &str = "context_full";
    pub const BUSY: &str = "busy";
    pub const MODEL: &str = "model_failed";
    pub const INTERNAL: &str = "internal_error";
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Health {
    pub status: String,
    pub service: String,
    pub version: String,
    /// Whether the model is in memory yet.
    pub loaded: bool,
    pub sessions: usize,
    /// Bytes of its weights, and of its cache for each token; known once it is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<(u64, u64)>,
}

/// Names a prefix, so that two sides can tell whether they mean the same.
pub fn prefix_hash(bytes: impl AsRef<[u8]>) -> String {
    decode::hex(&Sha256::digest(bytes)[..8])
}

/// The bytes of a prefix of ids.
pub fn id_bytes(tokens: &[Token]) -> Vec<u8> {
    tokens.iter().flat_map(|t| t.0.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_documented() {
        let next: NextRequest = serde_json::from_str(
            r#"{"sequence":1,"position":5,"hash":"x","append":{"text":" hi"},"want":{"word":true}}"#,
        )
        .unwrap();
        assert_eq!(next.append, Piece::Text(" hi".into()));
        assert_eq!(next.want, Amount::Word(true));
        let open: OpenRequest = serde_json::from_str(
            r#"{"prompt":{"messages":[{"role":"user","content":"hi"}]},"vocabulary":"abc"}"#,
        )
        .unwrap();
        assert_eq!(open.prompt, Prompt::Messages(vec![Message::user("hi")]));
        assert!(
            serde_json::from_str::<OpenRequest>(r#"{"prompt":{"text":"x"},"extra":1}"#).is_err()
        );
    }
}
