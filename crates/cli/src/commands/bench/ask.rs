//! `tandem bench ask`: the cost of one ask against the length of the context.

use std::{io::Write, time::Instant};

use anyhow::{Context, ensure};
use cloud::{Opening, Remote, protocol::Prompt};
use decode::{Answer, Ask, Cloud, Sampling, Token, Want};
use engine::Compute;
use serde::Serialize;

use super::median;
use crate::{
    args::{BenchAskArgs, MachineArgs},
    config::{Store, UsageError, cloud_options},
    pair::{embed, key},
};

/// What asks at one length cost.
#[derive(Serialize)]
struct Point {
    context: usize,
    asks: usize,
    /// Tokens accepted between two asks: the edge's, and the cloud's own answer.
    accepted: usize,
    prefilled: f64,
    prefilled_max: usize,
    cached: f64,
    /// The whole ask, as the edge waits for it.
    ms: f64,
    prefill_ms: f64,
    decode_ms: f64,
    network_ms: f64,
}

pub async fn ask(args: BenchAskArgs) -> anyhow::Result<()> {
    let mut lengths = args.lengths.clone();
    lengths.sort_unstable();
    let longest = *lengths.last().ok_or_else(|| UsageError("--lengths is empty".into()))?;
    let room = longest + lengths.len() * (args.asks + 2) * (args.append + 2) + 64;
    let mut remote = connect(&args, room).await?;
    let mut conversation = Growing::begin(&mut remote).await?;
    let mut points = vec![];
    for length in lengths {
        conversation.grow_to(length, args.append).await?;
        let point = conversation.measure(args.asks, args.append).await?;
        if !args.json {
            print(&point, points.is_empty())?;
        }
        points.push(point);
    }
    remote.close().await;
    if args.json {
        writeln!(std::io::stdout(), "{}", serde_json::json!({ "points": points }))?;
    }
    Ok(())
}

async fn connect(args: &BenchAskArgs, room: usize) -> anyhow::Result<Remote> {
    // Any ids will do, so no edge is needed: the cloud's own come back to it.
    let prompt = Prompt::Text("The history of the sea is long, and so is this text.".into());
    let opening = Opening { prompt, vocabulary: None };
    let (address, key) = match &args.cloud.cloud {
        Some(address) => (address.clone(), args.cloud.cloud_key.clone()),
        None => {
            let machine = MachineArgs { context: room, threads: args.threads };
            let options = cloud_options(&Store::open(None)?, &args.cloud, &machine)?;
            let key = key();
            let address = embed(&Compute::start()?, options, key.clone(), !args.no_reuse).await?;
            (address, Some(key))
        }
    };
    Ok(Remote::new(address, key, opening)?)
}

/// A conversation that grows by the cloud's own tokens.
struct Growing<'a> {
    remote: &'a mut Remote,
    accepted: Vec<Token>,
    /// The cloud's count of its context at the last ask.
    context: usize,
    /// How many of the accepted tokens that was with.
    read: usize,
    sampling: Sampling,
}

impl<'a> Growing<'a> {
    async fn begin(remote: &'a mut Remote) -> anyhow::Result<Self> {
        remote.open().await?;
        // Warm enough that the text does not end, or run in circles.
        let sampling = Sampling { temperature: 1.5, seed: 1, ..Sampling::default() };
        let mut growing = Self { remote, accepted: vec![], context: 0, read: 0, sampling };
        growing.next(32).await.context("the cloud wrote nothing")?;
        Ok(growing)
    }

    async fn next(&mut self, tokens: usize) -> anyhow::Result<Answer> {
        let want = Want::Tokens(tokens);
        let ask = Ask { tokens: &self.accepted, text: "", want, sampling: &self.sampling };
        let answer = self.remote.next(ask).await?;
        self.context = answer.usage.prefilled + answer.usage.cached;
        self.read = self.accepted.len();
        self.accepted.extend(answer.tokens.iter().map(|t| t.id));
        Ok(answer)
    }

    /// Accepts tokens as if the edge had written them: those the cloud wrote first, over again.
    fn append(&mut self, count: usize) -> anyhow::Result<()> {
        ensure!(!self.accepted.is_empty(), "the cloud wrote nothing to go on with");
        let again: Vec<_> = self.accepted.iter().cycle().take(count).copied().collect();
        self.accepted.extend(again);
        Ok(())
    }

    async fn grow_to(&mut self, length: usize, append: usize) -> anyhow::Result<()> {
        // The next ask comes with what was not read yet, this many tokens more, and the answer.
        let unread = self.accepted.len() - self.read;
        let missing = length.saturating_sub(self.context + unread + append + 1);
        self.append(missing)?;
        self.next(1).await?;
        Ok(())
    }

    async fn measure(&mut self, asks: usize, append: usize) -> anyhow::Result<Point> {
        let (mut answers, mut took) = (vec![], vec![]);
        let (mut accepted, mut context) = (0, None);
        for _ in 0..asks {
            let before = self.context;
            self.append(append)?;
            let started = Instant::now();
            answers.push(self.next(1).await?);
            took.push(started.elapsed().as_secs_f64() * 1000.0);
            accepted = accepted.max(self.context - before);
            context.get_or_insert(self.context);
        }
        let over = |f: fn(&Answer) -> f64| median(answers.iter().map(f));
        Ok(Point {
            context: context.unwrap_or(self.context),
            asks,
            accepted,
            prefilled: over(|a| a.usage.prefilled as f64),
            prefilled_max: answers.iter().map(|a| a.usage.prefilled).max().unwrap_or(0),
            cached: over(|a| a.usage.cached as f64),
            ms: median(took),
            prefill_ms: over(|a| a.times.cloud_prefill.as_secs_f64() * 1000.0),
            decode_ms: over(|a| a.times.cloud_decode.as_secs_f64() * 1000.0),
            network_ms: over(|a| a.times.network.as_secs_f64() * 1000.0),
        })
    }
}

fn print(point: &Point, first: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if first {
        writeln!(
            out,
            "one ask, {} tokens accepted since the last, median of {}",
            point.accepted, point.asks
        )?;
        writeln!(
            out,
            "context  prefilled (most)  cached  ms an ask  of them prefill  decode  network"
        )?;
    }
    let p = point;
    writeln!(
        out,
        "{:7}  {:9} {:6}  {:6}  {:9.1}  {:15.1}  {:6.1}  {:7.2}",
        p.context,
        p.prefilled,
        p.prefilled_max,
        p.cached,
        p.ms,
        p.prefill_ms,
        p.decode_ms,
        p.network_ms
    )?;
    Ok(())
}
