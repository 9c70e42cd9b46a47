//! Answers as they travel, whole and in chunks.

use decode::Accepted;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::edge::summary::Summary;

/// A whole answer; `C` is what its choices look like.
#[derive(Debug, Serialize, ToSchema)]
pub struct Completion<C> {
    pub id: String,
    #[schema(pattern = "^(chat[.]completion|text_completion)$")]
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub choices: Vec<C>,
    pub usage: Usage,
    /// What the text tells of itself. Of several texts, each choice has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<Summary>,
}

/// A chunk of a streamed answer; `C` is what its choices look like.
#[derive(Debug, Serialize, ToSchema)]
pub struct CompletionChunk<C> {
    pub id: String,
    #[schema(pattern = "^(chat[.]completion[.]chunk|text_completion)$")]
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    /// One, or none in the chunk that counts tokens.
    pub choices: Vec<C>,
    /// Where `stream_options.include_usage` asks for it: null, and in the last chunk the count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    pub usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<ChunkDetails>,
}

/// What a chunk tells besides its text: with `trace` its tokens, at the end of a text its summary.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ChunkDetails {
    Tokens { tokens: Vec<Accepted> },
    Summary(Box<Summary>),
}

/// Tokens counted over all texts of an answer.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct Usage {
    pub prompt_tokens: usize,
    pub completion_tokens: usize,
    pub total_tokens: usize,
    pub prompt_tokens_details: PromptTokensDetails,
}

/// Where a prompt's tokens came from.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Those that were not read again.
    pub cached_tokens: usize,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    Stop,
    Length,
    ToolCalls,
}

/// A choice of a chat.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChoice {
    pub index: usize,
    pub message: AnswerMessage,
    #[schema(required = true)]
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: FinishReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<Summary>,
}

/// The answer as a message.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnswerMessage {
    #[schema(pattern = "^assistant$")]
    pub role: &'static str,
    /// Null where there are only calls.
    #[schema(required = true)]
    pub content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false, required = false)]
    pub tool_calls: Vec<MadeCall>,
    /// Always null: nothing is refused in words.
    #[schema(required = true)]
    pub refusal: Option<String>,
}

/// A piece of a chat's choice.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChunkChoice {
    pub index: usize,
    pub delta: Delta,
    #[schema(required = true)]
    pub logprobs: Option<ChatLogprobs>,
    #[schema(required = true)]
    pub finish_reason: Option<FinishReason>,
}

/// What is new of a message.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false, required = false)]
    pub tool_calls: Vec<MadeCallPart>,
}

/// A call of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct MadeCall {
    pub id: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    pub kind: &'static str,
    pub function: CalledFunction,
}

/// What is called, and with which arguments.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalledFunction {
    pub name: String,
    /// JSON, as a text.
    pub arguments: String,
}

/// What is new of a call: its beginning has an id and a name.
#[derive(Debug, Serialize, ToSchema)]
pub struct MadeCallPart {
    pub index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^function$")]
    pub kind: Option<&'static str>,
    pub function: CalledFunctionPart,
}

/// What is new of a function that is called.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalledFunctionPart {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub arguments: String,
}

/// A choice of a completion, whole or a piece of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct TextChoice {
    pub index: usize,
    pub text: String,
    #[schema(required = true)]
    pub logprobs: Option<TextLogprobs>,
    #[schema(required = true)]
    pub finish_reason: Option<FinishReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<Summary>,
}

/// How likely the tokens of a chat were. A token's own is its writer's; those of others are the
/// edge's, which alone tells what it held likeliest. Where a cloud does not say, there is null.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatLogprobs {
    pub content: Vec<TokenLogprob>,
    /// Always null: nothing is refused in words.
    #[schema(required = true)]
    pub refusal: Option<Vec<TokenLogprob>>,
}

/// How likely one token was, and which others the edge held likely.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenLogprob {
    #[serde(flatten)]
    pub token: TopLogprob,
    pub top_logprobs: Vec<TopLogprob>,
}

/// How likely a token was held.
#[derive(Debug, Serialize, ToSchema)]
pub struct TopLogprob {
    pub token: String,
    #[schema(required = true)]
    pub logprob: Option<f32>,
    pub bytes: Vec<u8>,
}

/// How likely the tokens of a completion were, as lists of the same length.
#[derive(Debug, Serialize, ToSchema)]
pub struct TextLogprobs {
    pub tokens: Vec<String>,
    #[schema(value_type = Vec<Option<f32>>)]
    pub token_logprobs: Vec<Option<f32>>,
    /// Log-probabilities by the tokens' texts.
    #[schema(value_type = Vec<std::collections::BTreeMap<String, f32>>)]
    pub top_logprobs: Vec<Map<String, Value>>,
    /// Where each token's text begins, in characters.
    pub text_offset: Vec<usize>,
}
