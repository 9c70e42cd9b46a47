//! Anthropic's requests and answers as they travel.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    edge::{
        request::wire::{Content, ContentPart, Object, TandemOptions},
        summary::Summary,
    },
    http::ApiError,
};

/// Asks for the answer to a conversation, in Anthropic's shape.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessagesRequest {
    /// Who writes; without it, as the server was started.
    #[schema(pattern = "^tandem-(joint|small|large|verify)$")]
    pub model: Option<String>,
    #[schema(value_type = Vec<MessagesTurn>, required = true, min_items = 1)]
    pub messages: Option<Vec<Object<MessagesTurn>>>,
    /// Goes before the conversation.
    pub system: Option<Content<ContentPart>>,
    #[schema(minimum = 1, maximum = 1000000)]
    pub max_tokens: Option<i64>,
    pub stream: Option<bool>,
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f32>,
    #[schema(minimum = 0, maximum = 1000000)]
    pub top_k: Option<i64>,
    /// At most 16 texts that end the answer and are not shown.
    pub stop_sequences: Option<Vec<String>>,
    #[schema(value_type = Option<Vec<MessagesTool>>)]
    pub tools: Option<Vec<Object<MessagesTool>>>,
    #[schema(value_type = Option<MessagesToolChoice>)]
    pub tool_choice: Option<Object<MessagesToolChoice>>,
    #[schema(value_type = Option<Thinking>)]
    pub thinking: Option<Object<Thinking>>,
    #[schema(value_type = Option<TandemOptions>)]
    pub tandem: Option<Object<TandemOptions>>,
}

/// One turn of a conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessagesTurn {
    #[schema(value_type = String, required = true, pattern = "^(system|user|assistant)$")]
    pub role: Option<String>,
    /// Required, except from the assistant.
    pub content: Option<Content<MessagesBlock>>,
}

/// A part of a turn; which fields it has follows from its type.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessagesBlock {
    #[serde(rename = "type")]
    #[schema(
        value_type = String, required = true,
        pattern = "^(text|tool_use|tool_result|thinking|redacted_thinking)$"
    )]
    pub kind: Option<String>,
    pub text: Option<String>,
    /// Of a call, as the answer had it.
    pub id: Option<String>,
    /// The tool that was called.
    pub name: Option<String>,
    /// What it was called with.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    /// Which call a result belongs to.
    pub tool_use_id: Option<String>,
    /// The result.
    pub content: Option<Content<ContentPart>>,
}

/// A tool that the answer may call.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessagesTool {
    #[serde(rename = "type")]
    #[schema(pattern = "^custom$")]
    pub kind: Option<String>,
    #[schema(value_type = String, required = true, pattern = "^[a-zA-Z0-9_.-]{1,64}$")]
    pub name: Option<String>,
    pub description: Option<String>,
    /// A JSON schema of an object.
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
}

/// Which tool must be called, if any.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessagesToolChoice {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^(auto|any|tool|none)$")]
    pub kind: Option<String>,
    /// With the type `tool`.
    pub name: Option<String>,
    pub disable_parallel_tool_use: Option<bool>,
}

/// The models do not think apart from their answer.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Thinking {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^disabled$")]
    pub kind: Option<String>,
}

/// A whole answer, or its frame at the beginning of a stream.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MessagesAnswer {
    pub id: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^message$")]
    pub kind: &'static str,
    #[schema(pattern = "^assistant$")]
    pub role: &'static str,
    pub model: String,
    pub content: Vec<AnswerBlock>,
    #[serde(flatten)]
    pub end: MessagesEnd,
    pub usage: MessagesUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<Summary>,
}

/// Why an answer ended; null while it is written.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct MessagesEnd {
    #[schema(required = true)]
    pub stop_reason: Option<StopReason>,
    /// Which of the `stop_sequences` ended the answer; null where none did.
    #[schema(required = true)]
    pub stop_sequence: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    StopSequence,
    ToolUse,
}

/// A part of an answer: a text, or a call of a tool.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerBlock {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[schema(value_type = Object)]
        input: Value,
    },
}

#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct MessagesUsage {
    /// Tokens of the prompt that were read.
    pub input_tokens: usize,
    /// Tokens of the prompt that were not read again.
    pub cache_read_input_tokens: usize,
    /// Always 0.
    pub cache_creation_input_tokens: usize,
    pub output_tokens: usize,
}

/// An event of a stream, under the name that its type says.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagesEvent {
    MessageStart { message: Box<MessagesAnswer> },
    ContentBlockStart { index: usize, content_block: AnswerBlock },
    ContentBlockDelta { index: usize, delta: BlockDelta },
    ContentBlockStop { index: usize },
    MessageDelta { delta: MessagesEnd, usage: MessagesUsage, tandem: Box<Summary> },
    MessageStop,
    Error { error: MessagesErrorDetail },
}

/// More of a block. A call's arguments are JSON in pieces.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BlockDelta {
    TextDelta { text: String },
    InputJsonDelta { partial_json: String },
}

/// How long a conversation is.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenCount {
    pub input_tokens: usize,
}

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessagesError {
    #[serde(rename = "type")]
    #[schema(pattern = "^error$")]
    kind: &'static str,
    error: MessagesErrorDetail,
}

/// What is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessagesErrorDetail {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
}

impl From<&ApiError> for MessagesErrorDetail {
    fn from(error: &ApiError) -> Self {
        let kind = match error.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        Self { kind, message: error.message().to_owned() }
    }
}

impl From<&ApiError> for MessagesError {
    fn from(error: &ApiError) -> Self {
        Self { kind: "error", error: error.into() }
    }
}
