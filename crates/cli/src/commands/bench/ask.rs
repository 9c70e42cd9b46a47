//! `tandem bench ask`: the cost of one ask against the length of the context.

use std::{io::Write, sync::Arc, time::Instant};

use anyhow::Context;
use cloud::{
    Engine, Opening, Remote, Settings,
    protocol::Prompt,
    service::{LazyModel, Service, ServiceConfig},
};
use decode::{Answer, AnswerLength, Ask, Cloud, Exchange, Sampling, Token, statistics::percentile};
use engine::Compute;
use serde::Serialize;
use tandem::{AskConfig, CloudConfig, Machine, Store};

use super::median;
use crate::{
    args::BenchAskArgs,
    config::UsageError,
    show::{print_json, say},
};

/// What asks at one length cost.
#[derive(Serialize)]
struct Point {
    context: usize,
    asks: usize,
    /// Tokens accepted between two asks: the edge's, and the cloud's own answer.
    accepted: usize,
    /// What the cloud read for an ask; `None` where it does not say.
    prefilled: Option<f64>,
    prefilled_max: Option<usize>,
    cached: Option<f64>,
    /// The whole ask, as the edge waits for it.
    ms: f64,
    ms_p95: f64,
    prefill_ms: f64,
    decode_ms: f64,
    network_ms: f64,
}

pub async fn ask(args: BenchAskArgs) -> anyhow::Result<()> {
    let mut lengths = args.lengths.clone();
    lengths.sort_unstable();
    let longest = *lengths.last().ok_or_else(|| UsageError("--lengths is empty".into()))?;
    let grows = (args.asks + 2) * (args.append + 2);
    let mut remote = connect(&args, longest + lengths.len() * grows + 64)?;
    let introduction = remote.identify().await?;
    let (engine, limit) = (introduction.engine, introduction.about.context);
    let mut conversation = GrowingConversation::begin(&mut remote).await?;
    let mut points = vec![];
    for length in lengths {
        if let Some(limit) = limit.filter(|&limit| length + grows > limit) {
            say(&format!("{length} and more do not fit: the server's context holds {limit}"));
            break;
        }
        conversation.grow_to(length, args.append).await?;
        let point = conversation.measure(args.asks, args.append).await?;
        if !args.json {
            print(&point, engine, points.is_empty())?;
        }
        points.push(point);
    }
    remote.close().await;
    if args.json {
        print_json(&serde_json::json!({ "engine": engine.as_str(), "points": points }))?;
    }
    Ok(())
}

fn connect(args: &BenchAskArgs, room: usize) -> anyhow::Result<Remote> {
    // Any ids will do, so no edge is needed: the cloud's own come back to it.
    let prompt = Prompt::Text("The history of the sea is long, and so is this text.".into());
    let settings = match args.cloud.config()? {
        CloudConfig::None => {
            return Err(UsageError("asks are measured: not with --offline".into()).into());
        }
        CloudConfig::Remote(clouds) => match <[Settings; 1]>::try_from(clouds) {
            Ok([settings]) => settings,
            Err(_) => return Err(UsageError("asks are measured with one --cloud".into()).into()),
        },
        CloudConfig::Local(cloud) => {
            let machine = Machine { context: room, threads: args.threads, gpu_layers: None };
            let options = cloud.options(&Store::open()?, &machine, 1)?;
            let model = LazyModel::new(Compute::start()?, options);
            let config = ServiceConfig { reuse: !args.no_reuse, ..ServiceConfig::default() };
            Settings::in_process(Arc::new(Service::new(model, config)))
        }
    };
    let AskConfig { deadline, on_error, delay, .. } = args.cloud.location.ask_config()?;
    let settings = Settings { deadline, on_error, delay, ..settings };
    Ok(Remote::new(settings, Opening::alone(prompt))?)
}

/// A conversation that grows by the cloud's own tokens.
struct GrowingConversation<'a> {
    remote: &'a mut Remote,
    exchange: Exchange,
    accepted: Vec<Token>,
    text: String,
    /// Its length at the last ask in the cloud's tokens: as the cloud counted, or as many as were
    /// accepted.
    context: usize,
    /// How many tokens were accepted since.
    unread: usize,
    sampling: Sampling,
}

impl<'a> GrowingConversation<'a> {
    async fn begin(remote: &'a mut Remote) -> anyhow::Result<Self> {
        let exchange = remote.open().await?.exchange;
        // Warm enough that the text does not end, or run in circles.
        let sampling = Sampling { temperature: 1.5, seed: 1, ..Sampling::default() };
        let mut growing = Self {
            remote,
            exchange,
            accepted: vec![],
            text: String::new(),
            context: 0,
            unread: 0,
            sampling,
        };
        growing.next(32).await.context("the cloud wrote nothing")?;
        Ok(growing)
    }

    async fn next(&mut self, tokens: usize) -> anyhow::Result<Answer> {
        let (want, sampling) = (AnswerLength::Tokens(tokens), &self.sampling);
        let ask = Ask { tokens: &self.accepted, text: &self.text, want, sampling };
        let answer = self.remote.next(ask).await?;
        let counted = answer.usage.prefilled.zip(answer.usage.cached);
        self.context = counted.map_or(self.context + self.unread, |(read, cached)| read + cached);
        self.unread = answer.tokens.len();
        self.accepted.extend(answer.tokens.iter().filter_map(|t| t.id));
        self.text.push_str(&answer.text());
        Ok(answer)
    }

    /// Accepts tokens as if the edge had written them: those the cloud wrote first, over again, or
    /// words of one token.
    fn append(&mut self, count: usize) {
        self.unread += count;
        match self.exchange {
            Exchange::Ids => {
                let again: Vec<_> = self.accepted.iter().cycle().take(count).copied().collect();
                self.accepted.extend(again);
            }
            Exchange::Text => {
                let words = [" the", " sea", " and", " a", " ship", " on", " it"];
                let from = self.text.len() % words.len();
                self.text.extend(words.iter().cycle().skip(from).take(count).copied());
            }
        }
    }

    async fn grow_to(&mut self, length: usize, append: usize) -> anyhow::Result<()> {
        // The next ask comes with what was not read yet, this many tokens more, and the answer.
        let missing = length.saturating_sub(self.context + self.unread + append + 1);
        self.append(missing);
        self.next(1).await?;
        Ok(())
    }

    async fn measure(&mut self, asks: usize, append: usize) -> anyhow::Result<Point> {
        let (mut answers, mut took) = (vec![], vec![]);
        let (mut accepted, mut context) = (0, None);
        for _ in 0..asks {
            let before = self.context;
            self.append(append);
            let started = Instant::now();
            answers.push(self.next(1).await?);
            took.push(started.elapsed().as_secs_f64() * 1000.0);
            accepted = accepted.max(self.context.saturating_sub(before));
            context.get_or_insert(self.context);
        }
        let over = |f: fn(&Answer) -> f64| median(answers.iter().map(f));
        let count = |f: fn(&Answer) -> Option<usize>| {
            answers.iter().map(f).collect::<Option<Vec<_>>>().unwrap_or_default()
        };
        let known = |counts: &[usize]| {
            (!counts.is_empty()).then(|| median(counts.iter().map(|&n| n as f64)))
        };
        let prefilled = count(|a| a.usage.prefilled);
        Ok(Point {
            context: context.unwrap_or(self.context),
            asks,
            accepted,
            prefilled: known(&prefilled),
            prefilled_max: prefilled.iter().copied().max(),
            cached: known(&count(|a| a.usage.cached)),
            ms_p95: percentile(took.iter().copied(), 0.95).unwrap_or(0.0),
            ms: median(took),
            prefill_ms: over(|a| a.times.cloud_prefill.as_secs_f64() * 1000.0),
            decode_ms: over(|a| a.times.cloud_decode.as_secs_f64() * 1000.0),
            network_ms: over(|a| a.times.network.as_secs_f64() * 1000.0),
        })
    }
}

fn print(point: &Point, engine: Engine, first: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if first {
        writeln!(
            out,
            "{}: one ask, {} tokens accepted since the last, median of {}",
            engine.title(),
            point.accepted,
            point.asks
        )?;
        writeln!(
            out,
            "context  prefilled (most)  cached  ms an ask  (p95)  of them prefill  decode  the rest"
        )?;
    }
    let p = point;
    let known = |n: Option<f64>| n.map_or("?".into(), |n| n.to_string());
    writeln!(
        out,
        "{:7}  {:>9} {:>6}  {:>6}  {:9.1}  {:5.1}  {:15.1}  {:6.1}  {:8.2}",
        p.context,
        known(p.prefilled),
        known(p.prefilled_max.map(|n| n as f64)),
        known(p.cached),
        p.ms,
        p.ms_p95,
        p.prefill_ms,
        p.decode_ms,
        p.network_ms
    )?;
    Ok(())
}
