//! Checks of what chats and completions share.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc};

use axum::http::StatusCode;
use decode::{Limits, OnCloudError, Sampling, Threshold, Token, sampling::MOST_TOP_K};

use super::{
    Delivery, GenerationRequest, MAX_TEXTS,
    wire::{CloudErrorPolicy, GenerationParameters, Object, OneOrMore, TandemOptions},
};
use ::tandem::{Defaults, Grammar, Mode, RouterRegistry, RoutingOverrides};

use crate::{
    edge::pairs::{PairId, model_name, parse_model},
    http::ApiError,
};

/// The most stop strings, and the longest.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 256;

/// The most tokens that an answer may be limited to. What does not fit the context is cut off there.
const MOST_TOKENS: usize = 1_000_000;

/// The most tokens with a bias.
const MAX_BIASES: usize = 1024;

/// What requests are checked against.
#[derive(Debug)]
pub struct Checks<'a> {
    /// The pairs that are served; the first is for requests that name none.
    pub pairs: Vec<PairChecks<'a>>,
    /// Modes that requests may have.
    pub modes: Arc<[Mode]>,
}

/// What requests to one pair are checked against.
#[derive(Clone, Copy, Debug)]
pub struct PairChecks<'a> {
    pub id: PairId,
    pub name: &'a str,
    pub defaults: &'a Defaults,
    pub routers: &'a RouterRegistry,
}

/// What the name of a model stands for.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub pair: PairChecks<'a>,
    /// `None` where no model is named.
    mode: Option<Mode>,
}

impl<'a> Checks<'a> {
    /// The pair and the mode of a request, by the name of its model.
    pub fn named(&self, model: Option<&str>) -> Result<Named<'a>, ApiError> {
        let found = match model {
            None => self.pairs.first().map(|pair| Named { pair: *pair, mode: None }),
            Some(model) => parse_model(model).and_then(|(name, mode)| {
                let pair = self.pairs.iter().find(|pair| pair.name == name)?;
                Some(Named { pair: *pair, mode: Some(mode) })
            }),
        };
        found.ok_or_else(|| {
            let model = model.unwrap_or_default();
            let pairs = self.pairs.iter();
            let known: Vec<_> = pairs.flat_map(|pair| self.models(pair.name)).collect();
            let known = known.join(", ");
            let message = format!("there is no model {model:?} here: there are {known}");
            let error = ApiError::new(StatusCode::NOT_FOUND, message);
            error.param("model").code("model_not_found")
        })
    }

    /// A pair in the modes that requests may have.
    fn models(&self, pair: &str) -> impl Iterator<Item = String> {
        self.modes.iter().map(move |&mode| model_name(pair, mode))
    }

    /// What the operator does not allow, whatever a request asks for.
    fn allowed(
        &self,
        pair: PairChecks<'_>,
        mode: Mode,
        budget: Option<f32>,
    ) -> Result<(), ApiError> {
        let refused = |param: &str, message: String| {
            Err(ApiError::new(StatusCode::FORBIDDEN, message).param(param).code("not_allowed"))
        };
        let model = model_name(pair.name, mode);
        if !self.modes.contains(&mode) {
            let names = self.models(pair.name).collect::<Vec<_>>().join(", ");
            return refused("model", format!("{model} is not allowed here: use {names}"));
        }
        let Some(limit) = pair.routers.limit() else { return Ok(()) };
        let percent = ::tandem::summary::plain(limit * 100.0);
        if !pair.routers.allows(mode) {
            let message =
                format!("{model} is not allowed here: at most {percent}% may be the cloud's");
            return refused("model", message);
        }
        if budget.is_some_and(|budget| budget > limit) {
            return refused(
                "tandem.budget",
                format!("tandem.budget may be at most {percent}% here"),
            );
        }
        Ok(())
    }
}

/// Everything that is not particular to one route. The prompts are added by the route.
pub fn request(
    given: GenerationParameters,
    checks: &Checks<'_>,
    named: Named<'_>,
) -> Result<GenerationRequest, ApiError> {
    let PairChecks { id, name, defaults, routers } = named.pair;
    let sampling = sampling(&given, defaults)?;
    let tandem = given.tandem.map(|Object(tandem)| tandem).unwrap_or_default();
    let mode = tandem.mode.or(named.mode).unwrap_or(defaults.mode);
    checks.allowed(named.pair, mode, tandem.budget)?;
    let chosen = routers.choose(&overrides(&tandem)?);
    let (router, policy) = chosen.map_err(::tandem::Error::from)?;
    let usage = given.stream_options.and_then(|Object(options)| options.include_usage);
    let delivery = match given.stream.unwrap_or(false) {
        true => Delivery::Stream { usage: usage.unwrap_or(false) },
        false => Delivery::Whole,
    };
    let old = count("max_tokens", given.max_tokens, 1..=MOST_TOKENS)?;
    let new = count("max_completion_tokens", given.max_completion_tokens, 1..=MOST_TOKENS)?;
    Ok(GenerationRequest {
        pair: id,
        model: model_name(name, mode),
        mode,
        prompts: vec![],
        choices: count("n", given.n, 1..=MAX_TEXTS)?.unwrap_or(1),
        sampling,
        limits: Limits {
            max_tokens: new.or(old).unwrap_or(defaults.limits.max_tokens),
            stops: stops(given.stop, defaults)?,
        },
        router,
        policy,
        on_error: match tandem.on_cloud_error {
            None => defaults.on_error,
            Some(CloudErrorPolicy::Keep) => OnCloudError::Keep,
            Some(CloudErrorPolicy::Wait) => OnCloudError::Wait,
            Some(CloudErrorPolicy::Fail) => OnCloudError::Fail,
        },
        trace: tandem.trace.unwrap_or(false),
        logprobs: None,
        delivery,
        grammar: tandem.grammar.map(Grammar::Lark),
        biases: biases(given.logit_bias)?,
        tools: false,
    })
}

fn overrides(tandem: &TandemOptions) -> Result<RoutingOverrides, ApiError> {
    let threshold = number("tandem.threshold", tandem.threshold, 0.0..=1.0)?;
    let budget = number("tandem.budget", tandem.budget, 0.0..=1.0)?;
    if threshold.is_some() && budget.is_some() {
        let problem = "and tandem.threshold exclude each other: give one";
        return Err(ApiError::field("tandem.budget", problem));
    }
    let threshold = threshold.map(Threshold::new).transpose();
    let threshold = threshold.map_err(|e| ApiError::field("tandem.threshold", e))?;
    Ok(RoutingOverrides { router: tandem.router.clone(), threshold, budget })
}

fn sampling(given: &GenerationParameters, defaults: &Defaults) -> Result<Sampling, ApiError> {
    let usual = defaults.sampling;
    let own = || if defaults.seeded { usual.seed } else { ::tandem::random_seed() };
    let penalty = |name, value| number(name, value, -2.0..=2.0);
    let repetition = number("repetition_penalty", given.repetition_penalty, 0.01..=10.0)?;
    let sampling = Sampling {
        temperature: number("temperature", given.temperature, 0.0..=2.0)?
            .unwrap_or(usual.temperature),
        top_p: number("top_p", given.top_p, 0.0..=1.0)?.unwrap_or(usual.top_p),
        top_k: count("top_k", given.top_k, 0..=MOST_TOP_K)?.unwrap_or(usual.top_k),
        min_p: number("min_p", given.min_p, 0.0..=1.0)?.unwrap_or(usual.min_p),
        repetition_penalty: repetition.unwrap_or(usual.repetition_penalty),
        presence_penalty: penalty("presence_penalty", given.presence_penalty)?.unwrap_or(0.0),
        frequency_penalty: penalty("frequency_penalty", given.frequency_penalty)?.unwrap_or(0.0),
        seed: given.seed.map_or_else(own, i64::cast_unsigned),
    };
    // OpenAI lets it be 0, which leaves the likeliest token alone.
    let top_p = sampling.top_p.max(f32::MIN_POSITIVE);
    let checked = Sampling { top_p, ..sampling }.validate();
    checked.map_err(|e| ApiError::invalid(e.to_string()))
}

fn stops(given: Option<OneOrMore>, defaults: &Defaults) -> Result<Vec<String>, ApiError> {
    let stops = match given {
        None => defaults.limits.stops.clone(),
        Some(OneOrMore::One(stop)) => vec![stop],
        Some(OneOrMore::More(stops)) => stops,
    };
    if stops.len() > MAX_STOPS || stops.iter().any(|s| s.len() > MAX_STOP_BYTES) {
        let problem =
            format_args!("may be at most {MAX_STOPS} texts of at most {MAX_STOP_BYTES} bytes");
        return Err(ApiError::field("stop", problem));
    }
    Ok(stops)
}

fn biases(given: Option<BTreeMap<String, f32>>) -> Result<Vec<(Token, f32)>, ApiError> {
    let given = given.unwrap_or_default();
    if given.len() > MAX_BIASES {
        return Err(ApiError::field(
            "logit_bias",
            format_args!("has more than {MAX_BIASES} tokens"),
        ));
    }
    let read = |(id, bias): (String, f32)| {
        let path = format!("logit_bias.{id}");
        let token = id.parse().map(Token);
        let token = token.map_err(|_| ApiError::field(&path, "is not the id of a token"))?;
        let bias = number(&path, Some(bias), -100.0..=100.0)?.unwrap_or(0.0);
        Ok((token, bias))
    };
    given.into_iter().map(read).collect()
}

/// A number that must lie in a range.
fn number(
    path: &str,
    given: Option<f32>,
    range: RangeInclusive<f32>,
) -> Result<Option<f32>, ApiError> {
    match given.filter(|n| !range.contains(n)) {
        None => Ok(given),
        Some(n) => {
            let (low, high) = (range.start(), range.end());
            Err(ApiError::field(path, format_args!("must be from {low} to {high}, not {n}")))
        }
    }
}

/// A whole number that must lie in a range.
pub fn count(
    path: &str,
    given: Option<i64>,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>, ApiError> {
    let Some(n) = given else { return Ok(None) };
    match usize::try_from(n).ok().filter(|n| range.contains(n)) {
        Some(n) => Ok(Some(n)),
        None => {
            let (low, high) = (range.start(), range.end());
            Err(ApiError::field(path, format_args!("must be from {low} to {high}, not {n}")))
        }
    }
}
