//! Requests of the responses API as chats.

use serde_json::{Value, json};

use super::super::{Fields, call, text_of};
use crate::http::ApiError;

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
    "background",
];

pub fn chat(body: Value) -> Result<Value, ApiError> {
    if body["background"] == true {
        return Err(unsupported("background"));
    }
    let mut fields = Fields::new(body, HARMLESS);
    let mut messages = vec![];
    if let Some(instructions) = fields.take("instructions") {
        messages.push(json!({ "role": "system", "content": instructions }));
    }
    match fields.take("input") {
        Some(Value::String(text)) => messages.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                turn(item, &format!("input[{i}]"), &mut messages)?;
            }
        }
        Some(_) => return Err(ApiError::field("input", "must be a text or a list of items")),
        None => return Err(ApiError::field("input", "is missing")),
    }
    fields.set("messages", messages.into());
    for (name, as_name) in [
        ("model", "model"),
        ("max_output_tokens", "max_tokens"),
        ("stream", "stream"),
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("parallel_tool_calls", "parallel_tool_calls"),
        ("tandem", "tandem"),
    ] {
        fields.pass(name, as_name);
    }
    if let Some(Value::Array(tools)) = fields.take("tools") {
        let tools = tools.iter().enumerate().map(tool).collect::<Result<Vec<_>, _>>()?;
        fields.set("tools", tools.into());
    }
    match fields.take("tool_choice") {
        None => {}
        Some(Value::Object(choice)) => {
            let function = json!({ "name": choice.get("name") });
            fields.set("tool_choice", json!({ "type": "function", "function": function }));
        }
        Some(word) => fields.set("tool_choice", word),
    }
    if let Some(text) = fields.take("text") {
        format(&text["format"], &mut fields)?;
    }
    if fields.take("reasoning").is_some_and(|reasoning| !reasoning["effort"].is_null()) {
        return Err(unsupported("reasoning"));
    }
    fields.finish()
}

fn unsupported(name: &str) -> ApiError {
    ApiError::field(name, "is not supported here").code("unsupported_parameter")
}

fn tool((i, tool): (usize, &Value)) -> Result<Value, ApiError> {
    if tool["type"] != "function" {
        return Err(unsupported(&format!("tools[{i}].type")));
    }
    let (name, description) = (&tool["name"], &tool["description"]);
    let function =
        json!({ "name": name, "description": description, "parameters": tool["parameters"] });
    Ok(json!({ "type": "function", "function": function }))
}

fn format(format: &Value, fields: &mut Fields<'_>) -> Result<(), ApiError> {
    let format = match format["type"].as_str() {
        None | Some("text") => return Ok(()),
        Some("json_object") => json!({ "type": "json_object" }),
        Some("json_schema") => {
            let schema = json!({ "name": format["name"], "schema": format["schema"] });
            json!({ "type": "json_schema", "json_schema": schema })
        }
        Some(_) => return Err(unsupported("text.format.type")),
    };
    fields.set("response_format", format);
    Ok(())
}

/// One item of the input: a message, a call or its result.
fn turn(item: &Value, path: &str, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    match item["type"].as_str() {
        None | Some("message") => {
            let kinds = ["input_text", "output_text", "text"];
            let content = text_of(&item["content"], &kinds, &format!("{path}.content"))?;
            messages.push(json!({ "role": item["role"], "content": content }));
        }
        Some("function_call") => {
            let made = call(&item["call_id"], &item["name"], &item["arguments"]);
            // Calls of one answer are one turn.
            match messages.last_mut() {
                Some(last) if last["role"] == "assistant" => {
                    match last["tool_calls"].as_array_mut() {
                        Some(calls) => calls.push(made),
                        None => last["tool_calls"] = json!([made]),
                    }
                }
                _ => messages.push(json!({ "role": "assistant", "tool_calls": [made] })),
            }
        }
        Some("function_call_output") => {
            let kinds = ["input_text", "output_text"];
            let content = text_of(&item["output"], &kinds, &format!("{path}.output"))?;
            let id = &item["call_id"];
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        }
        Some("reasoning") => {}
        Some(_) => return Err(unsupported(&format!("{path}.type"))),
    }
    Ok(())
}
