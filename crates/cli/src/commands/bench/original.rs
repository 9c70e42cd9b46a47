//! `tandem bench original`: Tandem beside the loop of the system it grew from.
//!
//! The original's demo has no cache on either side: its small model reads the whole text again for
//! every token, and every ask sends the whole text, has it read again, and brings one token. Here
//! both loops run the same pair, prompts, router, threshold and network, in turn. Tandem goes on while an
//! answer is on its way, if it is told to; the original waits.

use std::{io::Write, sync::Arc, time::Duration};

use cloud::Clouds;
use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Edge, EdgeError, Handshake, Limits, OnCloudError,
    Sampling, Stats, Step, Threshold, Token, Vocabulary,
};
use engine::Sequence;
use serde::Serialize;
use tandem::{Mode, Pair, Request, RoutingOverrides, Tandem};

use super::{
    joint::QUESTIONS,
    wrapped::{Wrapping, wrap},
};
use crate::{args::BenchOriginalArgs, show::print_json};

/// An edge that reads everything again at every step.
struct ForgetfulEdge {
    edge: Sequence,
    text: Vec<Token>,
}

impl Edge for ForgetfulEdge {
    fn vocabulary(&self) -> Arc<dyn Vocabulary> {
        self.edge.vocabulary()
    }

    fn context(&self) -> usize {
        self.edge.context()
    }

    fn held(&self) -> &[Token] {
        &[]
    }

    fn keep_common(&mut self, _: &[Token]) -> usize {
        self.text.clear();
        0
    }

    async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
        self.text.extend_from_slice(unread);
        self.edge.keep_common(&[]);
        self.edge.step(&self.text).await
    }
}

/// A cloud that is given the whole conversation at every ask, and says one token.
struct ForgetfulCloud(Clouds);

impl Cloud for ForgetfulCloud {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        self.0.open().await
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        self.0.close().await;
        self.0.open().await?;
        self.0.next(Ask { want: AnswerLength::Tokens(1), ..ask }).await
    }
}

/// Both, as the original system has them.
struct Forgetful;

impl Wrapping for Forgetful {
    type Edge = ForgetfulEdge;
    type Cloud = ForgetfulCloud;

    fn edge(&self, edge: Sequence) -> ForgetfulEdge {
        ForgetfulEdge { edge, text: vec![] }
    }

    fn cloud(&self, cloud: Clouds) -> ForgetfulCloud {
        ForgetfulCloud(cloud)
    }

    fn inner(cloud: &mut ForgetfulCloud) -> Option<&mut Clouds> {
        Some(&mut cloud.0)
    }
}

/// One loop over all prompts.
#[derive(Serialize)]
struct LoopSummary {
    tokens: usize,
    routed_share: f64,
    asks: usize,
    tokens_per_second: f64,
    time_between_tokens_ms: f64,
    edge_seconds: f64,
    cloud_prefilled: Option<usize>,
    cloud_prefilled_per_ask: Option<f64>,
}

pub async fn original(args: BenchOriginalArgs) -> anyhow::Result<()> {
    args.generate.pair.cloud.location.require_cloud("asks are measured")?;
    // Each loop has a sequence of the small model for itself.
    let ours = args.generate.builder()?.seats(2).build()?;
    // Both judge alike: a budget would follow each its own way.
    let threshold = ours.routers().policy().threshold();
    let theirs = wrap(&ours, Forgetful, threshold.into());
    let seed = args.generate.sampling.seed.unwrap_or_default();
    let request = |question: &str, threshold: Threshold, max_tokens: usize| Request {
        sampling: Some(Sampling { seed, ..Sampling::default() }),
        limits: Some(Limits { max_tokens, stops: vec![] }),
        routing: RoutingOverrides { threshold: Some(threshold), ..RoutingOverrides::default() },
        on_error: Some(OnCloudError::Fail),
        ..Request::user(question).mode(Mode::Joint)
    };
    // Loading the models is not what is measured, nor is finding out who the cloud is.
    let first = request("Say hi.", Threshold::ALWAYS, 1);
    answer(&ours, first.clone()).await?;
    answer(&theirs, first).await?;
    let (mut our_stats, mut their_stats) = (vec![], vec![]);
    // In turn, so that a slow moment of the machine is shared.
    for question in QUESTIONS.iter().take(args.prompts) {
        let request = request(question, threshold, args.tokens);
        our_stats.push(answer(&ours, request.clone()).await?);
        their_stats.push(answer(&theirs, request).await?);
    }
    ours.close().await;
    theirs.close().await;
    print(&figures(&our_stats), &figures(&their_stats), &ours, args.json)
}

async fn answer<P: Pair>(tandem: &Tandem<P>, request: Request) -> anyhow::Result<Stats> {
    // Every answer begins with nothing read.
    tandem.forget().await;
    Ok(tandem.answer(request).await?.summary.stats)
}

fn figures(stats: &[Stats]) -> LoopSummary {
    let sum = |f: fn(&Stats) -> usize| stats.iter().map(f).sum::<usize>();
    let seconds = |f: fn(&Stats) -> Duration| stats.iter().map(f).sum::<Duration>().as_secs_f64();
    let (tokens, asks) = (sum(|s| s.tokens), sum(|s| s.asks));
    let prefilled: Option<usize> = stats.iter().map(|s| s.cloud_prefilled).sum();
    // The first token is the prompt's price.
    let between = seconds(|s| s.total.saturating_sub(s.time_to_first_token));
    let gaps = tokens.saturating_sub(stats.len()).max(1);
    LoopSummary {
        tokens,
        routed_share: sum(|s| s.cloud_tokens) as f64 / tokens.max(1) as f64,
        asks,
        tokens_per_second: tokens as f64 / seconds(|s| s.total).max(f64::EPSILON),
        time_between_tokens_ms: between * 1000.0 / gaps as f64,
        edge_seconds: seconds(|s| s.times.edge_prefill + s.times.edge_decode),
        cloud_prefilled: prefilled,
        cloud_prefilled_per_ask: prefilled.map(|n| n as f64 / asks.max(1) as f64),
    }
}

fn print(
    ours: &LoopSummary,
    theirs: &LoopSummary,
    tandem: &Tandem,
    json: bool,
) -> anyhow::Result<()> {
    let speed = ours.tokens_per_second / theirs.tokens_per_second;
    let between = theirs.time_between_tokens_ms / ours.time_between_tokens_ms;
    let prefilled = ours
        .cloud_prefilled_per_ask
        .zip(theirs.cloud_prefilled_per_ask)
        .map(|(ours, theirs)| theirs / ours.max(f64::EPSILON));
    if json {
        return print_json(&serde_json::json!({
            "tandem": ours,
            "original": theirs,
            "ratios": {
                "tokens_per_second": speed,
                "time_between_tokens": between,
                "cloud_prefilled_per_ask": prefilled,
            },
        }));
    }
    let mut out = std::io::stdout().lock();
    let routers = tandem.routers();
    writeln!(out, "router {}, threshold {}", routers.own(), routers.policy().threshold())?;
    for (name, f) in [("tandem", ours), ("original", theirs)] {
        writeln!(
            out,
            "  {name:8}  {:6.2} tokens/s, one every {:6.1} ms; {} tokens, {:.1} % from the cloud, \
             {} asks, {} tokens prefilled there an ask",
            f.tokens_per_second,
            f.time_between_tokens_ms,
            f.tokens,
            f.routed_share * 100.0,
            f.asks,
            f.cloud_prefilled_per_ask.map_or("?".into(), |n| format!("{n:.1}")),
        )?;
    }
    writeln!(
        out,
        "tandem writes {speed:.1} times as many tokens a second; {between:.1} times shorter gaps"
    )?;
    if let Some(prefilled) = prefilled {
        writeln!(out, "the original prefills {prefilled:.1} times as many tokens an ask")?;
    }
    Ok(())
}
