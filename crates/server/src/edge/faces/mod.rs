//! Other APIs over the same core: each translates its requests into a chat of OpenAI's, which is then
//! checked and answered as any other, and tells the answer in its own shapes.
//!
//! - [`anthropic`]: `/v1/messages`; [`ollama`]: `/api/…`; [`responses`]: `/v1/responses`
//! - `blocks`: an answer as a row of blocks, which two of them tell it as
//! - `tell`: whole answers and streams; `key`: keys in another header

pub mod anthropic;
mod blocks;
pub mod embeddings;
pub mod key;
pub mod ollama;
pub mod responses;
mod tell;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tandem::Pair;
use tokio::sync::mpsc;

use super::{
    Server,
    request::{self, GenerationRequest},
    writer::{self, Event},
};
use crate::http::ApiError;

/// Begins the text of a translated request.
async fn begin<P: Pair>(
    server: &Arc<Server<P>>,
    chat: &Value,
) -> Result<(Arc<GenerationRequest>, mpsc::Receiver<Event>), ApiError> {
    let request = Arc::new(request::chat::request(chat, &server.checks())?);
    let events = writer::start(server.clone(), request.clone()).await?;
    Ok((request, events))
}

/// Reads the fields of a body one by one, and in the end refuses what nobody read.
struct Fields<'a> {
    object: Map<String, Value>,
    chat: Map<String, Value>,
    harmless: &'a [&'a str],
}

impl<'a> Fields<'a> {
    /// `harmless`: fields that change nothing here.
    fn new(body: Value, harmless: &'a [&'a str]) -> Self {
        let object = match body {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        Self { object, chat: Map::new(), harmless }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name).filter(|value| !value.is_null())
    }

    /// Passes a field on under OpenAI's name, which checks its value.
    fn pass(&mut self, name: &str, as_name: &str) {
        if let Some(value) = self.take(name) {
            self.set(as_name, value);
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        self.chat.insert(name.to_owned(), value);
    }

    /// The chat, if every field was read.
    fn finish(self) -> Result<Value, ApiError> {
        let unread = self
            .object
            .iter()
            .find(|(name, value)| !value.is_null() && !self.harmless.contains(&name.as_str()));
        match unread {
            None => Ok(self.chat.into()),
            Some((name, _)) => {
                let error = ApiError::field(name, "is not supported here");
                Err(error.code("unsupported_parameter"))
            }
        }
    }
}

/// Text that may come in parts of these types.
fn text_of(content: &Value, kinds: &[&str], path: &str) -> Result<String, ApiError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let part = |(i, part): (usize, &Value)| {
                let kind = part["type"].as_str().unwrap_or_default();
                match part["text"].as_str().filter(|_| kinds.contains(&kind)) {
                    Some(text) => Ok(text.to_owned()),
                    None => {
                        let path = format!("{path}[{i}].type");
                        let problem = "must be text: nothing else is supported here";
                        Err(ApiError::field(path, problem).code("unsupported_parameter"))
                    }
                }
            };
            parts.iter().enumerate().map(part).collect()
        }
        Value::Null => Ok(String::new()),
        _ => Err(ApiError::field(path, "must be a text or a list of parts")),
    }
}

/// A call of an earlier answer, in OpenAI's shape.
fn call(id: &Value, name: &Value, arguments: &Value) -> Value {
    let arguments = match arguments {
        Value::String(text) => text.clone(),
        Value::Null => "{}".into(),
        other => other.to_string(),
    };
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

/// What is wrong, in words and as a kind.
fn described(error: &ApiError) -> (String, String) {
    let body = json!(error.body());
    let word = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    (word("message"), word("type"))
}
