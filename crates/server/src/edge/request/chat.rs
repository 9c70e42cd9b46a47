//! `POST /v1/chat/completions`: messages.

use ::tandem::RouterRegistry;
use cloud::protocol::Prompt;
use decode::{Message, Role};
use serde_json::{Map, Value};

use super::{GenerationRequest, common, fields::Fields};
use crate::edge::{config::Defaults, error::ApiError};

/// The most log-probabilities a token may tell.
const LOGPROBS: usize = 20;

/// A request, checked.
pub fn request(
    body: Map<String, Value>,
    defaults: &Defaults,
    judges: &RouterRegistry,
) -> Result<GenerationRequest, ApiError> {
    let mut fields = Fields::new(body);
    let messages = messages(&mut fields, &defaults.system)?;
    let request = common::request(&mut fields, defaults, judges)?;
    let logprobs = logprobs(&mut fields)?;
    fields.finish()?;
    Ok(GenerationRequest { prompts: vec![Prompt::Messages(messages)], logprobs, ..request })
}

fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.take::<bool>("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=LOGPROBS)?;
    match (wanted, top) {
        (false, Some(n)) if n > 0 => {
            Err(fields.wrong("top_logprobs", "is told only with \"logprobs\": true"))
        }
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

/// The conversation. The models' own system messages differ, so both are always given one.
fn messages(fields: &mut Fields, system: &str) -> Result<Vec<Message>, ApiError> {
    let given = fields.take::<Vec<Value>>("messages")?;
    let given = given.ok_or_else(|| fields.wrong("messages", "are missing"))?;
    if given.is_empty() {
        return Err(fields.wrong("messages", "must not be empty"));
    }
    let read = |(i, value)| message(Fields::inside(value, format!("messages[{i}]"))?);
    let mut messages = given.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    if messages.iter().all(|m| m.role != Role::System) {
        messages.insert(0, Message::system(system));
    }
    Ok(messages)
}

fn message(mut fields: Fields) -> Result<Message, ApiError> {
    let role = match fields.take::<String>("role")?.as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => {
            let message = "may not be a tool's: tools are not supported here";
            return Err(fields.wrong("role", message).code("unsupported_parameter"));
        }
        Some(_) => return Err(fields.wrong("role", "must be system, user or assistant")),
        None => return Err(fields.wrong("role", "is missing")),
    };
    let content = match fields.take::<Value>("content")? {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => joined(&fields, parts)?,
        None if role == Role::Assistant => String::new(),
        None => return Err(fields.wrong("content", "is missing")),
        Some(_) => return Err(fields.wrong("content", "must be a text or a list of parts")),
    };
    for field in ["tool_calls", "function_call", "audio"] {
        fields.refuse_unless(field, &[])?;
    }
    // Annotations and a refusal come back with messages that were answers once.
    fields.ignore(&["name", "annotations", "refusal", "reasoning_content"]);
    fields.finish()?;
    Ok(Message { role, content })
}

fn joined(message: &Fields, parts: Vec<Value>) -> Result<String, ApiError> {
    let mut text = String::new();
    for (i, part) in parts.into_iter().enumerate() {
        let mut part = Fields::inside(part, message.name(&format!("content[{i}]")))?;
        match part.take::<String>("type")?.as_deref() {
            Some("text") => text += &part.take::<String>("text")?.unwrap_or_default(),
            _ => {
                let error = part.wrong("type", "must be text: nothing else is supported here");
                return Err(error.code("unsupported_parameter"));
            }
        }
    }
    Ok(text)
}
