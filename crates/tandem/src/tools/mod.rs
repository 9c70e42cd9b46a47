//! Tools: functions that the models may ask the caller to run.
//!
//! The form is the one that Qwen2.5 and other models after Hermes were trained on: the tools stand in
//! the system message, a call is a JSON object between `<tool_call>` and `</tool_call>`, and a result
//! comes back between `<tool_response>` and `</tool_response>`. It is written into the messages, so
//! both models are told the same, whatever engine the large one runs on.
//!
//! - `render`: a conversation with tools as plain messages
//! - `form`: the grammar that calls are held to, with the arguments held to each tool's schema
//! - `read`: calls in a text while it grows

mod form;
mod read;
mod render;

use std::collections::HashSet;

use serde_json::{Value, json};

pub use self::{
    form::{ToolChoice, grammar},
    read::{CallReader, Read},
    render::{Turn, render},
};

/// What stands around a call.
pub(crate) const OPEN: &str = "<tool_call>";
pub(crate) const CLOSE: &str = "</tool_call>";

/// The most tools of one request, and the longest name.
const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;

/// A function that may be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, for the models.
    pub description: Option<String>,
    /// A JSON schema of an object.
    pub parameters: Value,
}

/// A call that a model made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON.
    pub arguments: String,
}

impl Tool {
    /// A tool; without parameters it takes none.
    pub fn new(name: String, description: Option<String>, parameters: Option<Value>) -> Self {
        let none = || json!({"type": "object", "properties": {}});
        Self { name, description, parameters: parameters.unwrap_or_else(none) }
    }

    /// What the arguments are held to: an object, and no other properties than those it names, unless
    /// the schema says otherwise itself.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = match &self.parameters {
            Value::Object(schema) => schema.clone(),
            _ => serde_json::Map::new(),
        };
        let whole = ["$ref", "anyOf", "oneOf", "allOf"].iter().any(|key| schema.contains_key(*key));
        if !whole {
            schema.entry("type").or_insert_with(|| json!("object"));
            schema.entry("properties").or_insert_with(|| json!({}));
            schema.entry("additionalProperties").or_insert_with(|| json!(false));
        }
        Value::Object(schema)
    }
}

/// Refuses tools that cannot be told apart or written down; says which and why.
pub fn check(tools: &[Tool]) -> Result<(), (usize, String)> {
    let mut names = HashSet::new();
    for (i, tool) in tools.iter().enumerate() {
        if i >= MAX_TOOLS {
            return Err((i, format!("is one too many: there may be {MAX_TOOLS}")));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if tool.name.is_empty() || tool.name.len() > MAX_NAME || !tool.name.chars().all(plain) {
            let problem = format!(
                "has a name that is not 1 to {MAX_NAME} letters, digits, underscores and dashes"
            );
            return Err((i, problem));
        }
        if !names.insert(tool.name.as_str()) {
            return Err((i, format!("has the name {:?}, which another one has", tool.name)));
        }
        if !tool.parameters.is_object() {
            return Err((i, "has parameters that are not a JSON schema".into()));
        }
        engine::grammar::check_schema(&tool.parameters)
            .map_err(|e| (i, format!("has parameters that cannot be used: {e}")))?;
    }
    Ok(())
}
