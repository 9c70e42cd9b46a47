//! Conversations with tools, beside what the models' own templates make of them.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{fs::File, io::Read};

use decode::Message;
use minijinja::{Environment, Error, context, syntax::SyntaxConfig, value::Object};
use models::{Catalog, Home};
use serde_json::{Value, json};
use tandem::tools::{Tool, ToolCall, Turn, render};

/// JSON whose order a template keeps, as Python's dictionaries do.
#[derive(Debug)]
struct Json(Value);

impl Object for Json {}

fn held(value: &Value) -> minijinja::Value {
    minijinja::Value::from_object(Json(value.clone()))
}

/// JSON as `transformers` writes it for templates: Python's `json.dumps` without escapes of letters.
fn dumped(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(dumped).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let member = |(key, value)| format!("{}: {}", dumped(&json!(key)), dumped(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

/// The template of a model that was pulled, from the metadata at the beginning of its file.
fn template(model: &str) -> String {
    let home = Home::find(models::Environment::read()).unwrap();
    let path = home.require(Catalog::built_in().unwrap().find(model).unwrap()).unwrap();
    let mut start = vec![];
    File::open(path).unwrap().take(32 << 20).read_to_end(&mut start).unwrap();
    // Its key, the number of the type of texts, and its length.
    let key = [&b"tokenizer.chat_template"[..], &8u32.to_le_bytes()].concat();
    let at = start.windows(key.len()).position(|part| part == key).unwrap() + key.len();
    let (length, text) = start[at..].split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    String::from_utf8(text[..length].to_vec()).unwrap()
}

fn rendered(template: &str, messages: Vec<minijinja::Value>, tools: &[Value]) -> String {
    let mut environment = Environment::new();
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap();
    environment.set_syntax(syntax);
    environment.add_filter("tojson", |value: minijinja::Value| -> Result<String, Error> {
        Ok(dumped(&value.downcast_object_ref::<Json>().unwrap().0))
    });
    let tools: Vec<_> = tools.iter().map(held).collect();
    let about = context! { messages, tools, add_generation_prompt => true };
    environment.render_str(template, about).unwrap()
}

/// The conversation as a caller of `transformers` would give it to the template.
fn own(turn: &Turn) -> minijinja::Value {
    match turn {
        Turn::Message(message) => {
            context! { role => message.role.as_str(), content => message.content.as_str() }
        }
        Turn::Calls(text, calls) => {
            let call = |call: &ToolCall| {
                let arguments = serde_json::from_str(&call.arguments).unwrap();
                let function =
                    context! { name => call.name.as_str(), arguments => held(&arguments) };
                context! { function }
            };
            let tool_calls: Vec<_> = calls.iter().map(call).collect();
            context! { role => "assistant", content => text.as_str(), tool_calls }
        }
        Turn::Result(text) => context! { role => "tool", content => text.as_str() },
    }
}

fn conversations() -> Vec<(Vec<Tool>, Vec<Turn>)> {
    let weather = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "In \"any\" language, <b>é中</b> & more"},
            "days": {"type": "integer", "minimum": 1},
            "units": {"enum": ["°C", "°F", null, 1.5, true]},
        },
        "required": ["city"],
    });
    let weather =
        Tool::new("get_weather".into(), Some("The weather\nof a city".into()), Some(weather));
    let clock = Tool::new("clock".into(), None, None);
    let call =
        |name: &str, arguments: &str| ToolCall { name: name.into(), arguments: arguments.into() };
    let begun = [
        Turn::Message(Message::system("Be brief.")),
        Turn::Message(Message::user("How is it in Oslo, and how late?")),
    ];
    let calls = vec![
        call("get_weather", "{\"city\":\"Oslo\",\"days\":2,\"more\":[1,{\"a\":null}]}"),
        call("clock", "{}"),
    ];
    let mut long = begun.to_vec();
    long.extend([
        Turn::Calls(String::new(), calls.clone()),
        Turn::Result("{\"degrees\": -3}".into()),
        Turn::Result("12:30".into()),
        Turn::Message(Message::assistant("-3 °C, half past twelve.")),
        Turn::Message(Message::user("And now?")),
        Turn::Calls("I look again.".into(), calls[..1].to_vec()),
        Turn::Result("-4".into()),
    ]);
    vec![(vec![weather.clone()], begun.to_vec()), (vec![weather, clock], long)]
}

mod serial {
    use super::*;

    /// Both models of the default pair are told of tools what they were trained on.
    #[test]
    fn tools_are_told_as_the_default_pairs_templates_tell_them() {
        for model in ["qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"] {
            let template = template(model);
            for (tools, turns) in conversations() {
                let offered = |tool: &Tool| {
                    let mut function = json!({"name": tool.name});
                    if let Some(description) = &tool.description {
                        function["description"] = json!(description);
                    }
                    function["parameters"] = tool.parameters.clone();
                    json!({"type": "function", "function": function})
                };
                let offered: Vec<_> = tools.iter().map(offered).collect();
                let its_own = rendered(&template, turns.iter().map(own).collect(), &offered);
                // The larger one was published with a mistake, which its makers have mended since: the
                // braces of the form were doubled for a formatter that never came.
                let its_own = its_own
                    .replace("{{\"name\": <function-name>", "{\"name\": <function-name>")
                    .replace("<args-json-object>}}", "<args-json-object>}");
                let told = render(turns, &tools, "unused");
                let plain = |message: &Message| {
                    context! { role => message.role.as_str(), content => message.content.as_str() }
                };
                let ours = rendered(&template, told.iter().map(plain).collect(), &[]);
                assert!(ours.contains("# Tools") && ours.ends_with("<|im_start|>assistant\n"));
                assert_eq!(ours, its_own, "{model}");
            }
        }
    }
}
