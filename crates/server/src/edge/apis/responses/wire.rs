//! Requests and answers of the responses API as they travel.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::super::Part;
use crate::edge::{
    request::wire::{Content, Object, TandemOptions},
    summary::Summary,
};

/// Asks for the answer to a conversation, in the shape of the newer of OpenAI's APIs.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ResponsesRequest {
    /// Who writes; without it, as the server was started.
    #[schema(pattern = "^tandem-(joint|small|large|verify)$")]
    pub model: Option<String>,
    /// A text, or a list of items.
    #[schema(value_type = Content<InputItem>, required = true)]
    pub input: Option<Content<InputItem>>,
    /// A system message.
    pub instructions: Option<String>,
    #[schema(minimum = 1, maximum = 1000000)]
    pub max_output_tokens: Option<i64>,
    pub stream: Option<bool>,
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f32>,
    #[schema(value_type = Option<Vec<ResponsesTool>>)]
    pub tools: Option<Vec<Object<ResponsesTool>>>,
    /// `none`, `auto`, `required`, or the function that must be called.
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    #[schema(value_type = Option<TextOptions>)]
    pub text: Option<Object<TextOptions>>,
    #[schema(value_type = Option<ReasoningOptions>)]
    pub reasoning: Option<Object<ReasoningOptions>>,
    /// Must be false or absent: no answer is kept.
    pub background: Option<bool>,
    #[schema(value_type = Option<TandemOptions>)]
    pub tandem: Option<Object<TandemOptions>>,
}

/// A message, a call or its result; which fields it has follows from its type.
#[derive(Debug, Deserialize, ToSchema)]
pub struct InputItem {
    #[serde(rename = "type")]
    #[schema(pattern = "^(message|function_call|function_call_output|reasoning)$")]
    pub kind: Option<String>,
    /// Of a message.
    #[schema(pattern = "^(system|developer|user|assistant)$")]
    pub role: Option<String>,
    /// Of a message.
    pub content: Option<Content<InputPart>>,
    /// Of a call and of its result.
    pub call_id: Option<String>,
    /// The function that was called.
    pub name: Option<String>,
    /// JSON, as a text.
    pub arguments: Option<String>,
    /// What the call resulted in.
    pub output: Option<Content<InputPart>>,
}

/// A part of a message. Only texts are supported.
#[derive(Debug, Deserialize, ToSchema)]
pub struct InputPart {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^(input_text|output_text|text)$")]
    kind: Option<String>,
    text: Option<String>,
}

impl Part for InputPart {
    fn text(self) -> Option<String> {
        let is_text = matches!(self.kind.as_deref(), Some("input_text" | "output_text" | "text"));
        self.text.filter(|_| is_text)
    }
}

/// A function that the answer may call.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ResponsesTool {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^function$")]
    pub kind: Option<String>,
    #[schema(value_type = String, required = true, pattern = "^[a-zA-Z0-9_.-]{1,64}$")]
    pub name: Option<String>,
    pub description: Option<String>,
    /// A JSON schema of an object. It always holds, whatever `strict` says.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct TextOptions {
    #[schema(value_type = Option<TextFormat>)]
    pub format: Option<Object<TextFormat>>,
}

/// The form of an answer: free text, any JSON object, or JSON that fits a schema.
#[derive(Debug, Deserialize, ToSchema)]
pub struct TextFormat {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^(text|json_object|json_schema)$")]
    pub kind: Option<String>,
    #[expect(dead_code, reason = "it changes nothing here")]
    pub name: Option<String>,
    /// Required with the type `json_schema`.
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
}

/// The models do not think apart from their answer.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ReasoningOptions {
    /// Must be null or absent.
    pub effort: Option<String>,
}

/// A whole answer, or as far as it is in a stream.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ResponsesAnswer {
    pub id: String,
    #[schema(pattern = "^response$")]
    pub object: &'static str,
    /// Seconds since 1970.
    pub created_at: u64,
    pub status: Status,
    /// Always null: errors have a status of their own, or an event.
    #[schema(required = true)]
    pub error: Option<String>,
    #[schema(required = true)]
    pub incomplete_details: Option<IncompleteDetails>,
    pub model: String,
    pub output: Vec<OutputItem>,
    /// Always null: no answer is kept.
    #[schema(required = true)]
    pub previous_response_id: Option<String>,
    pub reasoning: Reasoning,
    /// Always false.
    pub store: bool,
    #[schema(pattern = "^disabled$")]
    pub truncation: &'static str,
    #[schema(required = true)]
    pub usage: Option<ResponsesUsage>,
    #[serde(flatten)]
    pub asked: Asked,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<Summary>,
}

/// What the answer repeats of its request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Asked {
    #[schema(value_type = Option<String>, required = true)]
    pub instructions: Value,
    #[schema(value_type = Option<i64>, required = true)]
    pub max_output_tokens: Value,
    #[schema(value_type = Object)]
    pub metadata: Value,
    #[schema(value_type = bool)]
    pub parallel_tool_calls: Value,
    #[schema(value_type = Option<f32>, required = true)]
    pub temperature: Value,
    #[schema(value_type = Object)]
    pub text: Value,
    pub tool_choice: Value,
    #[schema(value_type = Vec<Object>)]
    pub tools: Value,
    #[schema(value_type = Option<f32>, required = true)]
    pub top_p: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    InProgress,
    Completed,
    Incomplete,
}

/// Why an answer is not complete.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct IncompleteDetails {
    #[schema(pattern = "^max_output_tokens$")]
    pub reason: &'static str,
}

/// Always null.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Reasoning {
    #[schema(required = true)]
    pub effort: Option<String>,
    #[schema(required = true)]
    pub summary: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct ResponsesUsage {
    pub input_tokens: usize,
    pub input_tokens_details: InputTokensDetails,
    pub output_tokens: usize,
    pub output_tokens_details: OutputTokensDetails,
    pub total_tokens: usize,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct InputTokensDetails {
    /// Those that were not read again.
    pub cached_tokens: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct OutputTokensDetails {
    /// Always 0.
    pub reasoning_tokens: usize,
}

/// A message, or a call of a function.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    Message {
        id: String,
        #[schema(pattern = "^assistant$")]
        role: &'static str,
        content: Vec<OutputText>,
        status: Status,
    },
    FunctionCall {
        id: String,
        call_id: String,
        name: String,
        /// JSON, as a text.
        arguments: String,
        status: Status,
    },
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OutputText {
    #[serde(rename = "type")]
    #[schema(pattern = "^output_text$")]
    pub kind: &'static str,
    pub text: String,
    /// Always empty.
    #[schema(max_items = 0)]
    pub annotations: Vec<Value>,
    /// Always empty.
    #[schema(max_items = 0)]
    pub logprobs: Vec<Value>,
}

/// An event of a stream, under the name that its type says, with its place in the stream.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type")]
pub enum ResponsesEvent {
    #[serde(rename = "response.created")]
    Created { sequence_number: usize, response: Box<ResponsesAnswer> },
    #[serde(rename = "response.in_progress")]
    InProgress { sequence_number: usize, response: Box<ResponsesAnswer> },
    #[serde(rename = "response.output_item.added")]
    ItemAdded { sequence_number: usize, output_index: usize, item: OutputItem },
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        sequence_number: usize,
        item_id: String,
        output_index: usize,
        content_index: usize,
        part: OutputText,
    },
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        sequence_number: usize,
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
        /// Always empty.
        #[schema(max_items = 0)]
        logprobs: Vec<Value>,
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        sequence_number: usize,
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
        /// Always empty.
        #[schema(max_items = 0)]
        logprobs: Vec<Value>,
    },
    #[serde(rename = "response.content_part.done")]
    PartDone {
        sequence_number: usize,
        item_id: String,
        output_index: usize,
        content_index: usize,
        part: OutputText,
    },
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta { sequence_number: usize, item_id: String, output_index: usize, delta: String },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone {
        sequence_number: usize,
        item_id: String,
        output_index: usize,
        name: String,
        arguments: String,
    },
    #[serde(rename = "response.output_item.done")]
    ItemDone { sequence_number: usize, output_index: usize, item: OutputItem },
    #[serde(rename = "response.completed")]
    Completed { sequence_number: usize, response: Box<ResponsesAnswer> },
    #[serde(rename = "response.incomplete")]
    Incomplete { sequence_number: usize, response: Box<ResponsesAnswer> },
    #[serde(rename = "error")]
    Error {
        sequence_number: usize,
        code: &'static str,
        message: String,
        /// Always null.
        #[schema(required = true)]
        param: Option<String>,
    },
}
