//! Other APIs over the same core: each translates its requests into a chat of OpenAI's, which is then
//! checked and answered as any other, and tells the answer in its own shapes.
//!
//! - [`anthropic`]: `/v1/messages`; [`ollama`]: `/api/…`; [`responses`]: `/v1/responses`. In each,
//!   `wire` has the types that travel, `request` and `answer` the translation
//! - `blocks`: an answer as a row of blocks, which two of them tell it as
//! - `tell`: whole answers and streams; `key`: keys in another header; `errors`: their shape

pub mod anthropic;
mod blocks;
pub mod embeddings;
pub mod errors;
pub mod key;
pub mod ollama;
pub mod responses;
mod tell;

use std::sync::Arc;

use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tandem::Pair;

use self::tell::ApiShape;
use super::{
    Server,
    request::{
        self, Checks, Delivery, GenerationRequest,
        read::{Extra, typed},
        unsupported::{self, Route},
        wire::{
            ChatMessage, Content, ContentPart, Conversation, FunctionDefinition,
            GenerationParameters, GivenCall, GivenFunction, Object, ToolDefinition,
        },
    },
    writer::{self, Started},
};
use crate::http::ApiError;

/// A request after its translation.
#[derive(Debug, Default)]
pub struct Chat {
    conversation: Conversation,
    parameters: GenerationParameters,
}

impl Chat {
    fn checked(self, checks: &Checks<'_>) -> Result<GenerationRequest, ApiError> {
        request::chat::checked(self.conversation, self.parameters, checks)
    }
}

/// Answers a translated request, at once or while the text is written; `shape` is made for the model
/// that writes.
async fn answer<A: ApiShape, P: Pair>(
    server: Arc<Server<P>>,
    chat: Chat,
    shape: impl FnOnce(String) -> A,
) -> Result<Response, ApiError> {
    let request = Arc::new(chat.checked(&server.checks())?);
    let Started { events, room } = writer::start(server, request.clone()).await?;
    let shape = shape(request.model.clone());
    match request.delivery {
        Delivery::Whole => tell::whole(shape, request.tools, events, room).await,
        Delivery::Stream { .. } => tell::stream(shape, request.tools, events).await,
    }
}

fn read<T: DeserializeOwned>(body: &Value, harmless: &[&str]) -> Result<T, ApiError> {
    let (given, extras) = typed::<T>(body)?;
    check(&extras, harmless)?;
    Ok(given)
}

/// A field that its type does not have is refused unless it is `harmless`, which means that it would
/// change nothing here. Inside of lists and objects clients may add what they like, such as hints for
/// caches; only what is meant for this program, or for its sampling, must be known.
fn check(extras: &[Extra<'_>], harmless: &[&str]) -> Result<(), ApiError> {
    for extra in extras {
        if extra.place.starts_with("tandem.") {
            unsupported::check(extra, Route::Chat)?;
            continue;
        }
        let inside = extra.place.contains(['.', '[']) && !extra.place.starts_with("options.");
        if !inside && !extra.value.is_null() && !harmless.contains(&extra.place.as_str()) {
            return Err(refused(&extra.path));
        }
    }
    Ok(())
}

/// The error of a field that is not supported.
fn refused(path: &str) -> ApiError {
    ApiError::field(path, "is not supported here").code("unsupported_parameter")
}

/// A part of a message.
trait Part {
    /// Its text, if it is one.
    fn text(self) -> Option<String>;
}

impl Part for ContentPart {
    fn text(self) -> Option<String> {
        self.text.filter(|_| self.kind.as_deref() == Some("text"))
    }
}

/// A text that may come in parts.
fn text_of<P: Part>(content: Option<Content<P>>, path: &str) -> Result<String, ApiError> {
    let parts = match content {
        None => return Ok(String::new()),
        Some(Content::Text(text)) => return Ok(text),
        Some(Content::Parts(parts)) => parts,
    };
    let part = |(i, part): (usize, P)| {
        part.text().ok_or_else(|| {
            let problem = "must be text: nothing else is supported here";
            ApiError::field(format!("{path}[{i}].type"), problem).code("unsupported_parameter")
        })
    };
    parts.into_iter().enumerate().map(part).collect()
}

fn message(role: &str, content: String) -> ChatMessage {
    let (role, content) = (Some(role.to_owned()), Some(Content::Text(content)));
    ChatMessage { role, content, ..ChatMessage::default() }
}

/// What a call returned, whichever it was.
fn result(id: Option<String>, content: String) -> ChatMessage {
    ChatMessage { tool_call_id: id, ..message("tool", content) }
}

/// A call of an earlier answer.
fn call(id: Option<String>, name: Option<String>, arguments: Option<Value>) -> Object<GivenCall> {
    let arguments = match arguments {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => "{}".into(),
        Some(other) => other.to_string(),
    };
    let function = Some(Object(GivenFunction { name, arguments: Some(arguments) }));
    Object(GivenCall { id, function, ..GivenCall::default() })
}

/// A tool that is offered.
fn tool(
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Value>,
) -> Object<ToolDefinition> {
    let function =
        FunctionDefinition { name, description, parameters, ..FunctionDefinition::default() };
    Object(ToolDefinition { kind: Some("function".into()), function: Some(Object(function)) })
}
