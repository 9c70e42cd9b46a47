//! Requests as they travel: types alone. Whether the values make sense is checked afterwards.
//!
//! Every field is optional, also those that are not: absent and null are the same, and what is
//! missing is said by name. Only parameters that are heeded are here; `unsupported` knows the others.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;
use utoipa::ToSchema;

use crate::edge::config::Mode;

/// Asks for the answer to a conversation.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the document: the two halves are read one after the other")]
pub struct ChatCompletionRequest {
    #[serde(flatten)]
    conversation: Conversation,
    #[serde(flatten)]
    parameters: GenerationParameters,
}

/// Asks for the continuation of a text.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the document: the two halves are read one after the other")]
pub struct CompletionRequest {
    #[serde(flatten)]
    beginning: Beginning,
    #[serde(flatten)]
    parameters: GenerationParameters,
}

/// What only `/v1/chat/completions` takes.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct Conversation {
    #[schema(value_type = Vec<ChatMessage>, required = true, min_items = 1)]
    pub messages: Option<Vec<Object<ChatMessage>>>,
    /// Whether each token tells its log-probability.
    pub logprobs: Option<bool>,
    /// How many alternatives it tells besides; only with `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<i64>,
    /// The form that the answer is held to.
    #[schema(value_type = Option<ResponseFormat>)]
    pub response_format: Option<Object<ResponseFormat>>,
    /// At most 128 functions that the answer may call.
    #[schema(value_type = Option<Vec<ToolDefinition>>)]
    pub tools: Option<Vec<Object<ToolDefinition>>>,
    /// `none`, `auto`, `required`, or the function that must be called.
    #[schema(value_type = Option<Object>)]
    pub tool_choice: Option<Value>,
    /// Whether an answer may have several calls; it may, unless this says otherwise.
    pub parallel_tool_calls: Option<bool>,
}

/// A tool that the answer may call.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct ToolDefinition {
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    pub kind: Option<String>,
    #[schema(value_type = FunctionDefinition, required = true)]
    pub function: Option<Object<FunctionDefinition>>,
}

/// A function. Its arguments are always held to its parameters, whatever `strict` says.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct FunctionDefinition {
    #[schema(value_type = String, required = true, pattern = "^[a-zA-Z0-9_.-]{1,64}$")]
    pub name: Option<String>,
    pub description: Option<String>,
    /// A JSON schema of an object.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    #[expect(dead_code, reason = "schemas always hold")]
    pub strict: Option<bool>,
}

/// A call of an earlier answer.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct GivenCall {
    /// What its result names it by.
    pub id: Option<String>,
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "there are no others")]
    #[schema(pattern = "^function$")]
    pub kind: Option<String>,
    #[schema(value_type = GivenFunction, required = true)]
    pub function: Option<Object<GivenFunction>>,
}

/// What was called, and with which arguments.
#[derive(Debug, Deserialize, ToSchema)]
pub struct GivenFunction {
    #[schema(value_type = String, required = true)]
    pub name: Option<String>,
    /// JSON, as a text.
    pub arguments: Option<String>,
}

/// The form of an answer: free text, any JSON object, or JSON that fits a schema.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct ResponseFormat {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^(text|json_object|json_schema)$")]
    pub kind: Option<String>,
    /// Required with the type `json_schema`.
    #[schema(value_type = Option<JsonSchemaFormat>)]
    pub json_schema: Option<Object<JsonSchemaFormat>>,
}

/// A JSON schema. It always holds, whatever `strict` says.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[expect(dead_code, reason = "a name, a description and `strict` change nothing here")]
pub struct JsonSchemaFormat {
    pub name: Option<String>,
    pub description: Option<String>,
    pub strict: Option<bool>,
    #[schema(value_type = Object, required = true)]
    pub schema: Option<Value>,
}

/// One turn of a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct ChatMessage {
    #[schema(
        value_type = String, required = true, pattern = "^(system|developer|user|assistant|tool)$"
    )]
    pub role: Option<String>,
    /// Required, except from the assistant.
    pub content: Option<Content<ContentPart>>,
    /// The calls of an earlier answer.
    #[schema(value_type = Option<Vec<GivenCall>>)]
    pub tool_calls: Option<Vec<Object<GivenCall>>>,
    /// Which call a tool's result belongs to. The models are told results in the order of their calls.
    pub tool_call_id: Option<String>,
}

/// A text, or a list of parts.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
pub enum Content<P> {
    Text(String),
    Parts(Vec<P>),
}

/// A part of a message. Only texts are supported.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ContentPart {
    #[serde(rename = "type")]
    #[schema(value_type = String, required = true, pattern = "^text$")]
    pub kind: Option<String>,
    pub text: Option<String>,
}

/// What only `/v1/completions` takes.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Beginning {
    #[schema(value_type = OneOrMore, required = true)]
    pub prompt: Option<Prompts>,
    /// How many alternatives each token tells besides its own log-probability.
    #[schema(minimum = 0, maximum = 5)]
    pub logprobs: Option<i64>,
}

/// One text or several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "it must be a text or a list of texts")]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// The same, for a field that elsewhere takes ids as well.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "it must be a text or a list of texts; ids mean something else to each model"
)]
pub enum Prompts {
    One(String),
    More(Vec<String>),
}

/// What both routes take.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct GenerationParameters {
    /// Who writes: a pair of models and a mode. Without it, as the server was started.
    #[schema(pattern = "^[a-z0-9._-]+-(joint|small|large|verify)$")]
    pub model: Option<String>,
    pub stream: Option<bool>,
    #[schema(value_type = Option<StreamOptions>)]
    pub stream_options: Option<Object<StreamOptions>>,
    #[schema(minimum = 1, maximum = 1000000)]
    pub max_tokens: Option<i64>,
    /// Goes before `max_tokens`.
    #[schema(minimum = 1, maximum = 1000000)]
    pub max_completion_tokens: Option<i64>,
    /// 0 takes the most likely token.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f32>,
    /// Only the most likely tokens that together reach this probability.
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f32>,
    /// Only so many of the most likely tokens; 0 is off.
    #[schema(minimum = 0, maximum = 1000000)]
    pub top_k: Option<i64>,
    /// Only tokens at least this likely, relative to the most likely.
    #[schema(minimum = 0, maximum = 1)]
    pub min_p: Option<f32>,
    /// 1 is off.
    #[schema(minimum = 0.01, maximum = 10)]
    pub repetition_penalty: Option<f32>,
    /// 0 is off.
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f32>,
    /// 0 is off.
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f32>,
    pub seed: Option<i64>,
    /// Texts for each prompt.
    #[schema(minimum = 1, maximum = 16)]
    pub n: Option<i64>,
    /// At most 16 texts that end the answer and are not shown.
    pub stop: Option<OneOrMore>,
    /// What is added to the small model's logits, by its own token ids; -100 bans a token, also as the
    /// large model's.
    pub logit_bias: Option<BTreeMap<String, f32>>,
    #[schema(value_type = Option<TandemOptions>)]
    pub tandem: Option<Object<TandemOptions>>,
}

/// How a stream is told.
#[derive(Debug, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Whether a last chunk counts tokens.
    pub include_usage: Option<bool>,
}

/// Which of the two models is trusted, and when.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct TandemOptions {
    /// Goes before the model's name.
    pub mode: Option<Mode>,
    /// Asks the cloud where trust is below this. Not together with `budget`.
    #[schema(minimum = 0, maximum = 1)]
    pub threshold: Option<f32>,
    /// Near this share of tokens from the cloud, over all texts with the same budget.
    #[schema(minimum = 0, maximum = 1)]
    pub budget: Option<f32>,
    /// One that `/v1/tandem` lists, or `random:SHARE`.
    pub router: Option<String>,
    pub on_cloud_error: Option<CloudErrorPolicy>,
    /// A grammar that the text is held to, in llguidance's variant of Lark or in GBNF. Not together
    /// with `response_format` or `tools`.
    pub grammar: Option<String>,
    /// Whether every token tells its source, score, times and alternatives.
    pub trace: Option<bool>,
}

/// What a failure of the cloud means for the text: the edge's own token is kept, the text waits, or
/// it ends.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CloudErrorPolicy {
    Keep,
    Wait,
    Fail,
}

/// A JSON object. serde's structs would take a list of their fields' values as well.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// Not derived: serde's untagged enums forget where in a list the mistake was.
impl<'de, P: Deserialize<'de>> Deserialize<'de> for Content<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor<P>(PhantomData<P>);

        impl<'de, P: Deserialize<'de>> Visitor<'de> for ContentVisitor<P> {
            type Value = Content<P>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content<P>, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content<P>, A::Error> {
                let mut parts = vec![];
                while let Some(Object(part)) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }

        deserializer.deserialize_any(ContentVisitor(PhantomData))
    }
}
