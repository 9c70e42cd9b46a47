//! `tandem bench serve`: what the server adds to a text, and several texts at once.
//!
//! In process and over the socket take turns on the same loaded model, in short texts and in changing
//! order, so that a moment in which the machine is slow is shared by both.

use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use decode::{Limits, Message};
use reqwest::Client;
use serde::Serialize;
use serde_json::{Value, json};
use server::{
    edge::app,
    http::Keys,
    listen::{ServerLimits, listen},
};
use tandem::{Mode, Request, Tandem};
use tokio::net::TcpListener;

use super::median;
use crate::{
    args::{BenchServeArgs, ServeArgs},
    commands::serve::{build, pair},
    show::print_json,
};

/// Texts a run is cut into.
const SLICES: usize = 8;

/// Between the prompts of the two ways: neither finds the other's in a cache.
const APART: usize = 5000;

/// One text, timed by whoever waits for it.
struct Timed {
    first: Duration,
    last: Duration,
    tokens: usize,
}

impl Timed {
    /// Tokens a second from the first to the last: what comes before is prefill.
    fn rate(&self) -> f64 {
        self.tokens.saturating_sub(1) as f64 / (self.last - self.first).as_secs_f64()
    }
}

#[derive(Serialize)]
struct ServerCosts {
    /// Medians, in milliseconds.
    first_token_in_process_ms: f64,
    first_token_streamed_ms: f64,
    /// Median of the differences within a turn.
    first_byte_over_in_process_ms: f64,
    tokens_per_second_in_process: f64,
    tokens_per_second_streamed: f64,
    /// Median of the ratios within a turn: streamed over in process.
    streamed_over_in_process: f64,
    chats: usize,
    tokens_per_second_one_chat: f64,
    tokens_per_second_all_chats: f64,
    /// All chats together, over one alone.
    all_over_one: f64,
    /// The slowest chat's rate over the mean.
    slowest_over_mean: f64,
}

pub async fn serve(args: BenchServeArgs) -> anyhow::Result<()> {
    let serve = ServeArgs { parallel: args.chats, ..args.serve };
    // Texts in process are made on the same pair, when the server has nothing to do.
    let tandem = pair(&serve, args.chats)?;
    let server = build(&serve, tandem.clone(), vec![], (Keys::default(), true)).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1/chat/completions", listener.local_addr()?);
    tokio::spawn(listen(listener, app(&server), ServerLimits::default(), std::future::pending()));
    cloud::http::provide_cryptography();
    let reader = Arc::new(Reader { client: Client::builder().no_proxy().build()?, url });

    let (mut inside, mut outside) = (vec![], vec![]);
    let tokens = args.tokens.div_ceil(SLICES).max(2);
    // The first run warms up.
    for run in 0..=args.runs {
        for number in run * SLICES..(run + 1) * SLICES {
            let (ours, theirs);
            if number % 2 == 0 {
                ours = in_process(&tandem, number, tokens).await?;
                theirs = reader.read(number, tokens).await?;
            } else {
                theirs = reader.read(number, tokens).await?;
                ours = in_process(&tandem, number, tokens).await?;
            }
            if run > 0 {
                inside.push(ours);
                outside.push(theirs);
            }
        }
    }
    let (mut all, mut one, mut slowest) = (vec![], vec![], vec![]);
    for run in 0..args.runs {
        let (rate, fair) = crowd(&reader, args.chats, 100 + run * args.chats, args.tokens).await?;
        all.push(rate);
        slowest.push(fair);
        let (rate, _) = crowd(&reader, 1, 1000 + run, args.tokens).await?;
        one.push(rate);
    }
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    let pairs = || inside.iter().zip(&outside);
    let figures = ServerCosts {
        first_token_in_process_ms: median(inside.iter().map(|t| ms(t.first))),
        first_token_streamed_ms: median(outside.iter().map(|t| ms(t.first))),
        first_byte_over_in_process_ms: median(pairs().map(|(a, b)| ms(b.first) - ms(a.first))),
        tokens_per_second_in_process: median(inside.iter().map(Timed::rate)),
        tokens_per_second_streamed: median(outside.iter().map(Timed::rate)),
        streamed_over_in_process: median(pairs().map(|(a, b)| b.rate() / a.rate())),
        chats: args.chats,
        tokens_per_second_one_chat: median(one.iter().copied()),
        tokens_per_second_all_chats: median(all.iter().copied()),
        all_over_one: median(all.iter().zip(&one).map(|(all, one)| all / one)),
        slowest_over_mean: median(slowest),
    };
    show(&figures, args.json)
}

fn show(f: &ServerCosts, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(f);
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "first token: in process {:.1} ms, streamed {:.1} ms: {:+.2} ms within a turn",
        f.first_token_in_process_ms, f.first_token_streamed_ms, f.first_byte_over_in_process_ms
    )?;
    writeln!(
        out,
        "then: in process {:.1} tokens/s, streamed {:.1}: {:.3} within a turn",
        f.tokens_per_second_in_process, f.tokens_per_second_streamed, f.streamed_over_in_process
    )?;
    writeln!(
        out,
        "{} chats at once: {:.1} tokens/s together, one alone {:.1}: {:.2} times; the slowest has {:.2} of the mean",
        f.chats,
        f.tokens_per_second_all_chats,
        f.tokens_per_second_one_chat,
        f.all_over_one,
        f.slowest_over_mean
    )?;
    Ok(())
}

/// Prompts of one length that begin alike: what the cache of the last one spares, it spares both.
fn prompt(number: usize) -> [Message; 2] {
    let system = format!("{:04} You are a helpful assistant.", number % 10_000);
    let user = "Write a long story about a river, a mill and a bridge.";
    [Message::system(&system), Message::user(user)]
}

async fn in_process(tandem: &Tandem, number: usize, tokens: usize) -> anyhow::Result<Timed> {
    let started = Instant::now();
    let limits = Limits { max_tokens: tokens, stops: vec![] };
    let request = Request::chat(prompt(number + APART)).mode(Mode::Small).limits(limits);
    let answer = tandem.answer(request).await?;
    let (stats, waited) = (answer.summary.stats, started.elapsed());
    // What was done before the session began is a part of the wait.
    let first = waited.saturating_sub(stats.total) + stats.time_to_first_token;
    let gaps = u32::try_from(stats.tokens.saturating_sub(1))?;
    Ok(Timed { first, last: first + stats.mean_time_between_tokens * gaps, tokens: stats.tokens })
}

/// Reads streams as a client does.
struct Reader {
    client: Client,
    url: String,
}

impl Reader {
    async fn read(&self, number: usize, tokens: usize) -> anyhow::Result<Timed> {
        let body = json!({
            "model": "tandem-small",
            "messages": prompt(number),
            "max_tokens": tokens,
            "temperature": 0,
            "stream": true,
        });
        let started = Instant::now();
        let mut answer = self.client.post(&self.url).json(&body).send().await?;
        ensure!(answer.status().is_success(), "status {}", answer.status());
        let (mut times, mut text) = (vec![], vec![]);
        while let Some(chunk) = answer.chunk().await? {
            if String::from_utf8_lossy(&chunk).contains("\"content\":\"") {
                times.push(started.elapsed());
            }
            text.extend_from_slice(&chunk);
        }
        let text = String::from_utf8(text)?;
        let last = text.split("\n\n").filter(|e| e.contains("\"stats\"")).last();
        let last = last.and_then(|e| e.strip_prefix("data: ")).context("no last chunk")?;
        let last: Value = serde_json::from_str(last)?;
        let tokens = last["tandem"]["stats"]["tokens"].as_u64().context("no count")?;
        let tokens = usize::try_from(tokens)?;
        let (first, last) = times.first().zip(times.last()).context("no token came")?;
        Ok(Timed { first: *first, last: *last, tokens })
    }
}

/// Several chats at once: tokens a second of all, and the slowest's rate over the mean.
async fn crowd(
    reader: &Arc<Reader>,
    chats: usize,
    number: usize,
    tokens: usize,
) -> anyhow::Result<(f64, f64)> {
    let started = Instant::now();
    let read = |i: usize| {
        let reader = reader.clone();
        tokio::spawn(async move { reader.read(number + i, tokens).await })
    };
    let tasks: Vec<_> = (0..chats).map(read).collect();
    let (mut count, mut rates) = (0, vec![]);
    for task in tasks {
        let timed = task.await??;
        count += timed.tokens;
        rates.push(timed.tokens as f64 / timed.last.as_secs_f64());
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    Ok((count as f64 / started.elapsed().as_secs_f64(), slowest / mean))
}
