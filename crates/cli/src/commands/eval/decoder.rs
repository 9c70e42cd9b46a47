//! One worker's models, as a sweep sees them.

use std::time::{Duration, Instant};

use anyhow::Context;
use cloud::{Delay, protocol::Piece};
use decode::{Ask, Cloud, Edge, Exchange, Message, Router, Sampling, Transcript, Want};
use lab::eval::{
    Decoder, Mode,
    costs::{Footprint, Sizes},
};

use crate::{
    args::EvalArgs,
    crew::{Way, Worker, Workers},
};

/// A worker, and what it needs to know of the run.
pub struct Bench {
    worker: Worker,
    delays: Vec<Delay>,
    system: String,
    max_tokens: usize,
    sizes: Sizes,
    decoding: Duration,
}

impl Bench {
    pub async fn new(crew: &Workers, args: &EvalArgs, delays: &[Delay]) -> anyhow::Result<Self> {
        let mut worker = crew.worker().await?;
        // Loads the cloud: what it weighs is known behind that.
        worker.introduce(&[Message::system(&args.system), Message::user("?")], true)?;
        worker.remote.open().await?;
        let about = worker.remote.meet().await?.about;
        let footprint = |(weights, cache_per_token)| Footprint { weights, cache_per_token };
        let edge = footprint(crew.edge().footprint());
        Ok(Self {
            worker,
            delays: delays.to_vec(),
            system: args.system.clone(),
            max_tokens: args.max_tokens,
            sizes: Sizes { edge, cloud: about.footprint.map(footprint) },
            decoding: Duration::ZERO,
        })
    }

    /// How long the models were at work on answers.
    pub fn decoding(&self) -> Duration {
        self.decoding
    }

    pub async fn close(&mut self) {
        self.worker.remote.close().await;
    }

    fn messages(&self, prompt: &str) -> [Message; 2] {
        [Message::system(&self.system), Message::user(prompt)]
    }

    async fn trust(&mut self, prompt: &str, routers: &[&dyn Router]) -> anyhow::Result<Vec<f64>> {
        let tokens = self.worker.edge.model().vocabulary().prompt(&self.messages(prompt))?;
        anyhow::ensure!(
            tokens.len() < self.worker.edge.context(),
            "a prompt has {} tokens and the context holds {}: raise --context",
            tokens.len(),
            self.worker.edge.context()
        );
        let steps = self.worker.edge.steps(&tokens).await?;
        let mean = |router: &&dyn Router| {
            let sum: f64 = steps.iter().map(|step| f64::from(router.score(step).value())).sum();
            sum / steps.len().max(1) as f64
        };
        Ok(routers.iter().map(mean).collect())
    }
}

impl Decoder for Bench {
    type Error = anyhow::Error;

    /// Both models begin every question afresh and read its prompt alone, so that a run that goes on
    /// in the middle of it computes the same numbers.
    async fn begin(&mut self, prompt: &str, routers: &[&dyn Router]) -> anyhow::Result<Vec<f64>> {
        let started = Instant::now();
        self.worker.edge.truncate(0);
        self.worker.remote.close().await;
        let trust = self.trust(prompt, routers).await?;
        self.worker.remote.simulate_network(None);
        self.worker.introduce(&self.messages(prompt), true)?;
        self.worker.remote.open().await?;
        let sampling = Sampling::default();
        let first = Ask { tokens: &[], text: "", want: Want::Tokens(1), sampling: &sampling };
        self.worker.remote.next(first).await.context("the cloud cannot read a prompt")?;
        self.decoding += started.elapsed();
        Ok(trust)
    }

    async fn decode(
        &mut self,
        prompt: &str,
        way: lab::eval::Way<'_>,
    ) -> anyhow::Result<Transcript> {
        let started = Instant::now();
        let delay = way.rtt_ms.and_then(|ms| {
            self.delays.iter().find(|d| (d.rtt().as_secs_f64() * 1000.0 - ms).abs() < 1e-6)
        });
        self.worker.remote.simulate_network(delay.copied());
        let ours = match way.mode {
            Mode::Small => Way::Small(way.router),
            Mode::Joint => Way::Joint(way.router, way.policy),
            Mode::Large => Way::Large,
        };
        let messages = self.messages(prompt);
        let transcript = self.worker.decode(&messages, vec![], ours, self.max_tokens).await?;
        self.decoding += started.elapsed();
        Ok(transcript)
    }

    async fn likelihood(&mut self, prompt: &str, answer: &str) -> anyhow::Result<Option<f64>> {
        let characters = answer.chars().count();
        if characters == 0 {
            return Ok(None);
        }
        let started = Instant::now();
        self.worker.introduce(&self.messages(prompt), false)?;
        let continuation = match self.worker.remote.open().await?.exchange {
            Exchange::Text => Piece::Text(answer.to_owned()),
            Exchange::Ids => Piece::Ids(self.worker.edge.vocabulary().encode(answer)),
        };
        let sampling = Sampling::default();
        let nothing = Ask { tokens: &[], text: "", want: Want::Tokens(1), sampling: &sampling };
        let judged = self.worker.remote.score(nothing, continuation).await?;
        let sum: Option<f64> = judged.iter().map(|j| j.given.logprob.map(f64::from)).sum();
        self.decoding += started.elapsed();
        Ok(sum.map(|sum| sum / characters as f64))
    }

    fn count(&self, prompt: &str) -> anyhow::Result<usize> {
        Ok(self.worker.edge.model().vocabulary().prompt(&self.messages(prompt))?.len())
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }
}
