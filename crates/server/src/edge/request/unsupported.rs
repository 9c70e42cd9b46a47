//! Parameters of OpenAI's that are not heeded here.

use serde_json::{Value, json};

use super::read::Extra;
use crate::http::ApiError;

/// Whose parameters they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Chat,
    Completion,
}

/// Lets a parameter pass if heeding it would not change the answer, and refuses it otherwise.
pub fn check(extra: &Extra<'_>, route: Route) -> Result<(), ApiError> {
    let harmless: &[Value] = match extra.place.as_str() {
        "user"
        | "metadata"
        | "store"
        | "service_tier"
        | "parallel_tool_calls"
        | "safety_identifier"
        | "prompt_cache_key"
        | "prompt_cache_retention"
        | "stream_options.include_obfuscation"
        // These come back with messages that were answers once, put together from a stream or read
        // by the client.
        | "messages[].annotations"
        | "messages[].refusal"
        | "messages[].reasoning"
        | "messages[].reasoning_content"
        | "messages[].parsed"
        | "messages[].tool_calls[].index"
        | "messages[].tool_calls[].function.parsed_arguments"
        // What a message is already says its role, and who speaks is no part of either model's form.
        | "messages[].type"
        | "messages[].name"
        // Hints for the caches of others.
        | "messages[].cache_control"
        | "tools[].cache_control"
        | "tools[].function.cache_control" => return Ok(()),
        place if place.starts_with("messages[].content[].") => return Ok(()),
        "functions"
        | "audio"
        | "web_search_options"
        | "reasoning_effort"
        | "verbosity"
        | "prediction"
        | "messages[].function_call"
        | "messages[].audio" => &[],
        "function_call" => &[json!("none"), json!("auto")],
        "tools" if route == Route::Completion => &[],
        "tool_choice" if route == Route::Completion => &[json!("none"), json!("auto")],
        "response_format" if route == Route::Completion => &[json!({ "type": "text" })],
        "modalities" => &[json!(["text"])],
        "suffix" if route == Route::Completion => &[],
        "echo" if route == Route::Completion => &[json!(false)],
        "best_of" if route == Route::Completion => &[json!(1)],
        _ if extra.value.is_null() => return Ok(()),
        _ => {
            let error = ApiError::field(&extra.path, "is not known here");
            return Err(error.code("unknown_parameter"));
        }
    };
    if asks_for_nothing(extra.value) || harmless.contains(extra.value) {
        return Ok(());
    }
    let error = ApiError::field(&extra.path, "is not supported here: it would change the answer");
    Err(error.code("unsupported_parameter"))
}

fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(place: &str, value: &Value) -> Result<(), ApiError> {
        let extra = Extra { path: place.replace("[]", "[0]"), place: place.into(), value };
        check(&extra, Route::Chat)
    }

    #[test]
    fn what_real_clients_add_to_messages_and_tools_passes() {
        for place in [
            "messages[].type",
            "messages[].parsed",
            "messages[].reasoning",
            "messages[].cache_control",
            "messages[].tool_calls[].index",
            "messages[].tool_calls[].function.parsed_arguments",
            "tools[].cache_control",
            "tools[].function.cache_control",
        ] {
            for value in [json!("text"), json!(0), json!({ "type": "ephemeral" })] {
                assert!(checked(place, &value).is_ok(), "{place} {value}");
            }
        }
        for place in ["messages[].typ", "tools[].cache", "messages[].tool_calls[].indices"] {
            let error = checked(place, &json!(1)).unwrap_err();
            assert!(error.message().contains("is not known here"), "{}", error.message());
        }
        let error = checked("messages[].audio", &json!({ "id": "a" })).unwrap_err();
        assert!(error.message().starts_with("messages[0].audio is not supported"));
    }
}
