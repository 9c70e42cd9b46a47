//! Anthropic's requests as chats of OpenAI's.

use serde_json::{Value, json};

use super::super::{Fields, call, text_of};
use crate::http::ApiError;

const HARMLESS: &[&str] = &["metadata", "service_tier", "betas"];

pub fn chat(body: Value) -> Result<Value, ApiError> {
    let mut fields = Fields::new(body, HARMLESS);
    let mut messages = vec![];
    if let Some(system) = fields.take("system") {
        let content = text_of(&system, &["text"], "system")?;
        messages.push(json!({ "role": "system", "content": content }));
    }
    match fields.take("messages") {
        Some(Value::Array(given)) => {
            for (i, message) in given.iter().enumerate() {
                turn(message, &format!("messages[{i}]"), &mut messages)?;
            }
        }
        _ => return Err(ApiError::field("messages", "are missing")),
    }
    fields.set("messages", messages.into());
    for (name, as_name) in [
        ("model", "model"),
        ("max_tokens", "max_tokens"),
        ("stream", "stream"),
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("top_k", "top_k"),
        ("stop_sequences", "stop"),
        ("tandem", "tandem"),
    ] {
        fields.pass(name, as_name);
    }
    if fields.take("thinking").is_some_and(|thinking| thinking["type"] != "disabled") {
        let error = ApiError::field("thinking", "is not supported here");
        return Err(error.code("unsupported_parameter"));
    }
    if let Some(Value::Array(tools)) = fields.take("tools") {
        let tools = tools.iter().enumerate().map(tool).collect::<Result<Vec<_>, _>>()?;
        fields.set("tools", tools.into());
    }
    if let Some(choice) = fields.take("tool_choice") {
        let wanted = match choice["type"].as_str() {
            Some("auto") => json!("auto"),
            Some("any") => json!("required"),
            Some("none") => json!("none"),
            Some("tool") => {
                json!({ "type": "function", "function": { "name": choice["name"] } })
            }
            _ => return Err(ApiError::field("tool_choice", "must be auto, any, tool or none")),
        };
        fields.set("tool_choice", wanted);
        if choice["disable_parallel_tool_use"] == true {
            fields.set("parallel_tool_calls", json!(false));
        }
    }
    fields.finish()
}

fn tool((i, tool): (usize, &Value)) -> Result<Value, ApiError> {
    if tool["type"].as_str().is_some_and(|kind| kind != "custom") {
        let error = ApiError::field(format!("tools[{i}].type"), "must be custom");
        return Err(error.code("unsupported_parameter"));
    }
    let (name, description) = (&tool["name"], &tool["description"]);
    let function =
        json!({ "name": name, "description": description, "parameters": tool["input_schema"] });
    Ok(json!({ "type": "function", "function": function }))
}

/// One message: a user's may hold results of tools, and an assistant's calls.
fn turn(message: &Value, path: &str, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    let role = message["role"].as_str().unwrap_or_default();
    let content = &message["content"];
    let Value::Array(blocks) = content else {
        messages.push(json!({ "role": role, "content": content }));
        return Ok(());
    };
    let (mut text, mut calls) = (String::new(), vec![]);
    for (i, block) in blocks.iter().enumerate() {
        let path = format!("{path}.content[{i}]");
        match block["type"].as_str() {
            Some("text") => text += block["text"].as_str().unwrap_or_default(),
            Some("thinking" | "redacted_thinking") => {}
            Some("tool_use") => calls.push(call(&block["id"], &block["name"], &block["input"])),
            Some("tool_result") => {
                let result = text_of(&block["content"], &["text"], &format!("{path}.content"))?;
                let id = &block["tool_use_id"];
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": result }));
            }
            _ => {
                let error = ApiError::field(
                    format!("{path}.type"),
                    "must be text, tool_use or tool_result: nothing else is supported here",
                );
                return Err(error.code("unsupported_parameter"));
            }
        }
    }
    let only_results = text.is_empty() && calls.is_empty() && !blocks.is_empty();
    if calls.is_empty() && !only_results {
        messages.push(json!({ "role": role, "content": text }));
    } else if !calls.is_empty() {
        messages.push(json!({ "role": role, "content": text, "tool_calls": calls }));
    }
    Ok(())
}
