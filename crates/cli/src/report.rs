//! The figures of a generation, for people.

use std::time::Duration;

use decode::{Exchange, FinishReason, Pace, Source};
use tandem::{Generation, Mode};

use crate::show::percent;

/// How a pace was kept, over every text that shares it.
fn pace(pace: &Pace) -> Option<String> {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let (aim, mean) = (ms(pace.aim()), ms(pace.mean()?));
    Some(match pace.miss() {
        None => format!("pace {aim:.0} ms held ({mean:.1} ms)"),
        Some(miss) => format!("pace {aim:.0} ms not held ({mean:.1} ms): {miss}"),
    })
}

/// The last line on stderr.
pub fn summary(generation: &Generation) -> String {
    let request = generation.request();
    let joint = request.mode == Mode::Joint;
    let stats = generation.transcript().stats();
    let ms = |d: Duration| format!("{:.0} ms", d.as_secs_f64() * 1000.0);
    let mut facts = vec![
        format!("{} tokens", stats.tokens),
        format!("{:.1} % from the cloud ({} asks)", stats.routed_share * 100.0, stats.asks),
    ];
    let expected = stats.confirmed_asks + stats.judged_asks;
    if expected + stats.branch_asks + stats.contradicted_asks > 0 {
        let further = match stats.branch_asks {
            0 => String::new(),
            asks => format!("{asks} a further choice, "),
        };
        facts.push(format!(
            "{} answers as expected, {further}{} not, {} asks void",
            expected, stats.contradicted_asks, stats.void_asks
        ));
    }
    if let Some(budget) = request.policy.current_budget().filter(|_| joint) {
        facts.push(format!(
            "budget {} ({:.1} % so far, threshold {:.3})",
            percent(budget.share()),
            budget.realised().unwrap_or(0.0) * 100.0,
            budget.threshold().value()
        ));
        facts.extend(budget.pace().and_then(pace));
    }
    if joint {
        let instead = request.router.fallback().map_or("", |_| " for want of a trained router");
        facts.push(format!("judged by {}{instead}", request.router));
    }
    let fallbacks = stats.fallback_tokens + usize::from(stats.fallback_end);
    if fallbacks > 0 {
        facts.push(format!("{fallbacks} fallbacks: the cloud failed"));
    }
    if stats.failovers > 0 {
        facts.push(format!("another cloud took over {} times", stats.failovers));
    }
    if generation.exchange() == Some(Exchange::Text) {
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
        ("cloud hidden", t.hidden),
    ];
    // What this mode does not have is not worth a word.
    let split: Vec<_> = split
        .iter()
        .filter(|(name, time)| !name.starts_with("cloud ") || !time.is_zero())
        .map(|(name, time)| format!("{name} {}", ms(*time)))
        .collect();
    format!("[{} | {}]", facts.join(", "), split.join(", "))
}

/// What to tell the user besides, if the cloud failed.
pub fn warning(generation: &Generation) -> Option<String> {
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
