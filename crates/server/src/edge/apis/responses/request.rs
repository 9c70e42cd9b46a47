//! Requests of the responses API as chats.

use serde_json::{Value, json};

use super::{
    super::{Chat, call, message, read, refused, result, text_of, tool},
    wire::{InputItem, ResponsesRequest, ResponsesTool, TextFormat},
};
use crate::{
    edge::request::wire::{
        ChatMessage, Content, Conversation, GenerationParameters, JsonSchemaFormat, Object,
        ResponseFormat, ToolDefinition,
    },
    http::ApiError,
};

const HARMLESS: &[&str] = &[
    "metadata",
    "store",
    "user",
    "truncation",
    "include",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "stream_options",
];

pub fn chat(body: &Value) -> Result<Chat, ApiError> {
    let given: ResponsesRequest = read(body, HARMLESS)?;
    if given.background == Some(true) {
        return Err(refused("background"));
    }
    if given.reasoning.is_some_and(|Object(reasoning)| reasoning.effort.is_some()) {
        return Err(refused("reasoning"));
    }
    let mut messages = vec![];
    messages.extend(given.instructions.map(|text| message("system", text)));
    match given.input {
        None => return Err(ApiError::field("input", "is missing")),
        Some(Content::Text(text)) => messages.push(message("user", text)),
        Some(Content::Parts(items)) => {
            for (i, item) in items.into_iter().enumerate() {
                turn(item, &format!("input[{i}]"), &mut messages)?;
            }
        }
    }
    let format = given.text.and_then(|Object(text)| text.format);
    let tools = given.tools.map(|tools| tools.into_iter().enumerate().map(offered).collect());
    let conversation = Conversation {
        messages: Some(messages.into_iter().map(Object).collect()),
        response_format: format.map(|Object(format)| form(format)).transpose()?.flatten(),
        tools: tools.transpose()?,
        tool_choice: given.tool_choice.map(wanted),
        parallel_tool_calls: given.parallel_tool_calls,
        ..Conversation::default()
    };
    let parameters = GenerationParameters {
        model: given.model,
        max_tokens: given.max_output_tokens,
        stream: given.stream,
        temperature: given.temperature,
        top_p: given.top_p,
        tandem: given.tandem,
        ..GenerationParameters::default()
    };
    Ok(Chat { conversation, parameters })
}

fn offered(
    (i, Object(given)): (usize, Object<ResponsesTool>),
) -> Result<Object<ToolDefinition>, ApiError> {
    match given.kind.as_deref() {
        Some("function") => Ok(tool(given.name, given.description, given.parameters)),
        _ => Err(refused(&format!("tools[{i}].type"))),
    }
}

fn wanted(choice: Value) -> Value {
    match choice.get("name") {
        Some(name) => json!({ "type": "function", "function": { "name": name } }),
        None => choice,
    }
}

fn form(format: TextFormat) -> Result<Option<Object<ResponseFormat>>, ApiError> {
    let json_schema = match format.kind.as_deref() {
        None | Some("text") => return Ok(None),
        Some("json_object") => None,
        Some("json_schema") => {
            let schema = format.schema;
            Some(Object(JsonSchemaFormat { schema, ..JsonSchemaFormat::default() }))
        }
        Some(_) => return Err(refused("text.format.type")),
    };
    Ok(Some(Object(ResponseFormat { kind: format.kind, json_schema })))
}

/// One item of the input: a message, a call or its result.
fn turn(item: InputItem, path: &str, messages: &mut Vec<ChatMessage>) -> Result<(), ApiError> {
    match item.kind.as_deref() {
        None | Some("message") => {
            let content = text_of(item.content, &format!("{path}.content"))?;
            let content = Some(Content::Text(content));
            messages.push(ChatMessage { role: item.role, content, ..ChatMessage::default() });
        }
        Some("function_call") => {
            let made = call(item.call_id, item.name, item.arguments.map(Value::String));
            // Calls of one answer are one turn.
            match messages.last_mut() {
                Some(last) if last.role.as_deref() == Some("assistant") => {
                    last.tool_calls.get_or_insert_default().push(made);
                }
                _ => messages.push(ChatMessage {
                    role: Some("assistant".into()),
                    tool_calls: Some(vec![made]),
                    ..ChatMessage::default()
                }),
            }
        }
        Some("function_call_output") => {
            let content = text_of(item.output, &format!("{path}.output"))?;
            messages.push(result(item.call_id, content));
        }
        Some("reasoning") => {}
        Some(_) => return Err(refused(&format!("{path}.type"))),
    }
    Ok(())
}
