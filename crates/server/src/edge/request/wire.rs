//! Requests as they travel: types alone. Whether the values make sense is checked afterwards.
//!
//! Every field is optional, also those that are not: absent and null are the same, and what is
//! missing is said by name. Only parameters that are heeded are here; `unsupported` knows the others.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use utoipa::ToSchema;

use crate::edge::{config::Mode, schema};

/// What only `/v1/chat/completions` takes.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Conversation {
    #[schema(value_type = Vec<ChatMessage>, required = true, min_items = 1)]
    pub messages: Option<Vec<Object<ChatMessage>>>,
    /// Whether each token tells its log-probability.
    pub logprobs: Option<bool>,
    /// How many alternatives it tells besides; only with `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<i64>,
}

/// One turn of a conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ChatMessage {
    #[schema(
        value_type = String, required = true, pattern = "^(system|developer|user|assistant)$"
    )]
    pub role: Option<String>,
    /// Required, except from the assistant.
    pub content: Option<Content>,
}

/// A text, or a text in parts.
#[derive(Debug, ToSchema)]
#[schema(as = MessageContent)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
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
#[derive(Debug, Deserialize, ToSchema)]
pub struct GenerationParameters {
    /// Who writes; without it, as the server was started.
    #[schema(pattern = "^tandem-(joint|small|large)$")]
    pub model: Option<String>,
    pub stream: Option<bool>,
    #[schema(value_type = Option<StreamOptions>)]
    pub stream_options: Option<Object<StreamOptions>>,
    #[schema(minimum = 1)]
    pub max_tokens: Option<i64>,
    /// Goes before `max_tokens`.
    #[schema(minimum = 1)]
    pub max_completion_tokens: Option<i64>,
    /// 0 takes the most likely token.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f32>,
    /// Only the most likely tokens that together reach this probability.
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f32>,
    /// Only so many of the most likely tokens; 0 is off.
    #[schema(minimum = 0)]
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
    #[schema(value_type = Option<schema::Mode>)]
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
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
                let mut parts = vec![];
                while let Some(Object(part)) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}
