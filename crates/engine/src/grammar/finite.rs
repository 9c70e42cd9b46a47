//! Whether a schema has an end: a document that must contain itself can never be written.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::GrammarError;

/// How many places of a schema are looked at; a schema of this many is refused.
const MAX_VISITS: usize = 100_000;

/// How many schemas are looked into one inside the other. That is done recursively, and a stack that
/// overflows ends the whole program.
const MAX_DEPTH: usize = 256;

/// Refuses a schema whose documents would all be endless, and one that refers to itself in circles.
pub fn check(schema: &Value) -> Result<(), GrammarError> {
    let mut search = Search {
        root: schema,
        under_way: HashSet::new(),
        open: HashSet::new(),
        known: HashMap::new(),
        visits: 0,
    };
    match search.ends(schema) {
        Some(true) => Ok(()),
        Some(false) => Err(GrammarError("no finite document fits this schema".into())),
        None => Err(GrammarError("this schema is too large".into())),
    }
}

/// Kinds of values that hold no others.
const KINDS_WITH_AN_END: [&str; 5] = ["string", "integer", "number", "boolean", "null"];

/// Patterns that every name fits. What another fits is not looked into.
const FITS_ALL: [&str; 8] = ["", "^", "$", ".*", "^.*", "^.*$", ".+", "^.+$"];

/// Whether a part of a schema leaves a kind of value possible.
fn allows_kind(part: &Map<String, Value>, kind: &str) -> bool {
    let is = |named: &Value| named == kind || (named == "number" && kind == "integer");
    match part.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(named) => is(named),
        None => true,
    }
}

struct Search<'a> {
    root: &'a Value,
    /// The schemas that are being looked into, by their addresses.
    under_way: HashSet<*const Map<String, Value>>,
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
        if self.visits > MAX_VISITS || self.under_way.len() > MAX_DEPTH {
            return None;
        }
        let Value::Object(schema) = schema else { return Some(true) };
        // What needs itself to end has none on this way.
        if !self.under_way.insert(schema) {
            return Some(false);
        }
        let ends = self.schema_ends(schema);
        self.under_way.remove(&std::ptr::from_ref(schema));
        ends
    }

    fn schema_ends(&mut self, schema: &'a Map<String, Value>) -> Option<bool> {
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
        let mut parts = vec![];
        self.parts(schema, &mut vec![], &mut parts)?;
        // A value of any other kind has an end; with one kind or none named, all are possible.
        let may_be = |kind: &str| parts.iter().all(|part| allows_kind(part, kind));
        if KINDS_WITH_AN_END.iter().any(|kind| may_be(kind)) {
            return Some(true);
        }
        let (object, array) = (may_be("object"), may_be("array"));
        if !object && !array {
            // No kind of value is left: for llguidance to refuse.
            return Some(true);
        }
        Some((object && self.object_ends(&parts)?) || (array && self.array_ends(&parts)?))
    }

    /// A schema with everything else that its documents have to fit besides.
    fn parts(
        &mut self,
        schema: &'a Map<String, Value>,
        followed: &mut Vec<&'a str>,
        parts: &mut Vec<&'a Map<String, Value>>,
    ) -> Option<()> {
        self.visits += 1;
        if self.visits > MAX_VISITS || followed.len() > MAX_DEPTH {
            return None;
        }
        parts.push(schema);
        let reference = schema.get("$ref").and_then(Value::as_str);
        let referred = match reference.filter(|reference| !followed.contains(reference)) {
            Some(reference) => {
                followed.push(reference);
                reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
            }
            None => None,
        };
        let all = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        for part in referred.into_iter().chain(all).filter_map(Value::as_object) {
            self.parts(part, followed, parts)?;
        }
        Some(())
    }

    fn any_ends(&mut self, choices: &'a [Value]) -> Option<bool> {
        for choice in choices {
            if self.ends(choice)? {
                return Some(true);
            }
        }
        Some(choices.is_empty())
    }

    fn object_ends(&mut self, parts: &[&'a Map<String, Value>]) -> Option<bool> {
        for naming in parts {
            let Some(Value::Array(required)) = naming.get("required") else { continue };
            for name in required.iter().filter_map(Value::as_str) {
                for &part in parts {
                    if !self.property_ends(part, name)? {
                        return Some(false);
                    }
                }
            }
        }
        Some(true)
    }

    /// Whether a property that must be there has an end, by one part of a schema.
    fn property_ends(&mut self, part: &'a Map<String, Value>, name: &str) -> Option<bool> {
        let properties = part.get("properties").and_then(Value::as_object);
        let mut named = false;
        if let Some(property) = properties.and_then(|properties| properties.get(name)) {
            if !self.ends(property)? {
                return Some(false);
            }
            named = true;
        }
        let mut another_may_end = false;
        for (pattern, property) in
            part.get("patternProperties").and_then(Value::as_object).into_iter().flatten()
        {
            let ends = self.ends(property)?;
            if FITS_ALL.contains(&pattern.as_str()) {
                if !ends {
                    return Some(false);
                }
                named = true;
            }
            another_may_end |= ends;
        }
        match part.get("additionalProperties") {
            Some(others) if !named => Some(another_may_end || self.ends(others)?),
            _ => Some(true),
        }
    }

    fn array_ends(&mut self, parts: &[&'a Map<String, Value>]) -> Option<bool> {
        let least = parts.iter().filter_map(|part| part.get("minItems")?.as_u64()).max();
        let least = least.unwrap_or(0);
        for &part in parts {
            let first = part.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |v| v);
            for (_, item) in (0..least).zip(first) {
                if !self.ends(item)? {
                    return Some(false);
                }
            }
            if let Some(items) = part.get("items")
                && least > first.len() as u64
                && !self.ends(items)?
            {
                return Some(false);
            }
        }
        Some(true)
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
    fn kinds_other_properties_and_parts_are_looked_into() {
        let me = json!({"$ref": "#"});
        let with = |more: Value| {
            let mut schema = json!({"type": "object", "required": ["me"]});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        for endless in [
            with(json!({"type": ["object"], "properties": {"me": me}})),
            json!({"type": ["array", "object"], "items": me, "minItems": 1,
                   "properties": {"me": me}, "required": ["me"]}),
            with(json!({"additionalProperties": me})),
            with(json!({"patternProperties": {".*": me}})),
            with(json!({"patternProperties": {"^m": me}, "additionalProperties": me})),
            json!({"type": "object", "allOf": [
                {"required": ["me"]}, {"properties": {"me": me}},
            ]}),
            json!({"type": "object", "properties": {"me": me}, "allOf": [{"required": ["me"]}]}),
            json!({"$defs": {"named": {"required": ["me"]}}, "$ref": "#/$defs/named",
                   "type": "object", "properties": {"me": me}}),
            json!({"type": "array", "allOf": [{"minItems": 1}, {"items": me}]}),
        ] {
            assert!(check(&endless).is_err(), "{endless}");
        }
        for finite in [
            with(json!({"type": ["object", "null"], "properties": {"me": me}})),
            with(json!({"additionalProperties": {"type": "string"}})),
            with(json!({"properties": {"me": {"type": "integer"}}, "additionalProperties": me})),
            with(json!({"patternProperties": {"^x": me}})),
            with(json!({"patternProperties": {"^m": {}}, "additionalProperties": me})),
            json!({"allOf": [{"type": ["integer", "object"]}, {"type": ["number", "object"]}],
                   "properties": {"me": me}, "required": ["me"]}),
            json!({"type": "object", "properties": {"me": me}, "allOf": [{"required": ["other"]}]}),
        ] {
            assert!(check(&finite).is_ok(), "{finite}");
        }
    }

    #[test]
    fn a_long_chain_of_references_overflows_no_stack() {
        let link =
            |i: usize| json!({"$ref": format!("#/$defs/a{}/b{}", (i + 1) / 900, (i + 1) % 900)});
        let mut tables = Map::new();
        for table in 0..20 {
            let links: Map<_, _> =
                (0..900).map(|i| (format!("b{i}"), link(table * 900 + i))).collect();
            tables.insert(format!("a{table}"), links.into());
        }
        let error = check(&json!({"$defs": tables, "$ref": "#/$defs/a0/b0"})).unwrap_err();
        assert!(error.to_string().contains("too large"), "{error}");
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
