//! What chats and completions share.

use std::hash::{BuildHasher, RandomState};

use decode::{Limits, OnCloudError, Sampling, Threshold};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Delivery, GenerationRequest, MOST_TEXTS, fields::Fields};
use crate::edge::{
    config::{Defaults, Mode},
    error::ApiError,
};
use tandem::{RouterRegistry, RoutingOverrides};

/// The most stop strings, and the longest.
const STOPS: usize = 16;
const LONGEST_STOP: usize = 256;

/// One or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stops {
    One(String),
    Several(Vec<String>),
}

/// The field `tandem`.
#[derive(Default)]
struct Tandem {
    mode: Option<Mode>,
    overrides: RoutingOverrides,
    on_error: Option<OnCloudError>,
    trace: bool,
}

/// Takes everything that is not particular to one route. The prompts are added by the route.
pub fn request(
    fields: &mut Fields,
    defaults: &Defaults,
    judges: &RouterRegistry,
) -> Result<GenerationRequest, ApiError> {
    let named = model(fields)?;
    let tandem = tandem(fields)?;
    let mode = tandem.mode.or(named).unwrap_or(defaults.mode);
    let (router, policy) = judges.choose(&tandem.overrides).map_err(tandem::Error::from)?;
    let request = GenerationRequest {
        model: mode.model(),
        mode,
        prompts: vec![],
        choices: fields.count("n", 1..=MOST_TEXTS)?.unwrap_or(1),
        sampling: sampling(fields, defaults)?,
        limits: limits(fields, defaults)?,
        router,
        policy,
        on_error: tandem.on_error.unwrap_or(defaults.on_error),
        trace: tandem.trace,
        logprobs: None,
        telling: telling(fields)?,
    };
    refuse(fields)?;
    Ok(request)
}

fn model(fields: &mut Fields) -> Result<Option<Mode>, ApiError> {
    let Some(name) = fields.take::<String>("model")? else { return Ok(None) };
    let Some(mode) = Mode::of(&name) else {
        let known = Mode::ALL.map(Mode::model).join(", ");
        let message = format!("there is no model {name:?} here: there are {known}");
        let error = ApiError::new(axum::http::StatusCode::NOT_FOUND, message);
        return Err(error.param("model").code("model_not_found"));
    };
    Ok(Some(mode))
}

fn tandem(fields: &mut Fields) -> Result<Tandem, ApiError> {
    let Some(value) = fields.take::<Value>("tandem")? else { return Ok(Tandem::default()) };
    let mut inside = Fields::inside(value, "tandem")?;
    let threshold = inside.number("threshold", 0.0..=1.0)?;
    let budget = inside.number("budget", 0.0..=1.0)?;
    if threshold.is_some() && budget.is_some() {
        let message = "tandem.threshold and tandem.budget exclude each other: give one";
        return Err(ApiError::invalid(message).param("tandem.budget"));
    }
    let threshold = threshold.map(Threshold::new).transpose();
    let threshold = threshold.map_err(|e| inside.wrong("threshold", e))?;
    let on_error = match inside.take::<String>("on_cloud_error")?.as_deref() {
        None => None,
        Some("keep") => Some(OnCloudError::Keep),
        Some("wait") => Some(OnCloudError::Wait),
        Some("fail") => Some(OnCloudError::Fail),
        Some(_) => return Err(inside.wrong("on_cloud_error", "must be keep, wait or fail")),
    };
    let tandem = Tandem {
        mode: inside.take("mode")?,
        overrides: RoutingOverrides { router: inside.take("router")?, threshold, budget },
        on_error,
        trace: inside.take("trace")?.unwrap_or(false),
    };
    inside.finish()?;
    Ok(tandem)
}

fn sampling(fields: &mut Fields, defaults: &Defaults) -> Result<Sampling, ApiError> {
    let usual = defaults.sampling;
    let random = || RandomState::new().hash_one("seed") >> 32;
    let own = || if defaults.seeded { usual.seed } else { random() };
    let sampling = Sampling {
        temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(usual.temperature),
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(usual.top_p),
        top_k: fields.count("top_k", 0..=usize::MAX)?.unwrap_or(usual.top_k),
        min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(usual.min_p),
        repetition_penalty: fields
            .number("repetition_penalty", 0.01..=10.0)?
            .unwrap_or(usual.repetition_penalty),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        seed: fields.take::<i64>("seed")?.map_or_else(own, i64::cast_unsigned),
    };
    // OpenAI lets it be 0, which leaves the likeliest token alone.
    let top_p = sampling.top_p.max(f32::MIN_POSITIVE);
    let checked = Sampling { top_p, ..sampling }.validate();
    checked.map_err(|e| ApiError::invalid(e.to_string()))
}

fn limits(fields: &mut Fields, defaults: &Defaults) -> Result<Limits, ApiError> {
    let old = fields.count("max_tokens", 1..=usize::MAX)?;
    let new = fields.count("max_completion_tokens", 1..=usize::MAX)?;
    let stops = match fields.take::<Stops>("stop")? {
        None => defaults.limits.stops.clone(),
        Some(Stops::One(stop)) => vec![stop],
        Some(Stops::Several(stops)) => stops,
    };
    if stops.len() > STOPS || stops.iter().any(|s| s.len() > LONGEST_STOP) {
        let message = format!("may be at most {STOPS} texts of at most {LONGEST_STOP} bytes");
        return Err(fields.wrong("stop", message));
    }
    Ok(Limits { max_tokens: new.or(old).unwrap_or(defaults.limits.max_tokens), stops })
}

fn telling(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.take::<bool>("stream")?.unwrap_or(false);
    let usage = match fields.take::<Value>("stream_options")? {
        None => false,
        Some(options) => {
            let mut options = Fields::inside(options, "stream_options")?;
            let usage = options.take::<bool>("include_usage")?.unwrap_or(false);
            options.ignore(&["include_obfuscation"]);
            options.finish()?;
            usage
        }
    };
    Ok(if stream { Delivery::Stream { usage } } else { Delivery::Whole })
}

/// What would change the answer if it were heeded, and what would not.
fn refuse(fields: &mut Fields) -> Result<(), ApiError> {
    for field in [
        "tools",
        "functions",
        "logit_bias",
        "audio",
        "web_search_options",
        "reasoning_effort",
        "verbosity",
        "prediction",
    ] {
        fields.refuse_unless(field, &[])?;
    }
    fields.refuse_unless("tool_choice", &[json!("none"), json!("auto")])?;
    fields.refuse_unless("function_call", &[json!("none"), json!("auto")])?;
    fields.refuse_unless("response_format", &[json!({"type": "text"})])?;
    fields.refuse_unless("modalities", &[json!(["text"])])?;
    fields.ignore(&[
        "user",
        "metadata",
        "store",
        "service_tier",
        "parallel_tool_calls",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    ]);
    Ok(())
}
