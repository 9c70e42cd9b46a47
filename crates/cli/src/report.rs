//! The figures of a generation, for people and as JSON.

use decode::{Accepted, Exchange, FinishReason, Score, Source, Stats};
use serde::Serialize;

use crate::{args::Mode, config::Generate, generation::Generation, judge::Share};

/// What `--json` prints.
#[derive(Serialize)]
pub struct Report<'a> {
    text: String,
    finish_reason: FinishReason,
    tokens: Vec<Token<'a>>,
    stats: Stats,
    mode: &'static str,
    router: Option<String>,
    /// Why it is that one, where it stands in for a trained one that is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    router_fallback: Option<&'a str>,
    /// As it stands at the end, where it follows a budget.
    threshold: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<Spending>,
    seed: u64,
    exchange: Option<Exchange>,
    /// `text` where ids could not travel; the name is older than the summary's and stays for
    /// programs that read it.
    degraded: Option<Exchange>,
    cloud_error: Option<String>,
}

/// A budget, and what became of it so far.
#[derive(Serialize)]
struct Spending {
    share: f32,
    /// Over every text that shares the budget.
    realised: Option<f64>,
}

#[derive(Serialize)]
struct Token<'a> {
    text: &'a str,
    source: Source,
    score: Option<Score>,
}

impl<'a> Report<'a> {
    pub fn new(
        generate: &'a Generate,
        generation: &'a Generation<'_>,
        error: Option<String>,
    ) -> Self {
        let transcript = generation.transcript();
        let token = |t: &'a Accepted| Token { text: &t.text, source: t.source, score: t.score };
        let joint = generate.mode == Mode::Joint;
        Self {
            text: transcript.text(),
            finish_reason: transcript.finish_reason().unwrap_or(FinishReason::Error),
            tokens: transcript.shown().iter().map(token).collect(),
            stats: transcript.stats(),
            mode: match generate.mode {
                Mode::Small => "small",
                Mode::Joint => "joint",
                Mode::Large => "large",
            },
            router: joint.then(|| generate.judge.to_string()),
            router_fallback: generate.judge.fallback().filter(|_| joint),
            threshold: joint.then(|| generate.policy.threshold().value()),
            budget: generate
                .policy
                .current_budget()
                .filter(|_| joint)
                .map(|budget| Spending { share: budget.share(), realised: budget.realised() }),
            seed: generate.sampling.seed,
            exchange: generation.exchange(),
            degraded: text_exchange(generation),
            cloud_error: generation.cloud_error().map(ToString::to_string).or(error),
        }
    }
}

/// The last line on stderr.
pub fn summary(generate: &Generate, generation: &Generation<'_>) -> String {
    let stats = generation.transcript().stats();
    let ms = |d: std::time::Duration| format!("{:.0} ms", d.as_secs_f64() * 1000.0);
    let mut facts = vec![
        format!("{} tokens", stats.tokens),
        format!("{:.1} % from the cloud ({} asks)", stats.routed_share * 100.0, stats.asks),
    ];
    if let Some(budget) = generate.policy.current_budget().filter(|_| generate.mode == Mode::Joint)
    {
        facts.push(format!(
            "budget {} ({:.1} % so far, threshold {:.3})",
            Share(budget.share()),
            budget.realised().unwrap_or(0.0) * 100.0,
            budget.threshold().value()
        ));
    }
    if generate.mode == Mode::Joint {
        let instead = generate.judge.fallback().map_or("", |_| " for want of a trained router");
        facts.push(format!("judged by {}{instead}", generate.judge));
    }
    let fallbacks = stats.fallback_tokens + usize::from(stats.fallback_end);
    if fallbacks > 0 {
        facts.push(format!("{fallbacks} fallbacks: the cloud failed"));
    }
    if text_exchange(generation).is_some() {
        facts.push("text exchange".into());
    }
    match generation.transcript().finish_reason() {
        Some(FinishReason::Length) => facts.push("cut at the limit".into()),
        Some(FinishReason::Cancelled) => facts.push("cancelled".into()),
        _ => {}
    }
    facts.push(format!("first token after {}", ms(stats.time_to_first_token)));
    let between = stats.mean_time_between_tokens.as_secs_f64() * 1000.0;
    facts.push(format!("then one every {between:.1} ms"));
    facts.push(format!("{:.1} tokens/s", stats.tokens_per_second));
    let t = stats.times;
    let split = [
        ("edge prefill", t.edge_prefill),
        ("edge decode", t.edge_decode),
        ("router", t.router),
        ("cloud load", t.cloud_load),
        ("cloud queue", t.cloud_queue),
        ("cloud prefill", t.cloud_prefill),
        ("cloud decode", t.cloud_decode),
        ("network", t.network),
    ];
    // What this mode does not have is not worth a word.
    let split: Vec<_> = split
        .iter()
        .filter(|(name, time)| !name.starts_with("cloud ") || !time.is_zero())
        .map(|(name, time)| format!("{name} {}", ms(*time)))
        .collect();
    format!("[{} | {}]", facts.join(", "), split.join(", "))
}

/// Whether text travelled, for want of a common vocabulary or of ids.
fn text_exchange(generation: &Generation<'_>) -> Option<Exchange> {
    generation.exchange().filter(|e| *e == Exchange::Text)
}

/// What to tell the user besides, if the cloud failed.
pub fn warning(generation: &Generation<'_>) -> Option<String> {
    let error = generation.cloud_error()?;
    let transcript = generation.transcript();
    if transcript.finish_reason() == Some(FinishReason::Error) {
        return None;
    }
    let came_back = transcript.shown().iter().rev().find_map(|t| match t.source {
        Source::Edge => None,
        source => Some(source == Source::Cloud),
    });
    Some(match came_back {
        Some(true) => format!("the cloud failed for a while: {error}"),
        _ => format!("the cloud was lost and the edge finished alone: {error}"),
    })
}
