//! Ollama's requests as chats of OpenAI's.

use serde_json::{Value, json};

use super::super::{Fields, call};
use crate::http::ApiError;

/// Nothing is unloaded, and nothing is thought about in secret.
const HARMLESS: &[&str] = &["keep_alive", "options", "context"];

/// What Ollama calls the options that are OpenAI's parameters.
const OPTIONS: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
    ("repeat_penalty", "repetition_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("seed", "seed"),
    ("stop", "stop"),
];

/// Options of Ollama's engine, which this one has at its start.
const ENGINE: &[&str] = &[
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "use_mmap",
    "use_mlock",
    "numa",
    "low_vram",
    "num_keep",
    "repeat_last_n",
    "typical_p",
    "tfs_z",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "penalize_newline",
    "vocab_only",
    "f16_kv",
];

/// A model's name without its tag.
pub fn model(given: &Value) -> String {
    let name = given.as_str().unwrap_or_default();
    name.strip_suffix(":latest").unwrap_or(name).to_owned()
}

pub fn chat(body: Value) -> Result<Value, ApiError> {
    let mut fields = Fields::new(body, HARMLESS);
    shared(&mut fields)?;
    let Some(Value::Array(given)) = fields.take("messages") else {
        return Err(ApiError::field("messages", "are missing"));
    };
    let turns = given.iter().enumerate().map(turn).collect::<Result<Vec<_>, _>>()?;
    fields.set("messages", turns.into());
    fields.pass("tools", "tools");
    fields.finish()
}

pub fn generate(body: Value) -> Result<Value, ApiError> {
    let mut fields = Fields::new(body, HARMLESS);
    shared(&mut fields)?;
    let mut messages = vec![];
    if let Some(system) = fields.take("system").filter(|system| *system != "") {
        messages.push(json!({ "role": "system", "content": system }));
    }
    let prompt = fields.take("prompt").unwrap_or_default();
    messages.push(json!({ "role": "user", "content": prompt }));
    fields.set("messages", messages.into());
    for refused in ["raw", "template", "suffix"] {
        let given = fields.take(refused);
        if given.is_some_and(|given| given != false && given != "") {
            let error = ApiError::field(refused, "is not supported here: use /v1/completions");
            return Err(error.code("unsupported_parameter"));
        }
    }
    no_images(fields.take("images"), "images")?;
    fields.finish()
}

/// What both routes take.
fn shared(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    if let Some(given) = fields.take("model") {
        fields.set("model", json!(model(&given)));
    }
    let stream = fields.take("stream").unwrap_or(json!(true));
    fields.set("stream", stream);
    match fields.take("format") {
        None => {}
        Some(Value::String(format)) if format.is_empty() => {}
        Some(Value::String(format)) if format == "json" => {
            fields.set("response_format", json!({ "type": "json_object" }));
        }
        Some(schema @ Value::Object(_)) => {
            let schema = json!({ "name": "format", "schema": schema });
            fields.set("response_format", json!({ "type": "json_schema", "json_schema": schema }));
        }
        Some(_) => return Err(ApiError::field("format", "must be json or a JSON schema")),
    }
    if fields.take("think").is_some_and(|think| think != false) {
        let error = ApiError::field("think", "is not supported here");
        return Err(error.code("unsupported_parameter"));
    }
    fields.pass("tandem", "tandem");
    let Some(Value::Object(mut options)) = fields.take("options") else { return Ok(()) };
    for (name, as_name) in OPTIONS {
        if let Some(value) = options.remove(*name).filter(|value| !value.is_null()) {
            fields.set(as_name, value);
        }
    }
    match options.remove("num_predict") {
        None | Some(Value::Null) => {}
        // Without an end: as long as answers may be here.
        Some(n) if n.as_i64().is_some_and(|n| n < 0) => {}
        Some(n) => fields.set("max_tokens", n),
    }
    match options.keys().find(|name| !ENGINE.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let error = ApiError::field(format!("options.{name}"), "is not known here");
            Err(error.code("unknown_parameter"))
        }
    }
}

fn turn((i, message): (usize, &Value)) -> Result<Value, ApiError> {
    no_images(message.get("images").cloned(), &format!("messages[{i}].images"))?;
    let mut turn = json!({ "role": message["role"], "content": message["content"] });
    if let Some(Value::Array(calls)) = message.get("tool_calls") {
        let read = |made: &Value| {
            let function = &made["function"];
            call(&Value::Null, &function["name"], &function["arguments"])
        };
        turn["tool_calls"] = calls.iter().map(read).collect();
    }
    Ok(turn)
}

fn no_images(given: Option<Value>, path: &str) -> Result<(), ApiError> {
    match given {
        Some(Value::Array(images)) if !images.is_empty() => {
            let error = ApiError::field(path, "are not supported here");
            Err(error.code("unsupported_parameter"))
        }
        _ => Ok(()),
    }
}
