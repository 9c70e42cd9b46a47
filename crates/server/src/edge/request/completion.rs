//! `POST /v1/completions`: a text to be continued.

use cloud::protocol::Prompt;
use serde_json::Value;

use super::{
    GenerationRequest, MAX_TEXTS,
    common::{self, Checks},
    read::halves,
    unsupported::{self, Route},
    wire::{Beginning, GenerationParameters, Prompts},
};
use crate::http::ApiError;

/// The most log-probabilities a token may tell.
const MAX_LOGPROBS: usize = 5;

pub fn request(object: &Value, checks: &Checks<'_>) -> Result<GenerationRequest, ApiError> {
    let (beginning, parameters, extras) = halves::<Beginning, GenerationParameters>(object)?;
    extras.iter().try_for_each(|extra| unsupported::check(extra, Route::Completion))?;
    let prompts = prompts(beginning.prompt)?;
    let logprobs = common::count("logprobs", beginning.logprobs, 0..=MAX_LOGPROBS)?;
    let named = checks.named(parameters.model.as_deref())?;
    let request = common::request(parameters, checks, named)?;
    let request = GenerationRequest { prompts, logprobs, ..request };
    if request.texts() > MAX_TEXTS {
        let problem = format_args!("asks for more than {MAX_TEXTS} texts");
        return Err(ApiError::field("n", problem));
    }
    Ok(request)
}

fn prompts(given: Option<Prompts>) -> Result<Vec<Prompt>, ApiError> {
    let prompts = match given {
        None => return Err(ApiError::field("prompt", "is missing")),
        Some(Prompts::One(text)) => vec![text],
        Some(Prompts::More(texts)) => texts,
    };
    if prompts.is_empty() || prompts.iter().any(String::is_empty) {
        return Err(ApiError::field("prompt", "must not be empty"));
    }
    Ok(prompts.into_iter().map(Prompt::Text).collect())
}
