use std::path::Path;

use decode::{
    Answer, AnswerToken, Ask, Budget, Cloud, CloudError, Edge, EdgeError, Exchange, Handshake,
    Limits, OnCloudError, Pace, PaceState, Reading, Relay, Routing, Sampling, Session,
    SessionInput, Step, Token, Usage, Vocabulary, fake::FakeVocabulary,
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

    async fn begin(&mut self, prompt: &str, judges: Judges<'_>) -> Result<Vec<f64>, ResultsError> {
        // Questions the small model gets wrong look hard.
        let trust = if right(prompt) == "a" { 0.9 } else { 0.1 };
        // A router of whole answers knows which the large model alone gets right.
        let needed = if right(prompt) == "b" && !prompt.contains("q9") { 0.2 } else { 0.8 };
        let of_tokens = judges.of_tokens.iter().map(|_| trust);
        Ok(of_tokens.chain(judges.of_answers.iter().map(|_| needed)).collect())
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
    let run = |point, router: RouterKind, policy| Run {
        point,
        router: router.into(),
        policy,
        network: None,
    };
    let half = Threshold::new(0.5).unwrap();
    let fifth = ThresholdPolicy::budget(Budget::new(0.2, []));
    let mut runs = vec![
        run(point("small", Mode::Small, None), top1, Threshold::NEVER.into()),
        run(point("top1", Mode::Joint, Some(0.5)), top1, half.into()),
        run(point("random", Mode::Joint, None), random, Threshold::NEVER.into()),
        run(point("budget", Mode::Joint, None), random, fifth),
        run(point("large", Mode::Large, None), top1, Threshold::ALWAYS.into()),
        run(point("verify", Mode::Verify, None), top1, Threshold::ALWAYS.into()),
        run(point("oracle", Mode::Verify, None), top1, Threshold::ALWAYS.into()),
    ];
    runs[6].point.oracle = Some(0.5);
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
    // Beside verify, whose mode it runs in.
    assert_eq!(row("oracle").mode, RowKind::TokenOracle);
    let place = |name: &str| table.rows.iter().position(|row| row.name == name).unwrap();
    assert!(place("top1") < place("verify") && place("verify") < place("large"));
    // At random, as often as top1.
    assert!((row("random").routed_share - 0.125).abs() < 0.03, "{}", row("random").routed_share);
    // A fifth of the tokens are two answers of ten, and hard questions come first.
    let whole = row("whole answers by top1 20%");
    assert_eq!((whole.mode, whole.accuracy, whole.routed_share), (RowKind::Query, Some(0.6), 0.2));
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

/// Answers as the scripted models do, and remembers how long the first request of each answer took.
struct Watched(Vec<Duration>);

impl Decoder for Watched {
    type Error = ResultsError;

    async fn begin(&mut self, prompt: &str, judges: Judges<'_>) -> Result<Vec<f64>, ResultsError> {
        Models.begin(prompt, judges).await
    }

    async fn decode(
        &mut self,
        prompt: &str,
        options: DecodeOptions,
    ) -> Result<Transcript, ResultsError> {
        let network = options.network.as_ref();
        self.0.extend(network.map(|network| network.of(0, Duration::ZERO)));
        Models.decode(prompt, options).await
    }

    async fn likelihood(
        &mut self,
        prompt: &str,
        answer: &str,
    ) -> Result<Option<f64>, ResultsError> {
        Models.likelihood(prompt, answer).await
    }

    fn costs(&self, prompt: &str, transcript: &Transcript) -> Result<Costs, ResultsError> {
        Models.costs(prompt, transcript)
    }
}

/// One point with a pace, over a network on which every request takes another time.
fn paced(path: &Path, network: &Delay) -> Sweep {
    let pace = Pace::new(Duration::from_millis(10), 0.0);
    let run = Run {
        point: Point { pace_ms: Some(10.0), ..point("paced", Mode::Joint, None) },
        router: RouterKind::Random(None).into(),
        policy: ThresholdPolicy::budget(Budget::new(1.0, []).paced(pace)),
        network: Some(network.clone()),
    };
    let about = ResultsInfo { version: ResultsInfo::VERSION, ..ResultsInfo::default() };
    let results = Results::open(path, about, vec![run.point.clone()]).unwrap();
    Sweep::new(examples(), vec![run], results, 3)
}

#[tokio::test]
async fn a_network_and_a_pace_go_on_from_answer_to_answer_and_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let network: Delay = "100ms:50ms".parse().unwrap();
    let mut watched = Watched(vec![]);
    let first = paced(&path, &network);
    for number in 0..5 {
        first.answer(&mut watched, number).await.unwrap();
    }
    let state = |sweep: &Sweep| sweep.runs[0].policy.current_budget().unwrap().state();
    let left = state(&first);
    assert!(left.pace.is_some_and(|pace| pace != PaceState::default()), "{left:?}");
    drop(first);
    let second = paced(&path, &network);
    assert_eq!(state(&second).tokens, left.tokens);
    assert!(state(&second).pace.is_some_and(|pace| pace != PaceState::default()));
    for number in 5..10 {
        second.answer(&mut watched, number).await.unwrap();
    }
    let mut asked = 0;
    let outcomes = second.results().look(|record| record.outcomes.clone());
    let expected: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let before = asked;
            asked += outcome.costs.asks;
            network.of(before, Duration::ZERO)
        })
        .collect();
    assert!(asked > 0);
    assert_eq!(watched.0, expected);

    let table = second.results().look(Table::of);
    let row = &table.rows[0];
    assert_eq!(row.pace_ms, Some(10.0));
    // Scripted models take no time to speak of.
    assert!(row.between_tokens_mean_ms.is_some_and(|mean| mean < 8.5), "{row:?}");
    assert!(row.pace_miss.is_some(), "{row:?}");
}

#[tokio::test]
async fn a_router_of_whole_answers_is_a_row_and_judges_what_was_answered_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let before = sweep(&path);
    answer(&before, 0..10).await;
    assert_eq!(before.results().look(|record| record.outcomes.len()), 10 * 7);
    drop(before);
    let custom = NamedRouter::custom("learnt", Arc::new(router::Constant::Never));
    let with = sweep(&path).with_query_routers(std::slice::from_ref(&custom));
    answer(&with, 0..10).await;
    // Nothing is answered again; each question has one more judge.
    let table = with.results().look(|record| {
        assert_eq!((record.outcomes.len(), record.questions.len()), (10 * 7, 10));
        assert!(record.questions.iter().all(|question| question.trust.len() == 4));
        Table::of(record)
    });
    let row = |name: &str| table.rows.iter().find(|row| row.name == name).unwrap();
    // Two of six that the small model gets wrong, and it is wrong about none of them.
    let learnt = row("whole answers by learnt 20%");
    assert_eq!((learnt.mode, learnt.accuracy), (RowKind::Query, Some(0.6)));
    drop(with);
    let again = sweep(&path).with_query_routers(&[custom]);
    let written = std::fs::read(&path).unwrap();
    answer(&again, 0..10).await;
    assert_eq!(std::fs::read(&path).unwrap(), written, "all of it was there");
    assert_eq!(again.results().look(|record| record.questions.len()), 10);
}
