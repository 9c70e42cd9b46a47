//! `tandem bench edge`: what the loop costs over the bare engine.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::ensure;
use cloud::{Opening, Remote, protocol::Prompt};
use decode::{
    Limits, Message, OnCloudError, Routing, Sampling, Session, SessionInput, Threshold, Token,
};
use engine::{Compute, EngineError, Model, Sequence, bench::RawEngine};
use router::RouterKind;
use serde::Serialize;

use super::median;
use crate::{args::BenchEdgeArgs, show::print_json};

const QUESTION: &str = "Write a long story about a lighthouse keeper, her dog and the sea.";

/// The three kinds take turns this often within a run, so that a moment in which the machine is
/// slow is shared by all.
const SLICES: usize = 4;

/// Tokens read in a chunked prefill, once a run.
const PREFILL: usize = 256;

/// Tokens a second, the median of the runs.
#[derive(Serialize)]
struct Rates {
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
        let unread = read.clone();
        let read_in = bare_engine(&compute, &bare, move |e| e.prefill(&unread)).await?;
        for _ in 0..SLICES {
            let tokens = args.tokens.div_ceil(SLICES);
            for hidden in [false, true] {
                let prompt = prompt.clone();
                let decode = move |engine: &mut RawEngine| engine.decode(&prompt, tokens, hidden);
                seconds[usize::from(hidden)] += bare_engine(&compute, &bare, decode).await?;
            }
            seconds[2] += whole_loop(&mut sequence, &prompt, tokens).await?;
        }
        if run > 0 {
            let tokens = args.tokens.div_ceil(SLICES) * SLICES;
            rates.iter_mut().zip(seconds).for_each(|(rates, s)| rates.push(tokens as f64 / s));
            prefills.push(PREFILL as f64 / read_in);
        }
    }
    // Ratios within a run: what slows the machine for a moment slows all three.
    let ratio = |to: &[f64]| median(to.iter().zip(&rates[0]).map(|(x, bare)| x / bare));
    let (hidden_ratio, loop_ratio) = (ratio(&rates[1]), ratio(&rates[2]));
    let [bare, hidden, whole] = rates.map(median);
    let figures = Rates {
        prefill: median(prefills),
        bare,
        hidden,
        whole,
        hidden_ratio,
        loop_ratio,
        tokens: args.tokens,
        runs: args.runs,
        threads: options.threads,
    };
    print(&figures, args.json)
}

fn print(figures: &Rates, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(figures);
    }
    let mut out = std::io::stdout().lock();
    let Rates { prefill, bare, hidden, whole, hidden_ratio, loop_ratio, tokens, runs, threads } =
        figures;
    writeln!(out, "prefill, {PREFILL} tokens in chunks")?;
    writeln!(out, "  bare engine         {prefill:6.1} tokens/s")?;
    writeln!(out, "decode, {tokens} tokens, {threads} threads, median of {runs} runs in turn")?;
    writeln!(out, "  bare engine         {bare:6.1} tokens/s")?;
    writeln!(out, "  hidden state read   {hidden:6.1} tokens/s  {hidden_ratio:.3} of bare")?;
    writeln!(out, "  whole joint loop    {whole:6.1} tokens/s  {loop_ratio:.3} of bare")?;
    Ok(())
}

/// Seconds of the bare engine's work, on the thread where all computing is done.
async fn bare_engine(
    compute: &Compute,
    bare: &Arc<Mutex<RawEngine>>,
    work: impl FnOnce(&mut RawEngine) -> Result<Duration, EngineError> + Send + 'static,
) -> anyhow::Result<f64> {
    let bare = bare.clone();
    let work = move || work(&mut bare.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(compute.work(work).await??.as_secs_f64())
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
        // Never asked.
        cloud: Remote::offline(Opening::alone(Prompt::Messages(vec![]))),
        on_error: OnCloudError::Fail,
    };
    // One more: the first token comes with the prompt.
    let limits = Limits { max_tokens: tokens + 1, stops: vec![] };
    let input = SessionInput {
        prompt: prompt.to_vec(),
        written: vec![],
        sampling: Sampling::default(),
        limits,
    };
    let mut session = Session::new(sequence, Some(routing), input)?;
    while session.next().await?.is_some() {}
    let stats = session.transcript().stats();
    ensure!(stats.tokens == tokens + 1, "the model ended its story after {} tokens", stats.tokens);
    Ok((stats.total - stats.time_to_first_token).as_secs_f64())
}
