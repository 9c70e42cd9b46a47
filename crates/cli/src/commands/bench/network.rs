//! `tandem bench network`: how much of the network's round trips is hidden.
//!
//! Every prompt is answered once by both models, waiting for each answer, and the large one's answers
//! are recorded with the time they took. Then the small model answers again, and the large one is
//! played from the record: each answer comes after the round trip and the time it took then, without
//! using this machine's cores. So what is measured is the loop and the network, and nothing else.
//!
//! Every recorded answer has as many tokens as an ask may bring, and the recording asks wherever the
//! small model doubts: so the record answers the loop that asks for each token and the one that looks
//! ahead, and both are compared with the waits of the former.

use std::{io::Write, sync::Arc, time::Duration};

use anyhow::Context;
use cloud::Clouds;
use decode::{OnCloudError, Sampling, Stats, ThresholdPolicy, Token};
use engine::Sequence;
use serde::Serialize;
use tandem::{Mode, Pair, Prompt, Request, Tandem};

use super::{
    joint::QUESTIONS,
    median,
    record::{Player, Record, Recorder},
    wrapped::{Wrapped, Wrapping, wrap},
};
use crate::{args::BenchNetworkArgs, progress::TerminalProgress, show::print_json};

/// One round trip, with one number of asks on their way.
#[derive(Clone, Debug, Serialize)]
struct Point {
    rtt_ms: f64,
    asks_in_flight: usize,
    wall_ms: f64,
    /// The wall time divided by that without a round trip.
    ratio: f64,
    /// How much of the round trips that the waiting loop waits for is not waited for.
    hidden_share: Option<f64>,
    /// How much of them the answers allow to hide: the share of the waiting loop's asks whose answer was
    /// what the small model had gone on with, or had come with an earlier answer. Behind the others it
    /// begins again, with nothing done meanwhile. `None` where every answer is waited for.
    ceiling: Option<f64>,
    /// `hidden_share` divided by `ceiling`.
    ceiling_reached: Option<f64>,
    asks: usize,
    void_asks: usize,
    /// How many requests these were: fewer than asks, where several places are judged with one.
    requests: usize,
    sent_bytes: usize,
    /// Whether every token is that of the recording, where each answer was waited for.
    identical: bool,
}

/// One prompt, and what was recorded with it.
struct Recorded {
    prompt: Vec<Token>,
    record: Arc<Record>,
    tokens: Vec<Token>,
    /// How often it was waited for an answer of one token, or one word.
    asks: usize,
}

/// All prompts once, at one point.
struct Run {
    wall: Duration,
    stats: Vec<Stats>,
    requests: usize,
    identical: bool,
}

/// Has the large model's answers written down, with this many tokens each where tokens are asked for.
struct Recording(usize);

impl Wrapping for Recording {
    type Edge = Sequence;
    type Cloud = Recorder;

    fn edge(&self, edge: Sequence) -> Sequence {
        edge
    }

    fn cloud(&self, remote: Clouds) -> Recorder {
        Recorder { remote, ask_tokens: self.0, record: Record::default() }
    }

    fn inner(cloud: &mut Recorder) -> Option<&mut Clouds> {
        Some(&mut cloud.remote)
    }
}

/// Has them played behind a network.
struct Playing {
    texts: Arc<[Recorded]>,
    rtt: Duration,
    asks_in_flight: usize,
}

impl Wrapping for Playing {
    type Edge = Sequence;
    type Cloud = Player;

    fn edge(&self, edge: Sequence) -> Sequence {
        edge
    }

    fn cloud(&self, _: Clouds) -> Player {
        Player::new(&Arc::default(), self.rtt)
    }

    fn inner(_: &mut Player) -> Option<&mut Clouds> {
        None
    }

    fn begin(&self, player: &mut Player, prompt: &[Token]) {
        if let Some(text) = self.texts.iter().find(|text| text.prompt == prompt) {
            *player = Player::new(&text.record, self.rtt);
        }
    }

    fn asks_in_flight(&self) -> Option<usize> {
        Some(self.asks_in_flight)
    }
}

struct Bench {
    tandem: Tandem,
    sampling: Sampling,
}

impl Bench {
    fn request(&self, request: Request, on_error: OnCloudError) -> Request {
        let (sampling, on_error) = (Some(self.sampling), Some(on_error));
        Request { sampling, on_error, ..request.mode(Mode::Joint) }
    }

    /// Every run begins with the same budget: none of it is spent.
    fn fresh_policy(&self) -> ThresholdPolicy {
        let policy = self.tandem.routers().policy();
        policy.current_budget().map_or_else(|| policy.clone(), ThresholdPolicy::budget)
    }

    async fn record(
        &self,
        tandem: &Tandem<Wrapped<Recording>>,
        question: &str,
    ) -> anyhow::Result<Recorded> {
        // The edge reads every prompt from its beginning, as it does when the answers are played.
        tandem.forget().await;
        let request = self.request(Request::user(question), OnCloudError::Fail);
        let mut generation = tandem.generate(request).await?;
        while generation.next().await?.is_some() {}
        let prompt = generation.request().tokens.clone();
        let (lease, transcript) = generation.into_parts();
        let mut lease = lease.context("a text that has lost its seat")?;
        let record = Arc::new(std::mem::take(&mut lease.cloud().await?.record));
        let (tokens, asks) = (transcript.tokens().to_vec(), transcript.stats().asks);
        Ok(Recorded { prompt, record, tokens, asks })
    }

    async fn replay(
        &self,
        texts: &Arc<[Recorded]>,
        (rtt, asks_in_flight): (Duration, usize),
    ) -> anyhow::Result<Run> {
        let mut run = Run { wall: Duration::ZERO, stats: vec![], requests: 0, identical: true };
        let playing = Playing { texts: texts.clone(), rtt, asks_in_flight };
        let tandem = wrap(&self.tandem, playing, self.fresh_policy());
        for text in texts.iter() {
            tandem.forget().await;
            let prompt = Request::new(Prompt::Tokens(text.prompt.clone()));
            // A text that goes another way has no answers in the record: it is told as such.
            let mut generation = tandem.generate(self.request(prompt, OnCloudError::Keep)).await?;
            while generation.next().await?.is_some() {}
            let (lease, transcript) = generation.into_parts();
            let mut lease = lease.context("a text that has lost its seat")?;
            run.requests += lease.cloud().await?.requests();
            let stats = transcript.stats();
            run.wall += stats.total;
            run.identical &= transcript.tokens() == text.tokens;
            run.stats.push(stats);
        }
        Ok(run)
    }
}

pub async fn network(args: BenchNetworkArgs) -> anyhow::Result<()> {
    let location = &args.generate.pair.cloud.location;
    location.require_cloud("its answers are recorded")?;
    let in_flight = location.asks_in_flight;
    let tandem = args.generate.builder()?.build()?;
    tandem.pair().load_edge().await?;
    let bench = Bench { sampling: tandem.usual_sampling(), tandem };
    let questions = questions(&args)?;
    let progress = TerminalProgress::default();
    lab::Progress::begin(&progress, "recording", questions.len());
    // What is drawn, the cloud is asked for one by one.
    let ask_tokens = if bench.sampling.is_greedy() { location.ask_tokens } else { 1 };
    let recording = wrap(&bench.tandem, Recording(ask_tokens), bench.fresh_policy());
    let mut texts = vec![];
    for question in &questions {
        texts.push(bench.record(&recording, question).await?);
        lab::Progress::step(&progress);
    }
    recording.close().await;
    // Its sequence of the small model is what the replays write with.
    drop(recording);
    let texts: Arc<[Recorded]> = texts.into();
    let mut wanted: Vec<(Duration, usize)> = vec![];
    for rtt in [Duration::ZERO].into_iter().chain(args.rtt.iter().copied()) {
        for asks in [0, in_flight] {
            if !wanted.contains(&(rtt, asks)) {
                wanted.push((rtt, asks));
            }
        }
    }
    // The points take turns, so that a slow moment of the machine is shared.
    let mut runs: Vec<Vec<Run>> = wanted.iter().map(|_| vec![]).collect();
    lab::Progress::begin(&progress, "replaying", wanted.len() * args.runs);
    for _ in 0..args.runs {
        for (point, runs) in wanted.iter().zip(&mut runs) {
            runs.push(bench.replay(&texts, *point).await?);
            lab::Progress::step(&progress);
        }
    }
    let waited = texts.iter().map(|text| text.asks).sum();
    let points = points(&wanted, &runs, waited);
    print(&points, &runs, &bench.tandem, (questions.len(), args.json))
}

fn questions(args: &BenchNetworkArgs) -> anyhow::Result<Vec<String>> {
    let mut questions: Vec<String> = match args.task {
        Some(task) => {
            let examples = lab::eval::read(task, &args.data)?;
            examples.iter().map(|example| example.prompt()).collect()
        }
        None => QUESTIONS.iter().map(ToString::to_string).collect(),
    };
    questions.truncate(args.limit.unwrap_or(usize::MAX));
    Ok(questions)
}

/// What was measured, where the loop that waits for every token has waited so many times.
fn points(wanted: &[(Duration, usize)], runs: &[Vec<Run>], waited: usize) -> Vec<Point> {
    let wall = |runs: &[Run]| median(runs.iter().map(|run| run.wall.as_secs_f64() * 1000.0));
    let sum = |runs: &[Run], f: fn(&Stats) -> usize| -> usize {
        runs.first().map_or(0, |run| run.stats.iter().map(f).sum())
    };
    let at = |rtt: Duration, asks: usize| {
        let place = wanted.iter().position(|point| *point == (rtt, asks));
        place.and_then(|i| runs.get(i)).map_or(0.0, |runs| wall(runs))
    };
    let point = |(&(rtt, asks_in_flight), runs): (&(Duration, usize), &Vec<Run>)| {
        let (wall_ms, base) = (wall(runs), at(Duration::ZERO, asks_in_flight));
        let rtt_ms = rtt.as_secs_f64() * 1000.0;
        let trips = waited as f64 * rtt_ms;
        let hidden_share = (trips > 0.0).then(|| 1.0 - (wall_ms - base) / trips);
        let ceiling = ceiling(runs);
        Point {
            rtt_ms,
            asks_in_flight,
            wall_ms,
            ratio: wall_ms / base.max(f64::EPSILON),
            hidden_share,
            ceiling,
            ceiling_reached: hidden_share
                .zip(ceiling)
                .filter(|(_, ceiling)| *ceiling > 0.0)
                .map(|(hidden, ceiling)| hidden / ceiling),
            asks: sum(runs, |s| s.asks),
            void_asks: sum(runs, |s| s.void_asks),
            requests: runs.first().map_or(0, |run| run.requests),
            sent_bytes: sum(runs, |s| s.sent_bytes),
            identical: runs.iter().all(|run| run.identical),
        }
    };
    wanted.iter().zip(runs).map(point).collect()
}

/// The share of asks whose round trip could be hidden, over all runs of a point: what was on its way
/// when an answer came differs a little from run to run.
fn ceiling(runs: &[Run]) -> Option<f64> {
    let (mut asks, mut hits, mut misses) = (0, 0, 0);
    for stats in runs.iter().flat_map(|run| &run.stats) {
        asks += stats.asks + stats.foreseen_asks;
        hits += stats.confirmed_asks + stats.judged_asks + stats.branch_asks + stats.foreseen_asks;
        misses += stats.contradicted_asks;
    }
    (hits + misses > 0).then(|| hits as f64 / asks.max(1) as f64)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", share * 100.0))
}

fn print(
    points: &[Point],
    runs: &[Vec<Run>],
    tandem: &Tandem,
    (prompts, json): (usize, bool),
) -> anyhow::Result<()> {
    // How often the answer was what the small model had gone on with.
    let (mut confirmed, mut branch, mut contradicted, mut tokens, mut cloud) = (0, 0, 0, 0, 0);
    for stats in runs.iter().flatten().flat_map(|run| &run.stats) {
        confirmed += stats.confirmed_asks + stats.judged_asks;
        branch += stats.branch_asks;
        contradicted += stats.contradicted_asks;
        tokens += stats.tokens;
        cloud += stats.cloud_tokens;
    }
    let hidden = (confirmed + branch + contradicted).max(1) as f64;
    let (expected, branch) = (confirmed as f64 / hidden, branch as f64 / hidden);
    let share = cloud as f64 / tokens.max(1) as f64;
    if json {
        return print_json(&serde_json::json!({
            "points": points,
            "prompts": prompts,
            "routed_share": share,
            "expected_share": expected,
            "branch_share": branch,
        }));
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{prompts} prompts, router {}, {:.1} % from the cloud; {:.0} % of answers were the choice \
         behind which the small model had read on, {:.0} % another choice behind which it had read on too",
        tandem.routers().own(),
        share * 100.0,
        expected * 100.0,
        branch * 100.0,
    )?;
    for p in points {
        writeln!(
            out,
            "  {:3.0} ms, {} in flight: {:8.0} ms, {:.2} times that of 0 ms, hidden {:>5} of at most \
             {:>5} (reached {:>5}); {} asks, {} void, {} requests, {} bytes{}",
            p.rtt_ms,
            p.asks_in_flight,
            p.wall_ms,
            p.ratio,
            percent(p.hidden_share),
            percent(p.ceiling),
            percent(p.ceiling_reached),
            p.asks,
            p.void_asks,
            p.requests,
            p.sent_bytes,
            if p.identical { "" } else { "; OTHER TOKENS than the loop that waits" },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn run(wall: u64, stats: Stats) -> Run {
        Run { wall: ms(wall), stats: vec![stats], requests: 8, identical: true }
    }

    #[test]
    fn hidden_and_the_most_that_could_be_are_shares_of_the_waiting_loops_asks() {
        let waits = || Stats { asks: 8, foreseen_asks: 2, ..Stats::default() };
        // Ten places are doubtful. Two of them were answered with an earlier answer, of the others three
        // were gone on with and one was hit by a branch; one answer came before there was anything to
        // go on with.
        let goes_on = || Stats {
            asks: 8,
            foreseen_asks: 2,
            confirmed_asks: 3,
            branch_asks: 1,
            contradicted_asks: 3,
            ..Stats::default()
        };
        let wanted = [(ms(0), 0), (ms(0), 3), (ms(100), 0), (ms(100), 3)];
        let runs = [
            vec![run(1000, waits())],
            vec![run(1000, goes_on())],
            vec![run(1800, waits())],
            vec![run(1550, goes_on())],
        ];
        let points = points(&wanted, &runs, 10);
        // Without a round trip there is nothing to hide.
        assert_eq!((points[1].hidden_share, points[1].ceiling_reached), (None, None));
        // Who waits for every answer, and for two fewer of them than the plain loop, has hidden these two.
        let near = |share: Option<f64>, expected: f64| (share.unwrap() - expected).abs() < 1e-9;
        assert!(near(points[2].hidden_share, 0.2), "{:?}", points[2]);
        assert!(near(points[2].ceiling_reached, 1.0), "{:?}", points[2]);
        assert!(near(points[3].hidden_share, 0.45), "{:?}", points[3]);
        assert!(near(points[3].ceiling, 0.6), "{:?}", points[3]);
        assert!(near(points[3].ceiling_reached, 0.75), "{:?}", points[3]);
    }
}
