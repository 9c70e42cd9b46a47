//! Ollama's requests as chats of OpenAI's.

use serde_json::Value;

use super::{
    super::{Chat, call, check, message, refused},
    wire::{OllamaConversation, OllamaParameters, OllamaPrompt, OllamaTurn},
};
use crate::{
    edge::request::{
        read::halves,
        wire::{
            ChatMessage, Content, Conversation, GenerationParameters, JsonSchemaFormat, Object,
            ResponseFormat,
        },
    },
    http::ApiError,
};

/// Nothing is unloaded, and Ollama's engine is not this one: what its options say is said here when
/// the server starts.
const HARMLESS: &[&str] = &[
    "keep_alive",
    "context",
    "options.num_ctx",
    "options.num_batch",
    "options.num_gpu",
    "options.main_gpu",
    "options.num_thread",
    "options.use_mmap",
    "options.use_mlock",
    "options.numa",
    "options.low_vram",
    "options.num_keep",
    "options.repeat_last_n",
    "options.typical_p",
    "options.tfs_z",
    "options.mirostat",
    "options.mirostat_eta",
    "options.mirostat_tau",
    "options.penalize_newline",
    "options.vocab_only",
    "options.f16_kv",
];

/// A model's name without its tag.
pub fn model(name: &str) -> String {
    name.strip_suffix(":latest").unwrap_or(name).to_owned()
}

pub fn chat(body: &Value) -> Result<Chat, ApiError> {
    let (given, shared, extras) = halves::<OllamaConversation, OllamaParameters>(body)?;
    check(&extras, HARMLESS)?;
    let turns = given.messages.ok_or_else(|| ApiError::field("messages", "are missing"))?;
    let messages = turns.into_iter().enumerate().map(turn).collect::<Result<Vec<_>, _>>()?;
    let own = Conversation { tools: given.tools, ..Conversation::default() };
    translated(messages, own, shared)
}

pub fn generate(body: &Value) -> Result<Chat, ApiError> {
    let (given, shared, extras) = halves::<OllamaPrompt, OllamaParameters>(body)?;
    check(&extras, HARMLESS)?;
    for (name, asked) in [
        ("raw", given.raw == Some(true)),
        ("template", given.template.is_some_and(|text| !text.is_empty())),
        ("suffix", given.suffix.is_some_and(|text| !text.is_empty())),
    ] {
        if asked {
            let error = ApiError::field(name, "is not supported here: use /v1/completions");
            return Err(error.code("unsupported_parameter"));
        }
    }
    no_images(given.images, "images")?;
    let system = given.system.filter(|system| !system.is_empty());
    let system = system.map(|system| Object(message("system", system)));
    let prompt = Object(message("user", given.prompt.unwrap_or_default()));
    let messages = system.into_iter().chain([prompt]).collect();
    translated(messages, Conversation::default(), shared)
}

/// What both routes take.
fn translated(
    messages: Vec<Object<ChatMessage>>,
    own: Conversation,
    shared: OllamaParameters,
) -> Result<Chat, ApiError> {
    if shared.think.is_some_and(|think| think != false) {
        return Err(refused("think"));
    }
    let Object(options) = shared.options.unwrap_or_else(|| Object(Default::default()));
    let conversation = Conversation {
        messages: Some(messages),
        response_format: shared.format.map(format).transpose()?.flatten().map(Object),
        ..own
    };
    let parameters = GenerationParameters {
        model: shared.model.map(|name| model(&name)),
        stream: Some(shared.stream.unwrap_or(true)),
        temperature: options.temperature,
        top_p: options.top_p,
        top_k: options.top_k,
        min_p: options.min_p,
        repetition_penalty: options.repeat_penalty,
        presence_penalty: options.presence_penalty,
        frequency_penalty: options.frequency_penalty,
        seed: options.seed,
        stop: options.stop,
        // Below 0 there is no end: as long as answers may be here.
        max_tokens: options.num_predict.filter(|n| *n >= 0),
        tandem: shared.tandem,
        ..GenerationParameters::default()
    };
    Ok(Chat { conversation, parameters })
}

fn format(given: Value) -> Result<Option<ResponseFormat>, ApiError> {
    let (kind, schema) = match given {
        Value::Null => return Ok(None),
        Value::String(format) if format.is_empty() => return Ok(None),
        Value::String(format) if format == "json" => ("json_object", None),
        schema @ Value::Object(_) => ("json_schema", Some(schema)),
        _ => return Err(ApiError::field("format", "must be json or a JSON schema")),
    };
    let json_schema = Some(Object(JsonSchemaFormat { schema, ..JsonSchemaFormat::default() }));
    Ok(Some(ResponseFormat { kind: Some(kind.into()), json_schema }))
}

fn turn((i, Object(given)): (usize, Object<OllamaTurn>)) -> Result<Object<ChatMessage>, ApiError> {
    no_images(given.images, &format!("messages[{i}].images"))?;
    let calls = given.tool_calls.unwrap_or_default().into_iter().map(|Object(made)| {
        let function = made.function.map(|Object(function)| (function.name, function.arguments));
        let (name, arguments) = function.unwrap_or_default();
        // Ollama's calls have no ids.
        call(None, name, arguments)
    });
    let tool_calls = Some(calls.collect::<Vec<_>>()).filter(|calls| !calls.is_empty());
    let (role, content) = (given.role, given.content.map(Content::Text));
    Ok(Object(ChatMessage { role, content, tool_calls, ..ChatMessage::default() }))
}

fn no_images(given: Option<Vec<Value>>, path: &str) -> Result<(), ApiError> {
    match given.is_some_and(|images| !images.is_empty()) {
        true => Err(refused(path)),
        false => Ok(()),
    }
}
