//! A sweep: every question answered at every point.
//!
//! The points of one question run one after the other on one worker, each with nothing read of the
//! prompt, as for a user. Every answer is on disk before the next is begun.

use std::{collections::BTreeMap, future::Future, sync::Arc};

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

    /// Comes before the points of a question: gives each router's mean trust in the edge over the
    /// prompt.
    fn begin(
        &mut self,
        prompt: &str,
        routers: &[&dyn Router],
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

pub struct DecodeOptions {
    pub mode: Mode,
    /// Who judges the edge. In mode small it decides nothing, and its scores are kept.
    pub router: Arc<dyn Router>,
    pub policy: ThresholdPolicy,
    pub rtt_ms: Option<f64>,
}

/// A point, and what it takes to run it.
pub struct Run {
    pub point: Point,
    pub router: NamedRouter,
    /// How strictly; shared by all answers of the point.
    pub policy: ThresholdPolicy,
}

pub struct Sweep {
    examples: Vec<Example>,
    runs: Vec<Run>,
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
            if let Some(Spent { aim, tokens, routed, .. }) = last {
                run.policy.resume(BudgetState { aim, tokens, routed });
            }
        }
        Self { examples, runs, results, seed }
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
        if left.is_empty() {
            return Ok(vec![]);
        }
        let prompt = example.prompt();
        let seed = question_seed(self.seed, &example.id);
        let judges = self.judges(seed);
        let routers: Vec<&dyn Router> = judges.values().map(|router| &**router).collect();
        let trust = decoder.begin(&prompt, &routers).await?;
        let trust = judges.keys().map(|name| name.to_string()).zip(trust).collect();
        let (id, right) = (example.id.clone(), example.right());
        self.results.add_question(Question { id, prompt: prompt.clone(), right, trust })?;
        let mut outcomes = vec![];
        for run in left {
            let router = Arc::from(run.router.build(seed));
            let policy = self.policy(run, &example.id);
            let (mode, rtt_ms) = (run.point.mode, run.point.rtt_ms);
            let options = DecodeOptions { mode, router, policy: policy.clone(), rtt_ms };
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

    /// The routers that judge, once each.
    fn judges(&self, seed: u64) -> BTreeMap<&str, Box<dyn Router>> {
        let joint = self.runs.iter().filter(|run| run.point.mode == Mode::Joint);
        let named = joint.filter_map(|run| Some((run.point.router.as_deref()?, run)));
        named.map(|(name, run)| (name, run.router.build(seed))).collect()
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
            let BudgetState { aim, tokens, routed } = budget.state();
            Spent { aim, threshold: budget.threshold().value(), tokens, routed }
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
mod tests {
    use std::path::Path;

    use decode::{
        Answer, AnswerToken, Ask, Budget, Cloud, CloudError, Edge, EdgeError, Exchange, Handshake,
        Limits, OnCloudError, Reading, Relay, Routing, Sampling, Session, SessionInput, Step,
        Token, Usage, Vocabulary, fake::FakeVocabulary,
    };

    use router::RouterKind;

    use super::*;
    use crate::eval::{
        ResultsInfo, Table, Task,
        costs::{Footprint, Sizes, costs},
        table::RowKind,
    };

    const WORDS: [&str; 5] = [" so", " the answer is", " (", "a", "b"];
    /// What both models write; the label between the parentheses is their own.
    const SCRIPT: [&str; 8] = [" so", " so", " so", " so", " the answer is", " (", "?", ")"];

    /// Writes the script with its own label, of which it is not sure.
    #[derive(Clone)]
    struct Scripted {
        vocabulary: Arc<FakeVocabulary>,
        label: &'static str,
    }

    impl Scripted {
        fn new(label: &'static str) -> Self {
            Self { vocabulary: Arc::new(FakeVocabulary::new(&WORDS)), label }
        }

        fn token(&self, at: usize) -> Token {
            let word = SCRIPT.get(at).map(|word| if *word == "?" { self.label } else { word });
            word.and_then(|word| self.vocabulary.encode(word).pop()).unwrap_or(Token(0))
        }
    }

    struct ScriptedEdge {
        model: Scripted,
        read: usize,
    }

    impl Edge for ScriptedEdge {
        fn vocabulary(&self) -> Arc<dyn Vocabulary> {
            self.model.vocabulary.clone()
        }

        fn context(&self) -> usize {
            100
        }

        fn held(&self) -> &[Token] {
            &[]
        }

        fn keep_common(&mut self, _: &[Token]) -> usize {
            self.read = 0;
            0
        }

        async fn step(&mut self, unread: &[Token]) -> Result<Step, EdgeError> {
            self.read += unread.len();
            // The prompt is one token.
            let at = self.read - 1;
            let proposed = self.model.token(at);
            let mut logits = vec![0.0; self.model.vocabulary.len()];
            logits[proposed.index()] = if SCRIPT.get(at) == Some(&"?") { 1.0 } else { 20.0 };
            let reading = Reading::default();
            Ok(Step { position: self.read, proposed, hidden: vec![], logits, reading })
        }
    }

    struct ScriptedCloud(Scripted);

    impl Cloud for ScriptedCloud {
        async fn open(&mut self) -> Result<Handshake, CloudError> {
            Ok(Handshake { exchange: Exchange::Ids, times: Default::default() })
        }

        async fn next(&mut self, ask: Ask<'_>) -> Result<Answer, CloudError> {
            let id = self.0.token(ask.tokens.len());
            let end = self.0.vocabulary.is_end(id);
            let text = String::from_utf8_lossy(&self.0.vocabulary.piece(id)).into_owned();
            let tokens =
                if end { vec![] } else { vec![AnswerToken { id: Some(id), text, logprob: None }] };
            let usage = Usage { decoded: 1, ..Usage::default() };
            Ok(Answer { tokens, end, usage, ..Answer::default() })
        }
    }

    struct Models;

    impl Decoder for Models {
        type Error = ResultsError;

        async fn begin(
            &mut self,
            prompt: &str,
            routers: &[&dyn Router],
        ) -> Result<Vec<f64>, ResultsError> {
            // Questions the small model gets wrong look hard.
            let trust = if right(prompt) == "a" { 0.9 } else { 0.1 };
            Ok(routers.iter().map(|_| trust).collect())
        }

        async fn decode(
            &mut self,
            prompt: &str,
            options: DecodeOptions,
        ) -> Result<Transcript, ResultsError> {
            let limits = Limits { max_tokens: 20, stops: vec![] };
            let (sampling, plan) = (Sampling::default(), vec![Token(1)]);
            // The large model is wrong once.
            let knows = if prompt.contains("q9") { "a" } else { right(prompt) };
            let cloud = ScriptedCloud(Scripted::new(knows));
            if options.mode == Mode::Large {
                let mut relay = Relay::new(cloud, sampling, limits);
                while relay.next().await.unwrap().is_some() {}
                return Ok(relay.into_parts().1);
            }
            let edge = ScriptedEdge { model: Scripted::new("a"), read: 0 };
            let (policy, on_error) = (options.policy, OnCloudError::Fail);
            let routing = Routing { router: &*options.router, policy, cloud, on_error };
            let plan = SessionInput { prompt: plan, written: vec![], sampling, limits };
            let mut session = Session::new(edge, Some(routing), plan).unwrap();
            while session.next().await.unwrap().is_some() {}
            Ok(session.into_parts().2)
        }

        async fn likelihood(&mut self, _: &str, answer: &str) -> Result<Option<f64>, ResultsError> {
            Ok(Some(-(answer.len() as f64)))
        }

        fn costs(&self, _: &str, transcript: &Transcript) -> Result<Costs, ResultsError> {
            let sizes = Sizes { cloud: Some(Footprint::default()), ..Sizes::default() };
            Ok(costs(transcript, 1, &sizes))
        }
    }

    /// Odd questions are a's, even ones b's.
    fn right(prompt: &str) -> &'static str {
        let odd = ["q1", "q3", "q5", "q7", "q9"].iter().any(|q| prompt.contains(q));
        if odd && !prompt.contains("q9") { "a" } else { "b" }
    }

    fn examples() -> Vec<Example> {
        let example = |i: usize| Example {
            id: format!("q{i}"),
            task: Task::Choice {
                question: format!("q{i}"),
                labels: vec!["a".into(), "b".into()],
                texts: vec!["x".into(), "y".into()],
                right: right(&format!("q{i}")).into(),
            },
            worked: None,
        };
        (0..10).map(example).collect()
    }

    fn point(name: &str, mode: Mode, threshold: Option<f32>) -> Point {
        Point { name: name.into(), mode, router: Some(name.into()), threshold, ..Point::default() }
    }

    fn sweep(path: &Path) -> Sweep {
        let (top1, random) = (RouterKind::Top1, RouterKind::Random(None));
        let run = |point, router: RouterKind, policy| Run { point, router: router.into(), policy };
        let half = Threshold::new(0.5).unwrap();
        let fifth = ThresholdPolicy::budget(Budget::new(0.2, []));
        let mut runs = vec![
            run(point("small", Mode::Small, None), top1, Threshold::NEVER.into()),
            run(point("top1", Mode::Joint, Some(0.5)), top1, half.into()),
            run(point("random", Mode::Joint, None), random, Threshold::NEVER.into()),
            run(point("budget", Mode::Joint, None), random, fifth),
            run(point("large", Mode::Large, None), top1, Threshold::ALWAYS.into()),
            run(point("verify", Mode::Verify, None), top1, Threshold::ALWAYS.into()),
        ];
        runs[2].point.like = Some("top1".into());
        runs[3].point.budget = Some(0.2);
        let points = runs.iter().map(|run| run.point.clone()).collect();
        let version = ResultsInfo::VERSION;
        let about = ResultsInfo { version, seed: 3, ..ResultsInfo::default() };
        Sweep::new(examples(), runs, Results::open(path, about, points).unwrap(), 3)
    }

    async fn answer(sweep: &Sweep, numbers: std::ops::Range<usize>) {
        for number in numbers {
            sweep.answer(&mut Models, number).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_table_is_as_scripted() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(&folder.path().join("r"));
        answer(&sweep, 0..10).await;
        let table = sweep.results().look(Table::of);
        let row = |name: &str| table.rows.iter().find(|row| row.name == name).unwrap().clone();
        // Four a's, and the small model says a.
        assert_eq!(row("small").accuracy, Some(0.4));
        assert_eq!((row("small").routed_share, row("small").cloud_calls), (0.0, 0));
        // One of eight tokens is asked for, and the large model is right nine times.
        let top1 = row("top1");
        assert_eq!((top1.accuracy, top1.routed_share), (Some(0.9), 0.125));
        assert_eq!((top1.cloud_calls, top1.gap_recovered), (10, Some(1.0)));
        assert_eq!((row("large").accuracy, row("large").routed_share), (Some(0.9), 1.0));
        // Beside large, not in its place.
        let verify = row("verify");
        assert_eq!((verify.mode, verify.accuracy), (RowKind::Verify, Some(0.9)));
        assert_eq!(verify.gigabytes_per_answer, None);
        assert!(row("large").gigabytes_per_answer.is_some());
        assert_eq!(row("large").mode, RowKind::Large);
        let place = |name: &str| table.rows.iter().position(|row| row.name == name).unwrap();
        assert!(place("top1") < place("verify") && place("verify") < place("large"));
        // At random, as often as top1.
        assert!(
            (row("random").routed_share - 0.125).abs() < 0.03,
            "{}",
            row("random").routed_share
        );
        // A fifth of the tokens are two answers of ten, and hard questions come first.
        let whole = row("whole answers by top1 20%");
        assert_eq!(
            (whole.mode, whole.accuracy, whole.routed_share),
            (RowKind::Query, Some(0.6), 0.2)
        );
        assert_eq!(row("whole answers by an oracle 20%").accuracy, Some(0.6));
        let against = table.differences.iter().find(|d| d.to == "random").unwrap();
        assert!(against.of == "top1" && against.accuracy > 0.0, "{against:?}");
    }

    #[tokio::test]
    async fn a_run_that_was_killed_anywhere_ends_as_one_that_was_not() {
        let folder = tempfile::tempdir().unwrap();
        let whole = sweep(&folder.path().join("whole"));
        answer(&whole, 0..10).await;
        let plain = |sweep: &Sweep| {
            sweep.results().look(|record| {
                let key = |o: &Outcome| (o.id.clone(), o.point.clone(), o.text(), o.spent);
                record.outcomes.iter().map(key).collect::<Vec<_>>()
            })
        };
        let written = std::fs::read(folder.path().join("whole")).unwrap();
        for cut in (0..written.len()).step_by(written.len() / 23) {
            let path = folder.path().join(format!("cut{cut}"));
            std::fs::write(&path, &written[..cut]).unwrap();
            let again = sweep(&path);
            answer(&again, 0..10).await;
            assert_eq!(plain(&again), plain(&whole), "killed at byte {cut}");
        }
    }
}
