//! The grammar that calls are held to.

use engine::Grammar;
use serde_json::{Value, json};

use super::{CLOSE, OPEN, Tool};

/// Which tools a text must or may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Text, calls, or both.
    #[default]
    Auto,
    /// At least one call and no text.
    Required,
    /// A call of this tool.
    Named(String),
}

/// What holds a text to calls of these tools. `several`: more than one call; `answer`: the form of an
/// answer that is no call, if it has one.
pub fn grammar(
    tools: &[Tool],
    choice: &ToolChoice,
    several: bool,
    answer: Option<&Grammar>,
) -> Grammar {
    let chosen: Vec<&Tool> = match choice {
        ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
    };
    let answer = match answer {
        Some(Grammar::JsonSchema(schema)) => Some(schema.clone()),
        Some(_) => Some(json!({"type": "object"})),
        None => None,
    };
    match (choice, answer) {
        (ToolChoice::Auto, None) => {
            let lark = format!("start: call\n{}", calls(&chosen, "\n"));
            Grammar::Triggered { word: OPEN.into(), lark, again: several }
        }
        (ToolChoice::Auto, Some(schema)) => {
            let start = start(several);
            let calls = calls(&chosen, &format!("{OPEN}\n"));
            let answer = json_rule(schema);
            Grammar::Lark(format!(
                "start: answer | calls\ncalls: {start}\nanswer: {answer}\n{calls}"
            ))
        }
        (ToolChoice::Required | ToolChoice::Named(_), _) => {
            let calls = calls(&chosen, &format!("{OPEN}\n"));
            Grammar::Lark(format!("start: {}\n{calls}", start(several)))
        }
    }
}

/// One call, or several that stand below each other.
fn start(several: bool) -> &'static str {
    if several { "call (\"\\n\" call)*" } else { "call" }
}

/// The rules of all calls: each begins with `opening`.
fn calls(tools: &[&Tool], opening: &str) -> String {
    let names: Vec<String> = (0..tools.len()).map(|i| format!("call_{i}")).collect();
    let mut rules = format!("call: {}\n", names.join(" | "));
    for (i, tool) in tools.iter().enumerate() {
        let head = literal(&format!("{opening}{{\"name\": \"{}\", \"arguments\": ", tool.name));
        let tail = literal(&format!("}}\n{CLOSE}"));
        let arguments = json_rule(tool.schema());
        rules += &format!("call_{i}: {head} arguments_{i} {tail}\narguments_{i}: {arguments}\n");
    }
    rules
}

/// A text in the grammar's own quotes, which are JSON's.
fn literal(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn json_rule(schema: Value) -> String {
    format!("%json {}", engine::grammar::spaced(schema))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use decode::{Continuation, Vocabulary, fake::FakeVocabulary};
    use engine::GrammarCompiler;

    use super::*;

    fn tools() -> Vec<Tool> {
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}},
                          "required": ["city"]});
        vec![
            Tool::new("weather".into(), None, Some(city)),
            Tool::new("time".into(), Some("What time it is".into()), None),
        ]
    }

    fn allows(grammar: &Grammar, text: &str) -> bool {
        let vocabulary = Arc::new(FakeVocabulary::new(&[]));
        let compiler = GrammarCompiler::new(vocabulary.clone()).unwrap();
        let mut constraint = compiler.compile(grammar).unwrap();
        let tokens = vocabulary.encode(text);
        if !constraint.allows(&tokens).unwrap() {
            return false;
        }
        constraint.advance(&tokens).unwrap();
        constraint.may_end().unwrap()
    }

    const PARIS: &str =
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    const TIME: &str = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

    #[test]
    fn calls_are_held_to_their_schema_and_text_is_not() {
        let auto = grammar(&tools(), &ToolChoice::Auto, true, None);
        for right in ["Hello.", PARIS, TIME, &format!("Let me see.\n{PARIS}\n{TIME}")] {
            assert!(allows(&auto, right), "{right}");
        }
        for wrong in [
            PARIS.replace("Paris\"", "Paris\", \"x\": 1").as_str(),
            &PARIS.replace("weather", "whether"),
            &PARIS.replace("city", "town"),
            "<tool_call>\n{",
            "<tool_call>hello",
        ] {
            assert!(!allows(&auto, wrong), "{wrong}");
        }
        let one = grammar(&tools(), &ToolChoice::Auto, false, None);
        assert!(allows(&one, PARIS) && !allows(&one, &format!("{PARIS}\n{TIME}")));
        let required = grammar(&tools(), &ToolChoice::Required, true, None);
        assert!(allows(&required, &format!("{TIME}\n{PARIS}")) && !allows(&required, "Hello."));
        let named = grammar(&tools(), &ToolChoice::Named("time".into()), false, None);
        assert!(allows(&named, TIME) && !allows(&named, PARIS));
        let schema = Grammar::JsonSchema(json!({"enum": ["yes", "no"]}));
        let either = grammar(&tools(), &ToolChoice::Auto, true, Some(&schema));
        assert!(allows(&either, PARIS) && allows(&either, "\"no\"") && !allows(&either, "no"));
    }

    #[test]
    fn all_but_the_choice_is_forced() {
        let vocabulary = Arc::new(FakeVocabulary::new(&[]));
        let compiler = GrammarCompiler::new(vocabulary.clone()).unwrap();
        let named = grammar(&tools(), &ToolChoice::Named("time".into()), false, None);
        let Continuation::Forced(tokens) =
            compiler.compile(&named).unwrap().continuation().unwrap()
        else {
            panic!("a call without arguments leaves no choice")
        };
        let text: Vec<u8> = tokens.iter().flat_map(|&t| vocabulary.piece(t)).collect();
        assert_eq!(String::from_utf8(text).unwrap(), TIME);
    }
}
