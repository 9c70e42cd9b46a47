//! Anthropic's requests as chats of OpenAI's.

use serde_json::{Value, json};

use super::{
    super::{Chat, call, message, read, refused, result, text_of, tool},
    wire::{MessagesBlock, MessagesRequest, MessagesTool, MessagesToolChoice, MessagesTurn},
};
use crate::{
    edge::request::wire::{
        ChatMessage, Content, Conversation, GenerationParameters, Object, OneOrMore, ToolDefinition,
    },
    http::ApiError,
};

const HARMLESS: &[&str] = &["metadata", "service_tier", "betas"];

pub fn chat(body: &Value) -> Result<Chat, ApiError> {
    let given: MessagesRequest = read(body, HARMLESS)?;
    let mut messages = vec![];
    if given.system.is_some() {
        messages.push(message("system", text_of(given.system, "system")?));
    }
    let turns = given.messages.ok_or_else(|| ApiError::field("messages", "are missing"))?;
    for (i, Object(given)) in turns.into_iter().enumerate() {
        turn(given, &format!("messages[{i}]"), &mut messages)?;
    }
    if given.thinking.is_some_and(|Object(t)| t.kind.as_deref() != Some("disabled")) {
        return Err(refused("thinking"));
    }
    let tools = given.tools.map(|tools| tools.into_iter().enumerate().map(offered).collect());
    let choice = given.tool_choice.map(|Object(choice)| choice);
    let one = choice.as_ref().is_some_and(|c| c.disable_parallel_tool_use == Some(true));
    let conversation = Conversation {
        messages: Some(messages.into_iter().map(Object).collect()),
        tools: tools.transpose()?,
        tool_choice: choice.map(wanted).transpose()?,
        parallel_tool_calls: one.then_some(false),
        ..Conversation::default()
    };
    let parameters = GenerationParameters {
        model: given.model,
        max_tokens: given.max_tokens,
        stream: given.stream,
        temperature: given.temperature,
        top_p: given.top_p,
        top_k: given.top_k,
        stop: given.stop_sequences.map(OneOrMore::More),
        tandem: given.tandem,
        ..GenerationParameters::default()
    };
    Ok(Chat { conversation, parameters })
}

fn offered(
    (i, Object(given)): (usize, Object<MessagesTool>),
) -> Result<Object<ToolDefinition>, ApiError> {
    if given.kind.is_some_and(|kind| kind != "custom") {
        let error = ApiError::field(format!("tools[{i}].type"), "must be custom");
        return Err(error.code("unsupported_parameter"));
    }
    Ok(tool(given.name, given.description, given.input_schema))
}

fn wanted(choice: MessagesToolChoice) -> Result<Value, ApiError> {
    match choice.kind.as_deref() {
        Some("auto") => Ok(json!("auto")),
        Some("any") => Ok(json!("required")),
        Some("none") => Ok(json!("none")),
        Some("tool") => Ok(json!({ "type": "function", "function": { "name": choice.name } })),
        _ => Err(ApiError::field("tool_choice", "must be auto, any, tool or none")),
    }
}

/// One turn: a user's may hold results of tools, and an assistant's calls.
fn turn(given: MessagesTurn, path: &str, messages: &mut Vec<ChatMessage>) -> Result<(), ApiError> {
    let role = given.role;
    let blocks = match given.content {
        Some(Content::Parts(blocks)) => blocks,
        plain => {
            let content = match plain {
                Some(Content::Text(text)) => Some(Content::Text(text)),
                _ => None,
            };
            messages.push(ChatMessage { role, content, ..ChatMessage::default() });
            return Ok(());
        }
    };
    let any = !blocks.is_empty();
    let (mut text, mut calls) = (String::new(), vec![]);
    for (i, block) in blocks.into_iter().enumerate() {
        let path = format!("{path}.content[{i}]");
        let MessagesBlock { kind, text: more, id, name, input, tool_use_id, content } = block;
        match kind.as_deref() {
            Some("text") => text += more.as_deref().unwrap_or_default(),
            Some("thinking" | "redacted_thinking") => {}
            Some("tool_use") => calls.push(call(id, name, input)),
            Some("tool_result") => {
                let text = text_of(content, &format!("{path}.content"))?;
                messages.push(result(tool_use_id, text));
            }
            _ => {
                let problem =
                    "must be text, tool_use or tool_result: nothing else is supported here";
                let error = ApiError::field(format!("{path}.type"), problem);
                return Err(error.code("unsupported_parameter"));
            }
        }
    }
    let only_results = any && text.is_empty() && calls.is_empty();
    if !only_results {
        let tool_calls = Some(calls).filter(|calls| !calls.is_empty());
        let content = Some(Content::Text(text));
        messages.push(ChatMessage { role, content, tool_calls, ..ChatMessage::default() });
    }
    Ok(())
}
