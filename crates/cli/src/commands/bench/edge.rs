//! `tandem bench edge`: what the loop costs over the bare engine.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::ensure;
use decode::{
    Answer, Ask, Cloud, CloudError, Limits, Message, OnCloudError, Opened, Plan, Routing, Sampling,
    Session, Threshold, Token,
};
use engine::{Compute, LoadOptions, Model, Sequence, bench::RawEngine};
use router::RouterKind;
use serde::Serialize;

use super::median;
use crate::args::BenchEdgeArgs;

const QUESTION: &str = "Write a long story about a lighthouse keeper, her dog and the sea.";

/// The three kinds take turns this often within a run, so that a moment in which the machine is
/// slow is shared by all.
const SLICES: usize = 4;

/// Tokens read in a chunked prefill, once a run.
const PREFILL: usize = 256;

/// Tokens a second, the median of the runs.
#[derive(Serialize)]
struct Figures {
    prefill: f64,
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
    let options = args.edge.config().options(&args.edge.store()?, &args.machine.config(), 1)?;
    let compute = Compute::start()?;
    let bare = Arc::new(Mutex::new(RawEngine::load(&options)?));
    let model = Model::load(&compute, options.clone()).await?;
    let mut sequence = model.open().await?;
    let messages = [Message::system("You are a helpful assistant."), Message::user(QUESTION)];
    let prompt = model.vocabulary().prompt(&messages)?;
    // The question stays last: behind it the model tells its story to the end of the run.
    let before = args.behind.saturating_sub(prompt.len());
    let prompt: Vec<_> = prompt.iter().cycle().take(before).chain(&prompt).copied().collect();
    ensure!(
        prompt.len() + args.tokens < options.context,
        "{} tokens do not fit a context of {}",
        args.tokens,
        options.context
    );

    let mut rates = [vec![], vec![], vec![]];
    let mut prefills = vec![];
    let read: Vec<_> = prompt.iter().cycle().take(PREFILL).copied().collect();
    // The first run warms caches and clocks and does not count.
    for run in 0..=args.runs {
        let mut seconds = [0.0; 3];
        let read_in = prefill(&compute, &bare, &read).await?;
        for _ in 0..SLICES {
            let tokens = args.tokens.div_ceil(SLICES);
            seconds[0] += bare_engine(&compute, &bare, &prompt, (tokens, false)).await?;
            seconds[1] += bare_engine(&compute, &bare, &prompt, (tokens, true)).await?;
            seconds[2] += whole_loop(&mut sequence, &prompt, tokens).await?;
        }
        if run > 0 {
            let tokens = args.tokens.div_ceil(SLICES) * SLICES;
            rates.iter_mut().zip(seconds).for_each(|(rates, s)| rates.push(tokens as f64 / s));
            prefills.push(PREFILL as f64 / read_in);
        }
    }
    let figures = figures(&rates, &prefills, &args, &options);
    print(&figures, args.json)
}

fn figures(
    rates: &[Vec<f64>; 3],
    prefills: &[f64],
    args: &BenchEdgeArgs,
    options: &LoadOptions,
) -> Figures {
    let [bare, hidden, whole] = rates.each_ref().map(|r| median(r.iter().copied()));
    // Ratios within a run: what slows the machine for a moment slows all three.
    let ratio = |to: &[f64]| median(to.iter().zip(&rates[0]).map(|(x, bare)| x / bare));
    Figures {
        prefill: median(prefills.iter().copied()),
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
    let Figures { prefill, bare, hidden, whole, hidden_ratio, loop_ratio, tokens, runs, threads } =
        figures;
    writeln!(out, "prefill, {PREFILL} tokens in chunks")?;
    writeln!(out, "  bare engine         {prefill:6.1} tokens/s")?;
    writeln!(out, "decode, {tokens} tokens, {threads} threads, median of {runs} runs in turn")?;
    writeln!(out, "  bare engine         {bare:6.1} tokens/s")?;
    writeln!(out, "  hidden state read   {hidden:6.1} tokens/s  {hidden_ratio:.3} of bare")?;
    writeln!(out, "  whole joint loop    {whole:6.1} tokens/s  {loop_ratio:.3} of bare")?;
    Ok(())
}

/// Seconds of a raw prefill, on the thread where all computing is done.
async fn prefill(
    compute: &Compute,
    bare: &Arc<Mutex<RawEngine>>,
    tokens: &[Token],
) -> anyhow::Result<f64> {
    let (bare, tokens) = (bare.clone(), tokens.to_vec());
    let read = move || bare.lock().unwrap_or_else(PoisonError::into_inner).prefill(&tokens);
    Ok(compute.work(read).await??.as_secs_f64())
}

/// Seconds of a raw decode loop, on the thread where all computing is done.
async fn bare_engine(
    compute: &Compute,
    bare: &Arc<Mutex<RawEngine>>,
    prompt: &[Token],
    (tokens, hidden): (usize, bool),
) -> anyhow::Result<f64> {
    let (bare, prompt) = (bare.clone(), prompt.to_vec());
    let decode = move || {
        let mut bare = bare.lock().unwrap_or_else(PoisonError::into_inner);
        bare.decode(&prompt, tokens, hidden)
    };
    Ok(compute.work(decode).await??.as_secs_f64())
}

/// Everything a joint session does for a token, with a router that scores and a threshold that
/// never asks. Seconds from the first token to the last, as for the bare engine.
async fn whole_loop(
    sequence: &mut Sequence,
    prompt: &[Token],
    tokens: usize,
) -> anyhow::Result<f64> {
    let routing = Routing {
        router: RouterKind::Top1.build(0),
        policy: Threshold::NEVER.into(),
        cloud: NoCloud,
        on_error: OnCloudError::Fail,
    };
    // One more: the first token comes with the prompt.
    let limits = Limits { max_tokens: tokens + 1, stops: vec![] };
    let plan =
        Plan { prompt: prompt.to_vec(), written: vec![], sampling: Sampling::default(), limits };
    let mut session = Session::new(sequence, Some(routing), plan)?;
    while session.next().await?.is_some() {}
    let stats = session.transcript().stats();
    ensure!(stats.tokens == tokens + 1, "the model ended its story after {} tokens", stats.tokens);
    Ok((stats.total - stats.time_to_first_token).as_secs_f64())
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
