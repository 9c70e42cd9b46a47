//! `tandem bench edge`: what the loop costs over the bare engine.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, ensure};
use decode::{
    Answer, Ask, Cloud, CloudError, Limits, Message, Opened, Plan, Routing, Sampling, Session,
    Threshold, Token,
};
use engine::{Compute, LoadOptions, Model, Sequence, bench::Bare};
use router::Kind;
use serde::Serialize;

use super::median;
use crate::{
    args::BenchEdgeArgs,
    config::{Store, edge_options},
};

const QUESTION: &str = "Write a long story about a lighthouse keeper, her dog and the sea.";

/// Tokens a second, the median of the runs.
#[derive(Serialize)]
struct Figures {
    bare: f64,
    hidden: f64,
    #[serde(rename = "loop")]
    whole: f64,
    hidden_ratio: f64,
    loop_ratio: f64,
    tokens: usize,
    runs: usize,
    threads: usize,
}

pub async fn edge(args: BenchEdgeArgs) -> anyhow::Result<()> {
    let options = edge_options(&Store::open(None)?, &args.edge, &args.machine)?;
    let compute = Compute::start()?;
    let bare = Arc::new(Mutex::new(Bare::load(&options)?));
    let model = Model::load(&compute, options.clone()).await?;
    let mut sequence = model.open().await?;
    let messages = [Message::system("You are a helpful assistant."), Message::user(QUESTION)];
    let prompt = model.vocabulary().prompt(&messages)?;
    ensure!(
        prompt.len() + args.tokens < options.context,
        "{} tokens do not fit a context of {}",
        args.tokens,
        options.context
    );

    let mut rates = [vec![], vec![], vec![]];
    // The first round warms caches and clocks and does not count.
    for round in 0..=args.runs {
        let now = [
            bare_engine(&compute, &bare, &prompt, (args.tokens, false)).await?,
            bare_engine(&compute, &bare, &prompt, (args.tokens, true)).await?,
            whole_loop(&mut sequence, &prompt, args.tokens).await?,
        ];
        if round > 0 {
            rates.iter_mut().zip(now).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let figures = figures(&rates, &args, &options);
    print(&figures, args.json)
}

fn figures(rates: &[Vec<f64>; 3], args: &BenchEdgeArgs, options: &LoadOptions) -> Figures {
    let [bare, hidden, whole] = rates.each_ref().map(|r| median(r.iter().copied()));
    // Ratios within a round: what slows the machine for a moment slows all three.
    let ratio = |to: &[f64]| median(to.iter().zip(&rates[0]).map(|(x, bare)| x / bare));
    Figures {
        bare,
        hidden,
        whole,
        hidden_ratio: ratio(&rates[1]),
        loop_ratio: ratio(&rates[2]),
        tokens: args.tokens,
        runs: args.runs,
        threads: options.threads,
    }
}

fn print(figures: &Figures, as_json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", serde_json::to_string(figures)?)?;
        return Ok(());
    }
    let Figures { bare, hidden, whole, hidden_ratio, loop_ratio, tokens, runs, threads } = figures;
    writeln!(out, "decode, {tokens} tokens, {threads} threads, median of {runs} runs in turn")?;
    writeln!(out, "  bare engine         {bare:6.1} tokens/s")?;
    writeln!(out, "  hidden state read   {hidden:6.1} tokens/s  {hidden_ratio:.3} of bare")?;
    writeln!(out, "  whole joint loop    {whole:6.1} tokens/s  {loop_ratio:.3} of bare")?;
    Ok(())
}

/// A raw decode loop, on the thread where all computing is done.
async fn bare_engine(
    compute: &Compute,
    bare: &Arc<Mutex<Bare>>,
    prompt: &[Token],
    (tokens, hidden): (usize, bool),
) -> anyhow::Result<f64> {
    let (bare, prompt) = (bare.clone(), prompt.to_vec());
    let decode = move || {
        let mut bare = bare.lock().unwrap_or_else(PoisonError::into_inner);
        bare.decode(&prompt, tokens, hidden)
    };
    Ok(tokens as f64 / compute.work(decode).await??.as_secs_f64())
}

/// Everything a joint session does for a token, with a router that scores and a threshold that
/// never asks. Timed from the first token to the last, as the bare engine is.
async fn whole_loop(
    sequence: &mut Sequence,
    prompt: &[Token],
    tokens: usize,
) -> anyhow::Result<f64> {
    sequence.truncate(0);
    let routing =
        Routing { router: Kind::Top1.build(0), threshold: Threshold::NEVER, cloud: NoCloud };
    // One more: the first token comes with the prompt.
    let limits = Limits { max_tokens: tokens + 1, stops: vec![] };
    let plan = Plan { prompt: prompt.to_vec(), sampling: Sampling::default(), limits };
    let mut session = Session::new(sequence, Some(routing), plan)?;
    while session.next().await?.is_some() {}
    let stats = session.transcript().stats();
    ensure!(stats.tokens > tokens / 2, "the model ended its story after {} tokens", stats.tokens);
    let between = stats.mean_time_between_tokens.as_secs_f64();
    (between > 0.0).then(|| 1.0 / between).context("no time passed between tokens")
}

/// Never asked.
struct NoCloud;

impl Cloud for NoCloud {
    async fn open(&mut self) -> Result<Opened, CloudError> {
        Err(CloudError::NotOpened)
    }

    async fn next(&mut self, _: Ask<'_>) -> Result<Answer, CloudError> {
        Err(CloudError::NotOpened)
    }
}
