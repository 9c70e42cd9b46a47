//! `POST /v1/completions`: a text to be continued.

use ::tandem::RouterRegistry;
use cloud::protocol::Prompt;
use serde_json::{Map, Value, json};

use super::{GenerationRequest, MOST_TEXTS, common, fields::Fields};
use crate::edge::{config::Defaults, error::ApiError};

/// The most log-probabilities a token may tell.
const LOGPROBS: usize = 5;

/// A request, checked.
pub fn request(
    body: Map<String, Value>,
    defaults: &Defaults,
    judges: &RouterRegistry,
) -> Result<GenerationRequest, ApiError> {
    let mut fields = Fields::new(body);
    let prompts = prompts(&mut fields)?;
    let logprobs = fields.count("logprobs", 0..=LOGPROBS)?;
    fields.refuse_unless("suffix", &[])?;
    fields.refuse_unless("echo", &[json!(false)])?;
    fields.refuse_unless("best_of", &[json!(1)])?;
    let request = common::request(&mut fields, defaults, judges)?;
    let request = GenerationRequest { prompts, logprobs, ..request };
    if request.texts() > MOST_TEXTS {
        return Err(fields.wrong("n", format_args!("asks for more than {MOST_TEXTS} texts")));
    }
    fields.finish()?;
    Ok(request)
}

fn prompts(fields: &mut Fields) -> Result<Vec<Prompt>, ApiError> {
    let prompts = match fields.take::<Value>("prompt")? {
        None => return Err(fields.wrong("prompt", "is missing")),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => {
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                _ => Err(fields.wrong(
                    "prompt",
                    "must be a text or a list of texts: ids mean something else to each model",
                )),
            };
            list.into_iter().map(text).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(fields.wrong("prompt", "must be a text or a list of texts")),
    };
    if prompts.is_empty() || prompts.iter().any(String::is_empty) {
        return Err(fields.wrong("prompt", "must not be empty"));
    }
    Ok(prompts.into_iter().map(Prompt::Text).collect())
}
