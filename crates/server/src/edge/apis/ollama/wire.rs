//! Ollama's requests and answers as they travel.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    edge::{
        request::wire::{Object, OneOrMore, TandemOptions, ToolDefinition},
        summary::Summary,
    },
    http::ApiError,
};

/// Asks for the answer to a conversation, in Ollama's shape.
#[derive(ToSchema)]
#[expect(dead_code, reason = "its halves are read one by one")]
pub struct OllamaChatRequest {
    #[serde(flatten)]
    conversation: OllamaConversation,
    #[serde(flatten)]
    parameters: OllamaParameters,
}

/// Asks for the answer to a text, in Ollama's shape.
#[derive(ToSchema)]
#[expect(dead_code, reason = "its halves are read one by one")]
pub struct OllamaGenerateRequest {
    #[serde(flatten)]
    prompt: OllamaPrompt,
    #[serde(flatten)]
    parameters: OllamaParameters,
}

/// What only `/api/chat` takes.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaConversation {
    #[schema(value_type = Vec<OllamaTurn>, required = true, min_items = 1)]
    pub messages: Option<Vec<Object<OllamaTurn>>>,
    #[schema(value_type = Option<Vec<ToolDefinition>>)]
    pub tools: Option<Vec<Object<ToolDefinition>>>,
}

/// One turn of a conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaTurn {
    #[schema(
        value_type = String, required = true, pattern = "^(system|developer|user|assistant|tool)$"
    )]
    pub role: Option<String>,
    /// Required, except from the assistant.
    pub content: Option<String>,
    /// Must be empty: the models read text.
    #[schema(value_type = Option<Vec<String>>, max_items = 0)]
    pub images: Option<Vec<Value>>,
    /// The calls of an earlier answer.
    #[schema(value_type = Option<Vec<OllamaGivenCall>>)]
    pub tool_calls: Option<Vec<Object<OllamaGivenCall>>>,
    /// Which tool a result is from.
    #[expect(dead_code, reason = "one tool may have been called twice")]
    pub tool_name: Option<String>,
}

/// A call of an earlier answer.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaGivenCall {
    #[schema(value_type = OllamaGivenFunction, required = true)]
    pub function: Option<Object<OllamaGivenFunction>>,
}

/// What was called, and with which arguments.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaGivenFunction {
    #[schema(value_type = String, required = true)]
    pub name: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Value>,
}

/// What only `/api/generate` takes.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaPrompt {
    /// Without it, the answer says that the model is loaded.
    pub prompt: Option<String>,
    pub system: Option<String>,
    /// Must be false or absent, as the three that follow must be empty or absent.
    pub raw: Option<bool>,
    #[schema(max_length = 0)]
    pub template: Option<String>,
    #[schema(max_length = 0)]
    pub suffix: Option<String>,
    #[schema(value_type = Option<Vec<String>>, max_items = 0)]
    pub images: Option<Vec<Value>>,
}

/// What both routes take.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaParameters {
    /// Who writes; without it, as the server was started.
    #[schema(pattern = "^tandem-(joint|small|large|verify)(:latest)?$")]
    pub model: Option<String>,
    /// It does, unless this says otherwise.
    pub stream: Option<bool>,
    /// The form that the answer is held to: `json`, or a JSON schema.
    pub format: Option<Value>,
    #[schema(value_type = Option<OllamaOptions>)]
    pub options: Option<Object<OllamaOptions>>,
    /// Must be false or absent: the models do not think apart from their answer.
    #[schema(value_type = Option<bool>)]
    pub think: Option<Value>,
    #[schema(value_type = Option<TandemOptions>)]
    pub tandem: Option<Object<TandemOptions>>,
}

/// How tokens are drawn. Options of Ollama's engine, such as `num_ctx`, are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct OllamaOptions {
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f32>,
    #[schema(minimum = 0, maximum = 1000000)]
    pub top_k: Option<i64>,
    #[schema(minimum = 0, maximum = 1)]
    pub min_p: Option<f32>,
    #[schema(minimum = 0.01, maximum = 10)]
    pub repeat_penalty: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f32>,
    pub seed: Option<i64>,
    pub stop: Option<OneOrMore>,
    /// Tokens of the answer; below 0, as many as it may have here.
    pub num_predict: Option<i64>,
}

/// A line of a stream, or the whole answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OllamaEvent {
    Line(Box<OllamaLine>),
    Error(OllamaError),
}

/// A piece of an answer; the last one is done and says what the answer cost, in nanoseconds.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct OllamaLine {
    pub model: String,
    pub created_at: String,
    /// From `/api/chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<OllamaMessage>,
    /// From `/api/generate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    pub done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(stop|length|load)$")]
    pub done_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_eval_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_eval_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tandem: Option<Summary>,
}

/// What is new of a message. Calls are told whole, when the answer is.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaMessage {
    #[schema(pattern = "^assistant$")]
    pub role: &'static str,
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false, required = false)]
    pub tool_calls: Vec<OllamaCall>,
}

/// A call of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaCall {
    pub function: OllamaFunction,
}

/// What is called, and with which arguments.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaFunction {
    pub name: String,
    #[schema(value_type = Object)]
    pub arguments: Value,
}

/// The modes, as models.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaModels {
    pub models: Vec<OllamaModel>,
}

/// A mode, as a model.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaModel {
    pub name: String,
    pub model: String,
    pub modified_at: &'static str,
    pub size: u64,
    pub digest: String,
    pub details: OllamaDetails,
    /// Of a model that is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<&'static str>,
    /// Of a model that is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_vram: Option<u64>,
}

/// Which models write.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaDetails {
    pub parent_model: &'static str,
    #[schema(pattern = "^tandem$")]
    pub format: &'static str,
    /// The small model.
    pub family: String,
    pub families: Vec<String>,
    pub parameter_size: &'static str,
    pub quantization_level: &'static str,
}

/// Which model is asked for.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OllamaShowRequest {
    pub model: Option<String>,
    /// The same, from older clients.
    pub name: Option<String>,
}

/// A mode, described as a model.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaDescription {
    pub modelfile: &'static str,
    pub parameters: &'static str,
    pub template: &'static str,
    pub license: &'static str,
    pub modified_at: &'static str,
    pub details: OllamaDetails,
    pub model_info: OllamaModelInfo,
    pub capabilities: [&'static str; 2],
}

#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaModelInfo {
    #[serde(rename = "general.architecture")]
    pub architecture: &'static str,
    /// Tokens a conversation may have.
    #[serde(rename = "tandem.context_length")]
    pub context: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaVersion {
    pub version: &'static str,
}

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct OllamaError {
    error: String,
}

impl From<&ApiError> for OllamaError {
    fn from(error: &ApiError) -> Self {
        Self { error: error.message().to_owned() }
    }
}
