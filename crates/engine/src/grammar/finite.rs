//! Whether a schema has an end: a document that must contain itself can never be written.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::GrammarError;

/// How many places of a schema are looked at; a schema of this many is refused.
const MAX_VISITS: usize = 100_000;

/// Refuses a schema whose documents would all be endless, and one that refers to itself in circles.
pub fn check(schema: &Value) -> Result<(), GrammarError> {
    let mut search =
        Search { root: schema, open: HashSet::new(), known: HashMap::new(), visits: 0 };
    match search.ends(schema) {
        Some(true) => Ok(()),
        Some(false) => Err(GrammarError("no finite document fits this schema".into())),
        None => Err(GrammarError("this schema is too large".into())),
    }
}

struct Search<'a> {
    root: &'a Value,
    /// The references that are being followed.
    open: HashSet<&'a str>,
    /// References with an end; one without an end may have one from elsewhere.
    known: HashMap<&'a str, bool>,
    visits: usize,
}

impl<'a> Search<'a> {
    /// Whether a finite document fits; `None` where the schema is too large to tell.
    fn ends(&mut self, schema: &'a Value) -> Option<bool> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return None;
        }
        let Value::Object(schema) = schema else { return Some(true) };
        if let Some(Value::String(reference)) = schema.get("$ref")
            && !self.reference_ends(reference)?
        {
            return Some(false);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = schema.get(key)
                && !self.any_ends(choices)?
            {
                return Some(false);
            }
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            for part in parts {
                if !self.ends(part)? {
                    return Some(false);
                }
            }
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.object_ends(schema),
            Some("array") => self.array_ends(schema),
            // Several types, or none named: another kind of value has an end.
            _ => Some(true),
        }
    }

    fn any_ends(&mut self, choices: &'a [Value]) -> Option<bool> {
        for choice in choices {
            if self.ends(choice)? {
                return Some(true);
            }
        }
        Some(choices.is_empty())
    }

    fn object_ends(&mut self, schema: &'a Map<String, Value>) -> Option<bool> {
        let Some(Value::Array(required)) = schema.get("required") else { return Some(true) };
        let Some(Value::Object(properties)) = schema.get("properties") else { return Some(true) };
        for name in required.iter().filter_map(Value::as_str) {
            if let Some(property) = properties.get(name)
                && !self.ends(property)?
            {
                return Some(false);
            }
        }
        Some(true)
    }

    fn array_ends(&mut self, schema: &'a Map<String, Value>) -> Option<bool> {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |v| v);
        for (_, item) in (0..least).zip(first) {
            if !self.ends(item)? {
                return Some(false);
            }
        }
        match schema.get("items") {
            Some(items) if least > first.len() as u64 => self.ends(items),
            _ => Some(true),
        }
    }

    fn reference_ends(&mut self, reference: &'a str) -> Option<bool> {
        if let Some(&known) = self.known.get(reference) {
            return Some(known);
        }
        // References to elsewhere are llguidance's to refuse.
        let Some(pointer) = reference.strip_prefix('#') else { return Some(true) };
        let Some(target) = self.root.pointer(pointer) else { return Some(true) };
        if !self.open.insert(reference) {
            return Some(false);
        }
        let ends = self.ends(target);
        self.open.remove(reference);
        if ends == Some(true) {
            self.known.insert(reference, true);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_must_contain_itself_is_refused_and_what_may_is_not() {
        let node = |required: Value| {
            json!({
                "type": "object",
                "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}},
                "required": required,
            })
        };
        assert!(check(&node(json!(["value"]))).is_ok());
        assert!(check(&node(json!(["value", "next"]))).is_err());
        let or_null = json!({
            "$defs": {"node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                "required": ["next"],
            }},
            "$ref": "#/$defs/node",
        });
        assert!(check(&or_null).is_ok());
        for endless in [
            json!({"$ref": "#"}),
            json!({"anyOf": [{"$ref": "#"}]}),
            json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                   "$ref": "#/$defs/a"}),
        ] {
            assert!(check(&endless).is_err(), "{endless}");
        }
        assert!(check(&json!({"type": "array", "items": {"$ref": "#"}})).is_ok());
    }

    #[test]
    fn a_bomb_of_references_takes_no_time() {
        // Without an end and with two ways at each of sixty levels.
        let mut definitions = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/l{}", (level + 1) % 60)});
            let both = json!({"type": "object", "properties": {"a": next, "b": next},
                              "required": ["a", "b"]});
            definitions.insert(format!("l{level}"), both);
        }
        let started = std::time::Instant::now();
        assert!(check(&json!({"$defs": definitions, "$ref": "#/$defs/l0"})).is_err());
        assert!(started.elapsed() < std::time::Duration::from_secs(1));
    }
}
