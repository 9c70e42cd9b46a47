//! The form that an answer is held to: `response_format` and `tandem.grammar`.

use tandem::Grammar;

use super::wire::{JsonSchemaFormat, Object, ResponseFormat};
use crate::http::ApiError;

/// What `response_format` asks for.
pub fn response_format(given: Option<Object<ResponseFormat>>) -> Result<Option<Grammar>, ApiError> {
    let Some(Object(ResponseFormat { kind, json_schema })) = given else { return Ok(None) };
    match kind.as_deref() {
        None | Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Grammar::JsonObject)),
        Some("json_schema") => {
            let missing = || ApiError::field("response_format.json_schema.schema", "is missing");
            let Object(JsonSchemaFormat { schema, .. }) = json_schema.ok_or_else(missing)?;
            Ok(Some(Grammar::JsonSchema(schema.ok_or_else(missing)?)))
        }
        Some(_) => {
            let problem = "must be text, json_object or json_schema";
            Err(ApiError::field("response_format.type", problem))
        }
    }
}

/// The one form that is asked for.
pub fn only_one(
    format: Option<Grammar>,
    grammar: Option<Grammar>,
) -> Result<Option<Grammar>, ApiError> {
    match (format, grammar) {
        (Some(_), Some(_)) => {
            let problem = "and response_format exclude each other: give one";
            Err(ApiError::field("tandem.grammar", problem))
        }
        (format, grammar) => Ok(format.or(grammar)),
    }
}
