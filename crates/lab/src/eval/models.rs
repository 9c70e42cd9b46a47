//! A pair of models, as a sweep sees it.

use std::time::{Duration, Instant};

use decode::{Cloud, Edge, Exchange, Message, OnCloudError, Router, Transcript};
use tandem::{Mode, Pair, Prompt, Tandem};

use super::{
    DecodeOptions, Decoder, Judges,
    costs::{Costs, Footprint, Sizes, costs},
};
use crate::{
    Error,
    energy::EnergyMeter,
    worker::{Decoding, Worker},
};

/// How a question is put to both models.
pub(crate) fn messages(system: &str, prompt: &str) -> [Message; 2] {
    [Message::system(system), Message::user(prompt)]
}

pub(super) struct PairDecoder {
    tandem: Tandem,
    pub(super) worker: Worker,
    system: String,
    max_tokens: usize,
    sizes: Sizes,
    /// How long the models were at work on answers.
    pub(super) decoding: Duration,
    /// Only where one answer is made at a time.
    meter: Option<EnergyMeter>,
    /// Of the last answer.
    joules: Option<f64>,
}

impl PairDecoder {
    pub(super) async fn new(
        tandem: &Tandem,
        system: &str,
        max_tokens: usize,
        meter: Option<EnergyMeter>,
    ) -> Result<Self, Error> {
        let mut worker = Worker::new(tandem).await?;
        // Loads the cloud: its size is known after that.
        let messages = [Message::system(system), Message::user("?")];
        let cloud = worker.introduce(&messages, true).await?;
        // Every answer has a network of its own.
        cloud.simulate_network(None);
        cloud.open().await?;
        let about = cloud.identify().await?.about;
        let footprint = |(weights, cache_per_token)| Footprint { weights, cache_per_token };
        let edge = footprint(tandem.pair().edge().await?.footprint());
        Ok(Self {
            tandem: tandem.clone(),
            worker,
            system: system.to_owned(),
            max_tokens,
            sizes: Sizes { edge, cloud: about.footprint.map(footprint) },
            decoding: Duration::ZERO,
            meter,
            joules: None,
        })
    }

    /// Refuses a cloud that does not say how likely it finds every proposal of the edge.
    pub(super) async fn check_oracle(&mut self) -> Result<(), Error> {
        let messages = self.messages("?");
        let exchange = self.worker.introduce(&messages, false).await?.open().await?.exchange;
        let needs = "--oracle needs a cloud that says how likely it finds a given text, such as tandem \
                     cloud or a large model in this process, with the small model's vocabulary";
        if exchange == Exchange::Text {
            return Err(Error::usage(format!("{needs}: this pair exchanges text")));
        }
        let judged = self.worker.score(exchange, "Yes").await;
        let judged = judged.map_err(|error| Error::usage(format!("{needs}: {error}")))?;
        if judged.iter().any(|j| j.given.logprob.is_none() || j.greedy.logprob.is_none()) {
            return Err(Error::usage(format!("{needs}: this one tells no likelihoods")));
        }
        Ok(())
    }

    fn messages(&self, prompt: &str) -> [Message; 2] {
        messages(&self.system, prompt)
    }

    /// What routers think of a prompt, which the edge has read and holds afterwards.
    async fn trust(&mut self, prompt: &str, judges: &Judges<'_>) -> Result<Vec<f64>, Error> {
        let messages = self.messages(prompt);
        let edge = self.worker.edge().await?;
        let tokens = edge.model().vocabulary().prompt(&messages)?;
        if tokens.len() >= edge.context() {
            let (tokens, context) = (tokens.len(), edge.context());
            return Err(Error::PromptTooLong { tokens, context });
        }
        edge.truncate(0);
        let steps = edge.steps(&tokens).await?;
        let mean = |router: &&dyn Router| {
            let sum: f64 = steps.iter().map(|step| f64::from(router.score(step).value())).sum();
            sum / steps.len().max(1) as f64
        };
        let last = steps.last().ok_or_else(|| Error::internal("a prompt has no tokens"))?;
        let at_end = |router: &&dyn Router| f64::from(router.score(last).value());
        Ok(judges.of_tokens.iter().map(mean).chain(judges.of_answers.iter().map(at_end)).collect())
    }
}

impl Decoder for PairDecoder {
    type Error = Error;

    async fn begin(&mut self, prompt: &str, judges: Judges<'_>) -> Result<Vec<f64>, Error> {
        let started = Instant::now();
        let trust = self.trust(prompt, &judges).await?;
        self.decoding += started.elapsed();
        Ok(trust)
    }

    /// Both models begin with nothing read, whatever was answered before. So the times are a user's, and
    /// a run that resumes in the middle computes the same numbers.
    async fn decode(&mut self, prompt: &str, options: DecodeOptions) -> Result<Transcript, Error> {
        self.worker.edge().await?.truncate(0);
        self.worker.cloud().await?.simulate_network(None);
        self.worker.close().await?;
        let used = self.meter.as_ref().and_then(|meter| Some((meter, meter.read()?)));
        let started = Instant::now();
        let DecodeOptions { mode, router, policy, oracle, network } = options;
        // A network that goes dead is borne as users bear it; any other failure of the cloud would make
        // figures of a cloud that was not there.
        let dead = network.as_ref().is_some_and(|network| network.goes_dead());
        self.worker.on_cloud_error(match mode {
            _ if !dead => OnCloudError::Fail,
            Mode::Joint => OnCloudError::Keep,
            Mode::Small | Mode::Large | Mode::Verify => OnCloudError::Wait,
        });
        self.worker.cloud().await?.simulate_network(network);
        let (messages, max_tokens) = (self.messages(prompt), self.max_tokens);
        let decoding = Decoding { mode, router, policy, max_tokens };
        let transcript = match oracle {
            Some(ratio) => self.worker.oracle(&messages, ratio, decoding).await?,
            None => self.worker.decode(&messages, vec![], decoding).await?,
        };
        self.joules = used.and_then(|(meter, before)| meter.since(&before));
        self.decoding += started.elapsed();
        Ok(transcript)
    }

    async fn likelihood(&mut self, prompt: &str, answer: &str) -> Result<Option<f64>, Error> {
        let characters = answer.chars().count();
        if characters == 0 {
            return Ok(None);
        }
        let started = Instant::now();
        self.worker.cloud().await?.simulate_network(None);
        let messages = self.messages(prompt);
        let exchange = self.worker.introduce(&messages, false).await?.open().await?.exchange;
        let judged = self.worker.score(exchange, answer).await?;
        let sum: Option<f64> = judged.iter().map(|j| j.given.logprob.map(f64::from)).sum();
        self.decoding += started.elapsed();
        Ok(sum.map(|sum| sum / characters as f64))
    }

    fn costs(&self, prompt: &str, transcript: &Transcript) -> Result<Costs, Error> {
        let prompt = Prompt::Messages(self.messages(prompt).to_vec());
        Ok(costs(transcript, self.tandem.pair().tokens(&prompt)?.len(), &self.sizes))
    }

    fn joules(&self) -> Option<f64> {
        self.joules
    }
}
