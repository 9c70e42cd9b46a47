//! `POST /v1/chat/completions`: messages.

use ::tandem::{
    Grammar,
    tools::{Turn, grammar, render},
};
use cloud::protocol::Prompt;
use decode::{Message, Role};
use serde_json::Value;

use super::{
    GenerationRequest,
    common::{self, Checks},
    format,
    read::halves,
    tools,
    unsupported::{self, Route},
    wire::{ChatMessage, Content, ContentPart, Conversation, GenerationParameters, Object},
};
use crate::http::ApiError;

/// The most log-probabilities a token may tell.
const MAX_LOGPROBS: usize = 20;

pub fn request(object: &Value, checks: &Checks<'_>) -> Result<GenerationRequest, ApiError> {
    let (conversation, parameters, extras) = halves::<_, GenerationParameters>(object)?;
    extras.iter().try_for_each(|extra| unsupported::check(extra, Route::Chat))?;
    checked(conversation, parameters, checks)
}

/// The same for a conversation that is read already.
pub fn checked(
    mut conversation: Conversation,
    parameters: GenerationParameters,
    checks: &Checks<'_>,
) -> Result<GenerationRequest, ApiError> {
    let logprobs = logprobs(&conversation)?;
    let format = format::response_format(conversation.response_format.take())?;
    let offered = tools::tools(conversation.tools.take())?;
    let choice = tools::choice(conversation.tool_choice.take(), &offered)?;
    let several = conversation.parallel_tool_calls.unwrap_or(true);
    let offered = if choice.is_some() { offered } else { vec![] };
    let named = checks.named(parameters.model.as_deref())?;
    let messages = render(turns(conversation)?, &offered, &named.pair.defaults.system);
    let request = common::request(parameters, checks, named)?;
    let form = format::only_one(format, request.grammar)?;
    let grammar = match (&choice, &form) {
        (None, _) => form,
        (Some(_), Some(Grammar::Lark(_))) => {
            let problem = "and tools exclude each other: give one";
            return Err(ApiError::field("tandem.grammar", problem));
        }
        (Some(choice), form) => Some(grammar(&offered, choice, several, form.as_ref())),
    };
    let (prompts, tools) = (vec![Prompt::Messages(messages)], choice.is_some());
    Ok(GenerationRequest { prompts, logprobs, grammar, tools, ..request })
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

fn turns(conversation: Conversation) -> Result<Vec<Turn>, ApiError> {
    let given = conversation.messages;
    let given = given.ok_or_else(|| ApiError::field("messages", "are missing"))?;
    if given.is_empty() {
        return Err(ApiError::field("messages", "must not be empty"));
    }
    let read = |(i, Object(given)): (usize, Object<ChatMessage>)| {
        let calls = given.tool_calls.iter().flatten().map(|Object(call)| call.id.clone());
        let ids: Vec<_> = match given.role.as_deref() {
            Some("tool") => vec![given.tool_call_id.clone()],
            _ => calls.collect(),
        };
        Ok((turn(given, &format!("messages[{i}]"))?, ids))
    };
    let turns = given.into_iter().enumerate().map(read).collect::<Result<_, ApiError>>()?;
    Ok(tools::in_order_of_calls(turns))
}

fn turn(given: ChatMessage, path: &str) -> Result<Turn, ApiError> {
    let wrong = |problem: &str| ApiError::field(format!("{path}.role"), problem);
    let role = match given.role.as_deref() {
        Some("system" | "developer") => Some(Role::System),
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        Some("tool") => None,
        Some("function") => {
            let error = wrong("must be tool: functions without tools are not supported here");
            return Err(error.code("unsupported_parameter"));
        }
        Some(_) => return Err(wrong("must be system, user, assistant or tool")),
        None => return Err(wrong("is missing")),
    };
    let content = match given.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => joined(parts, path)?,
        None if role == Some(Role::Assistant) => String::new(),
        None => return Err(ApiError::field(format!("{path}.content"), "is missing")),
    };
    let calls = tools::calls(given.tool_calls.unwrap_or_default(), path)?;
    match role {
        Some(Role::Assistant) if !calls.is_empty() => Ok(Turn::Calls(content, calls)),
        _ if !calls.is_empty() => {
            Err(ApiError::field(format!("{path}.tool_calls"), "may only be the assistant's"))
        }
        Some(role) => Ok(Turn::Message(Message { role, content })),
        None => Ok(Turn::Result(content)),
    }
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
