//! A JSON object, taken field by field, so that every mistake is named.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::edge::error::ApiError;

/// What is left of an object.
pub struct Fields {
    map: Map<String, Value>,
    /// Where the object stands in the request.
    path: String,
}

impl Fields {
    /// A whole request.
    pub fn new(map: Map<String, Value>) -> Self {
        Self { map, path: String::new() }
    }

    /// An object inside a request.
    pub fn inside(value: Value, path: impl Into<String>) -> Result<Self, ApiError> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            _ => Err(ApiError::invalid(format!("{path} must be an object")).param(path)),
        }
    }

    /// A field's full name.
    pub fn name(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// An error about a field.
    pub fn wrong(&self, field: &str, message: impl std::fmt::Display) -> ApiError {
        let name = self.name(field);
        ApiError::invalid(format!("{name} {message}")).param(name)
    }

    /// Takes a field; absent and null are the same.
    pub fn take<T: DeserializeOwned>(&mut self, field: &str) -> Result<Option<T>, ApiError> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|e| self.wrong(field, format_args!("is not of the right kind: {e}"))),
        }
    }

    /// Takes a number that must lie in a range.
    pub fn number(
        &mut self,
        field: &str,
        range: std::ops::RangeInclusive<f32>,
    ) -> Result<Option<f32>, ApiError> {
        let number = self.take::<f32>(field)?;
        match number.filter(|n| !range.contains(n)) {
            None => Ok(number),
            Some(n) => {
                let (low, high) = (range.start(), range.end());
                Err(self.wrong(field, format_args!("must be from {low} to {high}, not {n}")))
            }
        }
    }

    /// Takes a whole number that must lie in a range.
    pub fn count(
        &mut self,
        field: &str,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<Option<usize>, ApiError> {
        let count = self.take::<i64>(field)?;
        let inside = |n: &i64| usize::try_from(*n).is_ok_and(|n| range.contains(&n));
        match count.filter(|n| !inside(n)) {
            None => Ok(count.and_then(|n| usize::try_from(n).ok())),
            Some(n) => {
                let (low, high) = (range.start(), range.end());
                let message = match *high {
                    usize::MAX => format!("must be {low} or more, not {n}"),
                    _ => format!("must be from {low} to {high}, not {n}"),
                };
                Err(self.wrong(field, message))
            }
        }
    }

    /// Lets a field pass if it asks for nothing: null, empty, or one of these.
    pub fn refuse_unless(&mut self, field: &str, harmless: &[Value]) -> Result<(), ApiError> {
        let Some(value) = self.map.remove(field) else { return Ok(()) };
        let empty = match &value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if empty || harmless.contains(&value) {
            return Ok(());
        }
        let code = "unsupported_parameter";
        Err(self.wrong(field, "is not supported here: it would change the answer").code(code))
    }

    /// Throws away fields that change nothing.
    pub fn ignore(&mut self, fields: &[&str]) {
        fields.iter().for_each(|field| drop(self.map.remove(*field)));
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((field, _)) => {
                Err(self.wrong(field, "is not known here").code("unknown_parameter"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::inside(value, "").unwrap()
    }

    #[test]
    fn mistakes_are_named() {
        let mut f = fields(json!({"temperature": "warm", "n": 0, "top_p": 3, "max": 1.5, "x": 1}));
        for error in [
            f.number("temperature", 0.0..=2.0).unwrap_err(),
            f.count("n", 1..=4).unwrap_err(),
            f.number("top_p", 0.0..=1.0).unwrap_err(),
            f.count("max", 1..=4).unwrap_err(),
        ] {
            let body = error.body();
            let param = body["error"]["param"].as_str().unwrap().to_owned();
            assert!(body["error"]["message"].as_str().unwrap().starts_with(&param), "{body}");
        }
        assert_eq!(f.finish().unwrap_err().body()["error"]["param"], "x");
    }

    #[test]
    fn what_asks_for_nothing_passes() {
        let mut f = fields(json!({
            "tools": [], "logit_bias": {}, "suffix": "", "audio": null, "best_of": 1, "user": "me"
        }));
        for field in ["tools", "logit_bias", "suffix", "audio", "absent"] {
            f.refuse_unless(field, &[]).unwrap();
        }
        f.refuse_unless("best_of", &[json!(1)]).unwrap();
        f.ignore(&["user"]);
        f.finish().unwrap();
        let mut f = fields(json!({"tools": [1]}));
        let body = f.refuse_unless("tools", &[]).unwrap_err().body();
        assert_eq!(body["error"]["param"], "tools");
    }
}
