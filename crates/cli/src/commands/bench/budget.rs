//! `tandem bench budget`: is a budget right from the first token?
//!
//! Every answer begins a budget of its own, as a single `tandem run` does, so nothing that came before
//! corrects it.

use std::{io::Write, process::ExitCode};

use lab::eval::Example;
use serde_json::json;
use tandem::{Mode, NamedRouter, Request, Tandem};

use crate::{
    args::BenchBudgetArgs,
    config::UsageError,
    progress::TerminalProgress,
    show::{percent, print_json},
};

/// What answers with one router and one budget came to.
struct Measured {
    router: String,
    budget: f32,
    /// The mean of the answers' shares.
    mean: f64,
    /// The share of all their tokens together.
    together: f64,
    answers: usize,
    tokens: usize,
}

pub async fn budget(args: BenchBudgetArgs) -> anyhow::Result<ExitCode> {
    args.pair.cloud.location.require_cloud("budgets are about the cloud")?;
    let mut examples = vec![];
    for path in &args.prompts {
        examples.extend(Example::read(path)?);
    }
    let examples: Vec<_> = examples.into_iter().skip(args.skip).take(args.limit).collect();
    if examples.is_empty() {
        return Err(UsageError("the files hold no prompts".into()).into());
    }
    let mut builder = args.pair.builder(None)?.mode(Mode::Joint).max_tokens(args.max_tokens);
    if let Some(router) = args.router.first() {
        builder = builder.router(router.clone());
    }
    let tandem = builder.build()?;
    let (store, edge) = (args.pair.edge.store()?, tandem.pair().edge_options()?);
    let mut routers = vec![];
    for router in &args.router {
        routers.push(NamedRouter::choose(Some(router), &store, &edge)?);
    }
    if routers.is_empty() {
        routers.push(tandem.routers().own().clone());
    }
    let bar = TerminalProgress::default();
    let mut found = vec![];
    for router in &routers {
        for share in &args.budget {
            found.push(measure(&tandem, router, share.value(), &examples, &bar).await?);
        }
    }
    drop(bar);
    show(&found, args.json)?;
    let off = |m: &Measured| (m.mean - f64::from(m.budget)).abs();
    let near = args.within.is_none_or(|w| found.iter().all(|m| off(m) <= f64::from(w.value())));
    Ok(if near { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(
    tandem: &Tandem,
    router: &NamedRouter,
    budget: f32,
    examples: &[Example],
    bar: &TerminalProgress,
) -> anyhow::Result<Measured> {
    use lab::Progress;
    bar.begin(&format!("{router} at {}", percent(budget)), examples.len());
    let (mut shares, mut tokens, mut routed) = (vec![], 0, 0);
    for example in examples {
        let stats = answer(tandem, router, budget, example).await?;
        tokens += stats.tokens;
        routed += stats.cloud_tokens;
        if stats.tokens > 0 {
            shares.push(stats.routed_share);
        }
        bar.step();
    }
    bar.end();
    Ok(Measured {
        router: router.to_string(),
        budget,
        mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
        together: routed as f64 / tokens.max(1) as f64,
        answers: shares.len(),
        tokens,
    })
}

async fn answer(
    tandem: &Tandem,
    router: &NamedRouter,
    budget: f32,
    example: &Example,
) -> anyhow::Result<tandem::Stats> {
    let mut request = tandem.resolve(Request::user(example.prompt())).await?;
    request.router = router.clone();
    request.policy = router.policy(None, tandem::Share::new(budget));
    let lease = tandem.lease(request.mode, &request.tokens).await?;
    let mut generation = lease.begin(request).await?;
    while generation.next().await?.is_some() {}
    Ok(generation.transcript().stats())
}

fn show(found: &[Measured], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let rows: Vec<_> = found
            .iter()
            .map(|m| {
                json!({
                    "router": m.router, "budget": m.budget, "mean_share": m.mean,
                    "share_of_tokens": m.together, "answers": m.answers, "tokens": m.tokens,
                })
            })
            .collect();
        return print_json(&json!({ "budgets": rows }));
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:16} budget  mean share  of all tokens  answers  tokens", "router")?;
    for m in found {
        writeln!(
            out,
            "{:16} {:>6}  {:8.1} %  {:11.1} %  {:7}  {:6}",
            m.router,
            percent(m.budget),
            m.mean * 100.0,
            m.together * 100.0,
            m.answers,
            m.tokens
        )?;
    }
    Ok(())
}
