//! A conversation with tools as plain messages.

use std::io;

use decode::{Message, Role};
use serde::Serialize;
use serde_json::{Value, json, ser::Formatter};

use super::{CLOSE, OPEN, Tool, ToolCall};

/// One turn of a conversation that may use tools.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Plain text of anybody.
    Message(Message),
    /// The models' text, if any, and their calls.
    Calls(String, Vec<ToolCall>),
    /// What a call returned.
    Result(String),
}

/// The messages as both models read them. `system` is used where the conversation has none.
pub fn render(turns: Vec<Turn>, tools: &[Tool], system: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = vec![];
    let mut after_result = false;
    for turn in turns {
        let result = matches!(turn, Turn::Result(_));
        match turn {
            Turn::Message(message) => messages.push(message),
            Turn::Calls(text, calls) => messages.push(Message::assistant(told(&text, &calls))),
            Turn::Result(text) => {
                let text = format!("<tool_response>\n{text}\n</tool_response>");
                match messages.last_mut() {
                    // Results of calls that were made together come back together.
                    Some(last) if after_result => last.content += &format!("\n{text}"),
                    _ => messages.push(Message::user(text)),
                }
            }
        }
        after_result = result;
    }
    if !messages.iter().any(|message| message.role == Role::System) {
        messages.insert(0, Message::system(system));
    }
    if let (false, Some(first)) =
        (tools.is_empty(), messages.iter_mut().find(|message| message.role == Role::System))
    {
        first.content += &introduction(tools);
    }
    messages
}

/// What models that were trained on this form were told.
fn introduction(tools: &[Tool]) -> String {
    let mut text = String::from(
        "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
         You are provided with function signatures within <tools></tools> XML tags:\n<tools>",
    );
    for tool in tools {
        let mut function = json!({"name": tool.name});
        if let Some(description) = &tool.description {
            function["description"] = json!(description);
        }
        function["parameters"] = tool.parameters.clone();
        text += &format!("\n{}", spaced(&json!({"type": "function", "function": function})));
    }
    text += &format!(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments \
         within {OPEN}{CLOSE} XML tags:\n{OPEN}\n{{\"name\": <function-name>, \"arguments\": \
         <args-json-object>}}\n{CLOSE}"
    );
    text
}

/// A turn with calls, as a model would have written it.
fn told(text: &str, calls: &[ToolCall]) -> String {
    let call = |call: &ToolCall| {
        let arguments = match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) => spaced(&arguments),
            Err(_) => call.arguments.clone(),
        };
        let name = Value::String(call.name.clone());
        format!("{OPEN}\n{{\"name\": {name}, \"arguments\": {arguments}}}\n{CLOSE}")
    };
    let parts = calls.iter().map(call);
    let text = Some(text.to_owned()).filter(|text| !text.is_empty());
    text.into_iter().chain(parts).collect::<Vec<_>>().join("\n")
}

/// JSON with a space behind each comma and colon, as Python writes it.
fn spaced(value: &Value) -> String {
    let mut bytes = vec![];
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // Cannot happen: a value can be written.
        Err(_) => value.to_string(),
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_with_tools_reads_as_the_models_know_it() {
        let tool = Tool::new("f".into(), Some("Does.".into()), None);
        let call = ToolCall { name: "f".into(), arguments: "{\"a\":[1,2]}".into() };
        let turns = vec![
            Turn::Message(Message::user("Hi")),
            Turn::Calls(String::new(), vec![call.clone(), call]),
            Turn::Result("one".into()),
            Turn::Result("two".into()),
            Turn::Message(Message::user("And?")),
        ];
        let messages = render(turns, &[tool], "Be brief.");
        let roles: Vec<_> = messages.iter().map(|m| m.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user", "user"]);
        let system = &messages[0].content;
        assert!(system.starts_with("Be brief.\n\n# Tools\n\n"), "{system}");
        assert!(
            system.contains("\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\"")
        );
        assert!(system.ends_with("\"arguments\": <args-json-object>}\n</tool_call>"), "{system}");
        let told = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2]}}\n</tool_call>";
        assert_eq!(messages[2].content, format!("{told}\n{told}"));
        assert_eq!(
            messages[3].content,
            "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
        );
    }

    #[test]
    fn without_tools_nothing_is_added() {
        let messages = render(vec![Turn::Message(Message::user("Hi"))], &[], "Be brief.");
        assert_eq!(messages, [Message::system("Be brief."), Message::user("Hi")]);
    }
}
