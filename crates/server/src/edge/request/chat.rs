//! `POST /v1/chat/completions`: messages.

use cloud::protocol::Prompt;
use decode::{Message, Role};
use serde_json::Value;

use super::{
    GenerationRequest,
    common::{self, Checks},
    read::halves,
    unsupported::{self, Route},
    wire::{ChatMessage, Content, ContentPart, Conversation, Object},
};
use crate::http::ApiError;

/// The most log-probabilities a token may tell.
const MAX_LOGPROBS: usize = 20;

pub fn request(object: &Value, checks: &Checks<'_>) -> Result<GenerationRequest, ApiError> {
    let (conversation, parameters, extras) = halves::<Conversation>(object)?;
    extras.iter().try_for_each(|extra| unsupported::check(extra, Route::Chat))?;
    let logprobs = logprobs(&conversation)?;
    let messages = messages(conversation, &checks.defaults.system)?;
    let request = common::request(parameters, checks)?;
    Ok(GenerationRequest { prompts: vec![Prompt::Messages(messages)], logprobs, ..request })
}

fn logprobs(conversation: &Conversation) -> Result<Option<usize>, ApiError> {
    let top = common::count("top_logprobs", conversation.top_logprobs, 0..=MAX_LOGPROBS)?;
    match (conversation.logprobs.unwrap_or(false), top) {
        (false, Some(n)) if n > 0 => {
            Err(ApiError::field("top_logprobs", "is told only with \"logprobs\": true"))
        }
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

/// The conversation. The models' own system messages differ, so both are always given one.
fn messages(conversation: Conversation, system: &str) -> Result<Vec<Message>, ApiError> {
    let given = conversation.messages;
    let given = given.ok_or_else(|| ApiError::field("messages", "are missing"))?;
    if given.is_empty() {
        return Err(ApiError::field("messages", "must not be empty"));
    }
    let read = |(i, Object(given))| message(given, &format!("messages[{i}]"));
    let mut messages = given.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    if messages.iter().all(|m| m.role != Role::System) {
        messages.insert(0, Message::system(system));
    }
    Ok(messages)
}

fn message(given: ChatMessage, path: &str) -> Result<Message, ApiError> {
    let wrong = |problem: &str| ApiError::field(format!("{path}.role"), problem);
    let role = match given.role.as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => {
            let error = wrong("may not be a tool's: tools are not supported here");
            return Err(error.code("unsupported_parameter"));
        }
        Some(_) => return Err(wrong("must be system, user or assistant")),
        None => return Err(wrong("is missing")),
    };
    let content = match given.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => joined(parts, path)?,
        None if role == Role::Assistant => String::new(),
        None => return Err(ApiError::field(format!("{path}.content"), "is missing")),
    };
    Ok(Message { role, content })
}

fn joined(parts: Vec<ContentPart>, message: &str) -> Result<String, ApiError> {
    let mut joined = String::new();
    for (i, ContentPart { kind, text }) in parts.into_iter().enumerate() {
        if kind.as_deref() != Some("text") {
            let path = format!("{message}.content[{i}].type");
            let error = ApiError::field(path, "must be text: nothing else is supported here");
            return Err(error.code("unsupported_parameter"));
        }
        joined += &text.unwrap_or_default();
    }
    Ok(joined)
}
