//! `tandem bench network`: how much of the network's round trips is hidden.
//!
//! Every prompt is answered once by both models, waiting for each answer, and the large one's answers
//! are recorded with the time they took. Then the small model answers again, and the large one is
//! played from the record: each answer comes after the round trip and the time it took then, without
//! using this machine's cores. So what is measured is the loop and the network, and nothing else.

use std::{
    collections::HashMap,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use cloud::{
    Clouds,
    protocol::{Amount, NextRequest, Piece, id_bytes, prefix_hash},
};
use decode::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Edge, Exchange, Handshake, Limits, Message,
    OnCloudError, PendingAnswer, Router, Routing, Sampling, Sent, Session, SessionInput, Stats,
    ThresholdPolicy, Token, common_prefix,
};
use engine::Sequence;
use serde::Serialize;
use tandem::{Introduction, Pair, Prompt, Tandem};

use super::{joint::QUESTIONS, median};
use crate::{args::BenchNetworkArgs, progress::TerminalProgress, show::print_json};

/// What stands before an answer, whatever is exchanged.
type Context = (Vec<Token>, String);

/// The large model's answers, and how long each took.
struct Record {
    exchange: Exchange,
    answers: HashMap<Context, (Answer, Duration)>,
}

/// A cloud that is waited for, and whose answers are written down.
struct Recorder<'a> {
    remote: &'a mut Clouds,
    record: Record,
}

impl Cloud for Recorder<'_> {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        let opened = self.remote.open().await?;
        self.record.exchange = opened.exchange;
        Ok(opened)
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        let started = Instant::now();
        let answer = self.remote.next(ask).await?;
        let place = (ask.tokens.to_vec(), ask.text.to_owned());
        self.record.answers.insert(place, (answer.clone(), started.elapsed()));
        Ok(answer)
    }
}

/// A cloud that is played from a record, behind a network.
struct Player {
    record: Arc<Record>,
    rtt: Duration,
    /// What was asked last: it is not sent again.
    held: Context,
    sequence: u64,
    sent: Sent,
}

impl Player {
    fn new(record: &Arc<Record>, rtt: Duration) -> Self {
        Self {
            record: record.clone(),
            rtt,
            held: Context::default(),
            sequence: 0,
            sent: Sent::default(),
        }
    }

    /// Counts what Tandem's own protocol would send for this ask.
    fn send(&mut self, ask: Ask<'_>) -> Option<()> {
        let (position, hash, append) = match self.record.exchange {
            Exchange::Ids => {
                let (before, new) = ask.tokens.split_at(common_prefix(&self.held.0, ask.tokens));
                (before.len(), prefix_hash(id_bytes(before)), Piece::Ids(new.to_vec()))
            }
            Exchange::Text => {
                let same = self.held.1.chars().zip(ask.text.chars()).take_while(|(a, b)| a == b);
                let (before, new) = ask.text.split_at(same.map(|(c, _)| c.len_utf8()).sum());
                (before.len(), prefix_hash(before), Piece::Text(new.to_owned()))
            }
        };
        let want = match ask.want {
            AnswerLength::Tokens(n) => Amount::Tokens(n),
            AnswerLength::Word => Amount::Word(true),
        };
        self.sequence += 1;
        let (sequence, sampling) = (self.sequence, *ask.sampling);
        let next = NextRequest { sequence, position, hash, append, want, sampling, edge: None };
        self.sent.bytes += serde_json::to_vec(&next).ok()?.len();
        self.held = (ask.tokens.to_vec(), ask.text.to_owned());
        Some(())
    }
}

impl Cloud for Player {
    async fn open(&mut self) -> Result<Handshake, CloudError> {
        Ok(Handshake { exchange: self.record.exchange, times: Default::default() })
    }

    async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
        match self.begin(ask) {
            Some(answer) => answer.await,
            None => Err(CloudError::NotOpened),
        }
    }

    fn begin(&mut self, ask: Ask<'_>) -> Option<PendingAnswer> {
        self.send(ask)?;
        let known = self.record.answers.get(&(ask.tokens.to_vec(), ask.text.to_owned())).cloned();
        let rtt = self.rtt;
        Some(Box::pin(async move {
            // An ask that is not in the record was made behind a guess that will turn out wrong.
            let Some((mut answer, service)) = known else {
                tokio::time::sleep(rtt).await;
                return Err(CloudError::NotOpened);
            };
            tokio::time::sleep(rtt + service).await;
            answer.times.network = rtt;
            Ok(answer)
        }))
    }

    fn take_sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }
}

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
    asks: usize,
    void_asks: usize,
    sent_bytes: usize,
    /// Whether every token is that of the recording, where each answer was waited for.
    identical: bool,
}

/// One prompt, and what was recorded with it.
struct Recorded {
    prompt: Vec<Token>,
    record: Arc<Record>,
    tokens: Vec<Token>,
}

/// All prompts once, at one point.
struct Run {
    wall: Duration,
    stats: Vec<Stats>,
    identical: bool,
}

struct Bench {
    router: Box<dyn Router>,
    policy: ThresholdPolicy,
    sampling: Sampling,
    limits: Limits,
    ask_tokens: usize,
    branches: usize,
}

impl Bench {
    fn input(&self, prompt: Vec<Token>) -> SessionInput {
        let (sampling, limits) = (self.sampling, self.limits.clone());
        SessionInput { prompt, written: vec![], sampling, limits }
    }

    /// Every run begins with the same budget: none of it is spent.
    fn routing<C>(&self, cloud: C, policy: &ThresholdPolicy) -> Routing<&dyn Router, C> {
        let (policy, on_error) = (policy.clone(), OnCloudError::Fail);
        Routing { router: &*self.router, policy, cloud, on_error }
    }

    fn fresh_policy(&self) -> ThresholdPolicy {
        match self.policy.current_budget() {
            Some(budget) => ThresholdPolicy::budget(budget),
            None => self.policy.clone(),
        }
    }

    async fn record(
        &self,
        edge: &mut Sequence,
        remote: &mut Clouds,
        prompt: Vec<Token>,
        policy: &ThresholdPolicy,
    ) -> anyhow::Result<Recorded> {
        edge.truncate(0);
        let record = Record { exchange: Exchange::Ids, answers: HashMap::new() };
        let mut recorder = Recorder { remote, record };
        let routing = self.routing(&mut recorder, policy);
        let session = Session::new(edge, Some(routing), self.input(prompt.clone()))?;
        let mut session = session.with_ask_tokens(self.ask_tokens);
        while session.next().await?.is_some() {}
        let tokens = session.transcript().tokens().to_vec();
        drop(session);
        Ok(Recorded { prompt, record: Arc::new(recorder.record), tokens })
    }

    async fn replay(
        &self,
        mut edge: Sequence,
        texts: &[Recorded],
        (rtt, asks_in_flight): (Duration, usize),
    ) -> anyhow::Result<(Sequence, Run)> {
        let mut run = Run { wall: Duration::ZERO, stats: vec![], identical: true };
        let policy = self.fresh_policy();
        for text in texts {
            edge.keep_common(&[]);
            let routing = self.routing(Player::new(&text.record, rtt), &policy);
            // A text that goes another way has no answers in the record: it is told as such.
            let routing = Routing { on_error: OnCloudError::Keep, ..routing };
            let started = Instant::now();
            let session = Session::new(edge, Some(routing), self.input(text.prompt.clone()))?;
            let session = session.with_asks_in_flight(asks_in_flight).with_branches(self.branches);
            let mut session = session.with_ask_tokens(self.ask_tokens);
            while session.next().await?.is_some() {}
            run.wall += started.elapsed();
            run.identical &= session.transcript().tokens() == text.tokens;
            run.stats.push(session.transcript().stats());
            (edge, ..) = session.into_parts();
        }
        Ok((edge, run))
    }
}

pub async fn network(args: BenchNetworkArgs) -> anyhow::Result<()> {
    let location = &args.generate.pair.cloud.location;
    location.require_cloud("its answers are recorded")?;
    let in_flight = location.asks_in_flight;
    let tandem = args.generate.builder()?.build()?;
    let pair = tandem.pair().clone();
    pair.load_edge().await?;
    let (mut edge, mut remote) = (pair.open_edge().await?, pair.open_cloud().await?);
    let bench = Bench {
        router: tandem.routers().own().build(args.generate.sampling.seed.unwrap_or_default()),
        policy: tandem.routers().policy().clone(),
        sampling: tandem.usual_sampling(),
        limits: tandem.defaults().limits.clone(),
        ask_tokens: location.ask_tokens,
        branches: pair.branches(),
    };
    let questions = questions(&args)?;
    let progress = TerminalProgress::default();
    lab::Progress::begin(&progress, "recording", questions.len());
    let (mut texts, policy) = (vec![], bench.fresh_policy());
    for question in &questions {
        let messages = [Message::system(&args.generate.system), Message::user(question)];
        let (prompt, on_error) = (&Prompt::Messages(messages.to_vec()), OnCloudError::Fail);
        let tokens = pair.tokens(prompt)?;
        let edge_tokens = Some(tokens.as_slice());
        pair.introduce(
            &mut remote,
            Introduction { prompt, edge: edge_tokens, on_error, grammar: None },
        )?;
        texts.push(bench.record(&mut edge, &mut remote, tokens, &policy).await?);
        lab::Progress::step(&progress);
    }
    remote.close().await;
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
            let (used, run) = bench.replay(edge, &texts, *point).await?;
            edge = used;
            runs.push(run);
            lab::Progress::step(&progress);
        }
    }
    let points = points(&wanted, &runs);
    print(&points, &runs, &tandem, (questions.len(), args.json))
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

fn points(wanted: &[(Duration, usize)], runs: &[Vec<Run>]) -> Vec<Point> {
    let wall = |runs: &[Run]| median(runs.iter().map(|run| run.wall.as_secs_f64() * 1000.0));
    let sum = |runs: &[Run], f: fn(&Stats) -> usize| -> usize {
        runs.first().map_or(0, |run| run.stats.iter().map(f).sum())
    };
    let at = |rtt: Duration, asks: usize| {
        let place = wanted.iter().position(|point| *point == (rtt, asks));
        place.and_then(|i| runs.get(i)).map_or(0.0, |runs| wall(runs))
    };
    let waited = runs.first().map_or(0, |runs| sum(runs, |s| s.asks));
    let point = |(&(rtt, asks_in_flight), runs): (&(Duration, usize), &Vec<Run>)| {
        let (wall_ms, base) = (wall(runs), at(Duration::ZERO, asks_in_flight));
        let rtt_ms = rtt.as_secs_f64() * 1000.0;
        let trips = waited as f64 * rtt_ms;
        Point {
            rtt_ms,
            asks_in_flight,
            wall_ms,
            ratio: wall_ms / base.max(f64::EPSILON),
            hidden_share: (trips > 0.0).then(|| 1.0 - (wall_ms - base) / trips),
            asks: sum(runs, |s| s.asks),
            void_asks: sum(runs, |s| s.void_asks),
            sent_bytes: sum(runs, |s| s.sent_bytes),
            identical: runs.iter().all(|run| run.identical),
        }
    };
    wanted.iter().zip(runs).map(point).collect()
}

fn print(
    points: &[Point],
    runs: &[Vec<Run>],
    tandem: &Tandem,
    (prompts, json): (usize, bool),
) -> anyhow::Result<()> {
    // How often the small model had read on behind what the answer was: no more can be hidden wholly.
    let (mut confirmed, mut branch, mut contradicted, mut tokens, mut cloud) = (0, 0, 0, 0, 0);
    for stats in runs.iter().flatten().flat_map(|run| &run.stats) {
        confirmed += stats.confirmed_asks;
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
            "  {:3.0} ms, {} in flight: {:8.0} ms, {:.2} times that of 0 ms, hidden {:>5}; {} asks, {} \
             void, {} bytes{}",
            p.rtt_ms,
            p.asks_in_flight,
            p.wall_ms,
            p.ratio,
            p.hidden_share.map_or("–".into(), |share| format!("{:.0} %", share * 100.0)),
            p.asks,
            p.void_asks,
            p.sent_bytes,
            if p.identical { "" } else { "; OTHER TOKENS than the loop that waits" },
        )?;
    }
    Ok(())
}
