//! A sweep: every question answered at every point.
//!
//! The points of one question run one after the other on one worker, each with nothing read of the
//! prompt, as for a user. Every answer is on disk before the next is begun.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use cloud::Delay;
use decode::{BudgetState, Router, Threshold, ThresholdPolicy, Transcript};
use tandem::{Mode, NamedRouter};

use crate::eval::{
    Example,
    costs::Costs,
    results::{Outcome, Point, Question, Results, ResultsError, Spent, TokenRecord},
};

/// One worker's two models: the seam to whatever runs them.
pub trait Decoder: Send {
    type Error: From<ResultsError> + Send;

    /// Comes before the points of a question: gives the trust of each of the judges in the edge, in
    /// their order.
    fn begin(
        &mut self,
        prompt: &str,
        judges: Judges<'_>,
    ) -> impl Future<Output = Result<Vec<f64>, Self::Error>> + Send;

    /// Answers, with nothing read of the prompt.
    fn decode(
        &mut self,
        prompt: &str,
        options: DecodeOptions,
    ) -> impl Future<Output = Result<Transcript, Self::Error>> + Send;

    /// Log-likelihood a character of an answer under the large model; `None` of no text.
    fn likelihood(
        &mut self,
        prompt: &str,
        answer: &str,
    ) -> impl Future<Output = Result<Option<f64>, Self::Error>> + Send;

    fn costs(&self, prompt: &str, transcript: &Transcript) -> Result<Costs, Self::Error>;

    /// What the last answer used of energy, where that is counted.
    fn joules(&self) -> Option<f64> {
        None
    }
}

/// Who judges the edge by a prompt alone.
pub struct Judges<'a> {
    /// Routers of tokens: their mean trust over the prompt.
    pub of_tokens: Vec<&'a dyn Router>,
    /// Routers of whole answers: their trust behind the prompt.
    pub of_answers: Vec<&'a dyn Router>,
}

pub struct DecodeOptions {
    pub mode: Mode,
    /// Who judges the edge. In mode small it decides nothing, and its scores are kept.
    pub router: Arc<dyn Router>,
    pub policy: ThresholdPolicy,
    /// In mode verify: how likely a token of a draft has to be to stand; `None` where it has to be the
    /// large model's own choice.
    pub oracle: Option<f32>,
    /// The network to simulate, as it is when this answer begins.
    pub network: Option<Delay>,
}

/// A point, and what it takes to run it.
pub struct Run {
    pub point: Point,
    pub router: NamedRouter,
    /// How strictly; shared by all answers of the point.
    pub policy: ThresholdPolicy,
    /// The network to simulate.
    pub network: Option<Delay>,
}

pub struct Sweep {
    examples: Vec<Example>,
    runs: Vec<Run>,
    /// Routers of whole answers, by the names under which results have what they think.
    of_answers: BTreeMap<String, NamedRouter>,
    results: Results,
    seed: u64,
}

impl Sweep {
    /// Budgets resume where the results left them.
    pub fn new(examples: Vec<Example>, runs: Vec<Run>, results: Results, seed: u64) -> Self {
        for run in &runs {
            let last = results.look(|record| {
                let mut of = record.outcomes.iter().rev().filter(|o| o.point == run.point.name);
                of.next().and_then(|outcome| outcome.spent)
            });
            if let Some(Spent { aim, tokens, routed, pace, .. }) = last {
                run.policy.resume(BudgetState { aim, tokens, routed, pace });
            }
        }
        Self { examples, runs, of_answers: BTreeMap::new(), results, seed }
    }

    /// Has routers of whole answers judge every question too.
    pub fn with_query_routers(self, routers: &[NamedRouter]) -> Self {
        // Another router of the same name has not judged what this one has.
        let named = |router: &NamedRouter| {
            let digest = router.digest().map(|digest| digest.get(..8).unwrap_or(digest));
            let name = digest.map_or(router.to_string(), |digest| format!("{router} {digest}"));
            (name, router.clone())
        };
        Self { of_answers: routers.iter().map(named).collect(), ..self }
    }

    pub fn questions(&self) -> usize {
        self.examples.len()
    }

    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Answers a question at every point that has no answer yet.
    pub async fn answer<D: Decoder>(
        &self,
        decoder: &mut D,
        number: usize,
    ) -> Result<Vec<Outcome>, D::Error> {
        let Some(example) = self.examples.get(number) else { return Ok(vec![]) };
        let done = self.results.points_of(&example.id);
        let left: Vec<&Run> =
            self.runs.iter().filter(|run| !done.contains(&run.point.name)).collect();
        let judged = self.results.judges_of(&example.id);
        if left.is_empty() && self.of_answers.keys().all(|name| judged.contains(name)) {
            return Ok(vec![]);
        }
        let prompt = example.prompt();
        let seed = question_seed(self.seed, &example.id);
        let judges = self.judges(seed);
        let built: Vec<_> = self.of_answers.values().map(|router| router.build(seed)).collect();
        let all = Judges {
            of_tokens: judges.values().map(|router| &**router).collect(),
            of_answers: built.iter().map(|router| &**router).collect(),
        };
        let trust = decoder.begin(&prompt, all).await?;
        let names = judges.keys().copied().chain(self.of_answers.keys().map(String::as_str));
        let trust = names.map(String::from).zip(trust).collect();
        let (id, right) = (example.id.clone(), example.right());
        self.results.add_question(Question { id, prompt: prompt.clone(), right, trust })?;
        let mut outcomes = vec![];
        for run in left {
            let router = Arc::from(run.router.build(seed));
            let policy = self.policy(run, &example.id);
            let (mode, oracle, network) = (run.point.mode, run.point.oracle, self.network(run));
            let options = DecodeOptions { mode, router, policy: policy.clone(), oracle, network };
            let transcript = decoder.decode(&prompt, options).await?;
            let mut outcome = self.outcome(example, run, &transcript, &policy);
            let joules = decoder.joules();
            outcome.costs = Costs { joules, ..decoder.costs(&prompt, &transcript)? };
            if mode == Mode::Verify {
                // A trace does not tell the passes over what was drafted and thrown away.
                outcome.costs.cloud_bytes = None;
            }
            if outcome.right.is_none() {
                outcome.likelihood = decoder.likelihood(&prompt, &transcript.text()).await?;
            }
            self.results.add_outcome(outcome.clone())?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The routers of tokens that judge, once each.
    fn judges(&self, seed: u64) -> BTreeMap<&str, Box<dyn Router>> {
        let joint = self.runs.iter().filter(|run| run.point.mode == Mode::Joint);
        let named = joint.filter_map(|run| Some((run.point.router.as_deref()?, run)));
        named.map(|(name, run)| (name, run.router.build(seed))).collect()
    }

    /// The network as the answers of this point have left it: it goes on from one to the next, and a run
    /// that resumes finds it where it was.
    fn network(&self, run: &Run) -> Option<Delay> {
        let (ms, requests) = self.results.look(|record| {
            let before = record.outcomes.iter().filter(|o| o.point == run.point.name);
            before.fold((0.0, 0), |(ms, requests), outcome| {
                (ms + outcome.costs.total_ms, requests + outcome.costs.asks)
            })
        });
        let time = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
        run.network.clone().map(|network| network.after(time, requests))
    }

    /// The point's own policy; or, for the random router beside a threshold, the share of tokens
    /// that brings it to where the other point stands.
    fn policy(&self, run: &Run, id: &str) -> ThresholdPolicy {
        let Some(like) = &run.point.like else { return run.policy.clone() };
        let share = self.results.look(|record| {
            let mut theirs = (0, 0);
            let mut ours = (0, 0);
            let mut now = 0;
            for outcome in &record.outcomes {
                let (tokens, routed) = (outcome.costs.tokens, outcome.costs.cloud_tokens);
                if &outcome.point == like {
                    theirs = (theirs.0 + tokens, theirs.1 + routed);
                    now = if outcome.id == id { tokens } else { now };
                } else if outcome.point == run.point.name {
                    ours = (ours.0 + tokens, ours.1 + routed);
                }
            }
            let wanted = theirs.1 as f64 / theirs.0.max(1) as f64;
            let missing = wanted * (ours.0 + now) as f64 - ours.1 as f64;
            missing / now.max(1) as f64
        });
        Threshold::new(share.clamp(0.0, 1.0) as f32).unwrap_or(Threshold::NEVER).into()
    }

    fn outcome(
        &self,
        example: &Example,
        run: &Run,
        transcript: &Transcript,
        policy: &ThresholdPolicy,
    ) -> Outcome {
        let text = transcript.text();
        let piece = |token: &decode::Accepted| TokenRecord {
            text: token.text.clone(),
            source: token.source.name().to_owned(),
            score: token.score.map(|score| score.value()),
        };
        let spent = policy.current_budget().map(|budget| {
            let BudgetState { aim, tokens, routed, pace } = budget.state();
            Spent { aim, threshold: budget.threshold().value(), tokens, routed, pace }
        });
        Outcome {
            id: example.id.clone(),
            point: run.point.name.clone(),
            right: example.is_right(&text),
            conclusion: example.conclusion(&text),
            finish: transcript.finish_reason().map_or("cancelled", |reason| reason.name()).into(),
            pieces: transcript.shown().iter().map(piece).collect(),
            spent,
            ..Outcome::default()
        }
    }
}

/// A seed for each question, the same wherever it stands among the others.
fn question_seed(seed: u64, id: &str) -> u64 {
    id.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
