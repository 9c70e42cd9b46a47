//! Tools: those that are offered, and which of them have to be called.

use serde_json::Value;
use tandem::tools::{self, Tool, ToolCall, ToolChoice, Turn};

use super::wire::{GivenCall, Object, ToolDefinition};
use crate::http::ApiError;

/// The tools that are offered.
pub fn tools(given: Option<Vec<Object<ToolDefinition>>>) -> Result<Vec<Tool>, ApiError> {
    let given = given.unwrap_or_default();
    let read = |(i, Object(ToolDefinition { kind, function }))| {
        let path = format!("tools[{i}]");
        if kind.is_some_and(|kind| kind != "function") {
            let error = ApiError::field(format!("{path}.type"), "must be function");
            return Err(error.code("unsupported_parameter"));
        }
        let missing = |what: &str| ApiError::field(format!("{path}.{what}"), "is missing");
        let Object(function) = function.ok_or_else(|| missing("function"))?;
        let name = function.name.ok_or_else(|| missing("function.name"))?;
        Ok(Tool::new(name, function.description, function.parameters))
    };
    let tools = given.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    tools::check(&tools).map_err(|(i, problem)| ApiError::field(format!("tools[{i}]"), problem))?;
    Ok(tools)
}

/// Which of them may or must be called; `None` where none may.
pub fn choice(given: Option<Value>, tools: &[Tool]) -> Result<Option<ToolChoice>, ApiError> {
    let wrong = |problem: &str| ApiError::field("tool_choice", problem);
    let choice = match &given {
        None | Some(Value::Null) => Some(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "none" => None,
            "auto" => Some(ToolChoice::Auto),
            "required" => Some(ToolChoice::Required),
            _ => return Err(wrong("must be none, auto, required or a function")),
        },
        Some(object) => {
            let name = object.pointer("/function/name").and_then(Value::as_str);
            let name = name.filter(|_| object["type"] == "function");
            let name = name.ok_or_else(|| wrong("must be none, auto, required or a function"))?;
            Some(ToolChoice::Named(name.to_owned()))
        }
    };
    match &choice {
        Some(ToolChoice::Named(name)) if tools.iter().all(|tool| tool.name != *name) => {
            Err(wrong("names a function that is not among the tools"))
        }
        Some(ToolChoice::Required) if tools.is_empty() => {
            Err(wrong("is required, but there are no tools"))
        }
        Some(_) if tools.is_empty() => Ok(None),
        _ => Ok(choice),
    }
}

/// The calls of an earlier turn.
pub fn calls(given: Vec<Object<GivenCall>>, message: &str) -> Result<Vec<ToolCall>, ApiError> {
    let read = |(i, Object(call)): (usize, Object<GivenCall>)| {
        let path = format!("{message}.tool_calls[{i}].function");
        let missing = |what: &str| ApiError::field(format!("{path}{what}"), "is missing");
        let Object(function) = call.function.ok_or_else(|| missing(""))?;
        let name = function.name.ok_or_else(|| missing(".name"))?;
        let arguments = function.arguments.unwrap_or_else(|| "{}".into());
        Ok(ToolCall { name, arguments })
    };
    given.into_iter().enumerate().map(read).collect()
}

/// A turn with the ids that tell results which call they are of: those of its calls, or that of its own.
pub type NamedTurn = (Turn, Vec<Option<String>>);

/// Results in the order of the calls that they name, which is all that the models go by. Where one names
/// none of the calls, they stay as they came.
pub fn in_order_of_calls(turns: Vec<NamedTurn>) -> Vec<Turn> {
    let is_result = |(turn, _): &NamedTurn| matches!(turn, Turn::Result(_));
    let (mut ordered, mut calls) = (vec![], vec![]);
    let mut turns = turns.into_iter().peekable();
    while let Some(turn) = turns.next() {
        if !is_result(&turn) {
            calls = turn.1;
            ordered.push(turn.0);
            continue;
        }
        let mut results = vec![turn];
        results.extend(std::iter::from_fn(|| turns.next_if(is_result)));
        let place = |(_, ids): &NamedTurn| {
            let id = ids.first().filter(|id| id.is_some())?;
            calls.iter().position(|call| call == id)
        };
        if results.iter().all(|result| place(result).is_some()) {
            results.sort_by_key(place);
        }
        ordered.extend(results.into_iter().map(|(turn, _)| turn));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> NamedTurn {
        (Turn::Calls(String::new(), vec![]), ids.iter().map(|id| Some((*id).to_owned())).collect())
    }

    fn result(id: Option<&str>, text: &str) -> NamedTurn {
        (Turn::Result(text.into()), vec![id.map(String::from)])
    }

    fn told(turns: Vec<NamedTurn>) -> String {
        let text = |turn| match turn {
            Turn::Calls(..) => "|".to_owned(),
            Turn::Result(text) => text,
            Turn::Message(message) => message.content,
        };
        in_order_of_calls(turns).into_iter().map(text).collect()
    }

    #[test]
    fn results_stand_in_the_order_of_their_own_calls() {
        let first = [calls(&["a", "b"]), result(Some("b"), "2"), result(Some("a"), "1")];
        let second = [calls(&["c", "a"]), result(Some("a"), "4"), result(Some("c"), "3")];
        assert_eq!(told(first.into_iter().chain(second).collect()), "|12|34");
        for unknown in [Some("x"), None] {
            let turns = vec![calls(&["a", "b"]), result(Some("b"), "2"), result(unknown, "1")];
            assert_eq!(told(turns), "|21");
        }
        assert_eq!(told(vec![result(Some("a"), "1"), result(None, "2")]), "12");
    }
}
