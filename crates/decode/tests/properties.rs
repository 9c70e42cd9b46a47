//! Properties of the loop that must hold for every text, checked on fake models.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tandem_decode::{
    Accepted, CloudError, Exchange, FinishReason, Limits, OnCloudError, Relay, Router, Routing,
    Sampling, Score, Session, SessionInput, Source, Step, Threshold, Token, Verify, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
};

const PIECES: &[&str] = &[
    " the", " cat", " sat", ".", ",", "\n", " (", "A", ")", "中", "文", "é", " 1", "9", "ing",
    "😀", " ",
];
const OTHER_PIECES: &[&str] =
    &[" the", " dog", " ran", ".", "\n\n", "国", " x", "y", " (", "B", "7", "é", " \n", "s"];

/// Trust is the gap between the two highest probabilities.
struct Margin;

impl Router for Margin {
    fn score(&self, step: &Step) -> Score {
        let distribution = step.distribution();
        Score::new(distribution.top1 - distribution.top2)
    }
}

#[derive(Clone, Debug)]
struct Case {
    edge: u64,
    cloud: u64,
    sampling: Sampling,
    max_tokens: usize,
    exchange: Exchange,
}

fn cases(exchange: Exchange) -> impl Strategy<Value = Case> {
    (any::<u64>(), any::<u64>(), 0..3, any::<u64>(), 1usize..60).prop_map(
        move |(edge, cloud, warm, seed, max_tokens)| {
            let temperature = warm as f32 * 0.6;
            let repetition_penalty = if warm == 2 { 1.3 } else { 1.0 };
            let sampling =
                Sampling { temperature, repetition_penalty, seed, ..Sampling::default() };
            Case { edge, cloud, sampling, max_tokens, exchange }
        },
    )
}

struct Outcome {
    tokens: Vec<Accepted>,
    text: String,
    streamed: String,
    reason: Option<FinishReason>,
    cloud_error: Option<CloudError>,
    edge: FakeEdge,
    cloud: FakeCloud,
}

impl Case {
    fn prompt(&self) -> Vec<Token> {
        FakeModel::new(0, PIECES).vocabulary.encode("Hello")
    }

    fn cloud(&self) -> FakeCloud {
        let pieces = match self.exchange {
            Exchange::Ids => PIECES,
            Exchange::Text => OTHER_PIECES,
        };
        FakeCloud::new(FakeModel::new(self.cloud, pieces), self.prompt(), self.exchange)
    }

    fn limits(&self) -> Limits {
        Limits { max_tokens: self.max_tokens, stops: vec![] }
    }

    fn edge(&self) -> FakeEdge {
        FakeEdge::new(FakeModel::new(self.edge, PIECES), 1000)
    }

    fn joint(&self, tau: f32) -> Outcome {
        self.run(Some(tau), self.cloud(), self.limits())
    }

    fn small(&self) -> Outcome {
        self.run(None, self.cloud(), self.limits())
    }

    fn run(&self, tau: Option<f32>, mut cloud: FakeCloud, limits: Limits) -> Outcome {
        let mut edge = self.edge();
        let routing = tau.map(|tau| Routing {
            router: Margin,
            policy: Threshold::new(tau).unwrap().into(),
            cloud: &mut cloud,
            on_error: OnCloudError::Keep,
        });
        let plan = SessionInput {
            prompt: self.prompt(),
            written: vec![],
            sampling: self.sampling,
            limits,
        };
        let mut session = Session::new(&mut edge, routing, plan).unwrap();
        let mut streamed = String::new();
        block_on(async {
            while let Some(span) = session.next().await.unwrap() {
                streamed += &span.text();
            }
        });
        let transcript = session.transcript();
        Outcome {
            tokens: transcript.shown().to_vec(),
            text: transcript.text(),
            reason: transcript.finish_reason(),
            cloud_error: session.cloud_error().cloned(),
            streamed,
            edge,
            cloud,
        }
    }

    fn large(&self) -> (Vec<Token>, String) {
        let mut relay = Relay::new(self.cloud(), self.sampling, self.limits());
        block_on(async { while relay.next().await.unwrap().is_some() {} });
        (relay.transcript().tokens().to_vec(), relay.transcript().text())
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn ids(tokens: &[Accepted]) -> Vec<Token> {
    tokens.iter().filter_map(|t| t.id).collect()
}

/// Whether the text ends in a letter and what is proposed goes on with one; Chinese has no words of
/// several characters here. Simpler than the rules of the crate, and not derived from them.
fn is_inside_word(text: &str, proposed: &[u8]) -> bool {
    let letter = |c: char| c.is_alphabetic() && !"中文国".contains(c);
    let next = std::str::from_utf8(proposed).ok().and_then(|p| p.chars().next());
    text.chars().next_back().is_some_and(letter) && next.is_some_and(letter)
}

proptest! {
    #[test]
    fn tau_0_is_small(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)]) {
        let (small, joint) = (case.small(), case.joint(0.0));
        prop_assert_eq!(ids(&small.tokens), ids(&joint.tokens));
        prop_assert_eq!(small.text, joint.text);
        prop_assert_eq!(joint.cloud.answered, 0);
    }

    #[test]
    fn tau_1_with_one_vocabulary_is_large(case in cases(Exchange::Ids)) {
        let (joint, (tokens, text)) = (case.joint(1.0), case.large());
        prop_assert_eq!(ids(&joint.tokens), tokens);
        prop_assert_eq!(joint.text, text);
        prop_assert!(joint.tokens.iter().all(|t| t.source == Source::Cloud));
    }

    #[test]
    fn a_verified_draft_is_large(case in cases(Exchange::Ids), agrees in any::<bool>()) {
        // Two models that always agree, and two that seldom do.
        let case = Case { cloud: if agrees { case.edge } else { case.cloud }, sampling: Sampling::default(), ..case };
        let plan = SessionInput { prompt: case.prompt(), written: vec![], sampling: case.sampling, limits: case.limits() };
        let mut edge = case.edge();
        let mut cloud = case.cloud();
        let mut verify = Verify::new(&mut edge, &mut cloud, plan).unwrap();
        let mut streamed = String::new();
        block_on(async { while let Some(span) = verify.next().await.unwrap() { streamed += &span.text(); } });
        let (tokens, text) = case.large();
        let reason = verify.transcript().finish_reason();
        prop_assert_eq!(verify.transcript().tokens(), tokens.as_slice());
        prop_assert_eq!(&verify.transcript().text(), &text);
        prop_assert_eq!(&streamed, &text);
        prop_assert!(matches!(reason, Some(FinishReason::Stop | FinishReason::Length)));
        let context = [case.prompt().as_slice(), &tokens].concat();
        drop(verify);
        prop_assert!(context.starts_with(&edge.cache));
        if agrees {
            prop_assert!(cloud.asked <= tokens.len() / 4 + 3, "{} passes for {}", cloud.asked, tokens.len());
        }
    }

    #[test]
    fn a_draft_verified_by_text_is_large(case in cases(Exchange::Text)) {
        let case = Case { sampling: Sampling::default(), ..case };
        let limits = Limits { max_tokens: 200, stops: vec![] };
        let plan = SessionInput { prompt: case.prompt(), written: vec![], sampling: case.sampling, limits: limits.clone() };
        let mut verify = Verify::new(case.edge(), case.cloud(), plan).unwrap();
        block_on(async { while verify.next().await.unwrap().is_some() {} });
        let mut relay = Relay::new(case.cloud(), case.sampling, Limits { max_tokens: 60, ..limits });
        block_on(async { while relay.next().await.unwrap().is_some() {} });
        let (text, whole) = (verify.transcript().text(), relay.transcript().text());
        // Where a limit cuts either, the other goes on.
        prop_assert!(text.starts_with(&whole) || whole.starts_with(&text), "{:?} {:?}", text, whole);
    }

    #[test]
    fn a_higher_threshold_asks_no_less(case in cases(Exchange::Ids), a in 0f32..=1.0, b in 0f32..=1.0) {
        // The same states: those of the small model alone.
        let mut edge = case.edge();
        let (low, high) = (a.min(b), a.max(b));
        let (mut asks_low, mut asks_high) = (0, 0);
        for (position, token) in ids(&case.small().tokens).into_iter().enumerate() {
            let step = block_on(tandem_decode::Edge::step(&mut edge, &[token])).unwrap();
            prop_assert_eq!(step.position, position + 1);
            let ask = |tau| Threshold::new(tau).unwrap().decide(Margin.score(&step)) == tandem_decode::Decision::Ask;
            asks_low += usize::from(ask(low));
            asks_high += usize::from(ask(high));
        }
        prop_assert!(asks_low <= asks_high);
    }

    #[test]
    fn streamed_text_is_the_whole(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)], tau in 0f32..=1.0) {
        let outcome = case.joint(tau);
        let vocabulary = FakeModel::new(0, PIECES).vocabulary;
        let bytes: Vec<u8> = outcome.tokens.iter().filter_map(|t| t.id).flat_map(|id| vocabulary.piece(id)).collect();
        let joined: String = outcome.tokens.iter().map(|t| t.text.as_str()).collect();
        prop_assert_eq!(&outcome.streamed, &outcome.text);
        prop_assert_eq!(&joined, &outcome.text);
        prop_assert_eq!(String::from_utf8_lossy(&bytes), outcome.text);
    }

    #[test]
    fn the_edge_reads_each_accepted_token_once(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)], tau in 0f32..=1.0) {
        let outcome = case.joint(tau);
        let mut context = case.prompt();
        context.extend(ids(&outcome.tokens));
        prop_assert!(context.starts_with(&outcome.edge.cache));
        prop_assert_eq!(outcome.edge.reads.iter().sum::<usize>(), outcome.edge.cache.len());
    }

    #[test]
    fn a_lost_cloud_is_survived_and_told(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)], dies_at in 0usize..12, tau in 0.3f32..=1.0) {
        let mut cloud = case.cloud();
        cloud.gone = dies_at..usize::MAX;
        let lost = case.run(Some(tau), cloud, case.limits());
        let whole = case.joint(tau);
        prop_assert!(matches!(lost.reason, Some(FinishReason::Stop | FinishReason::Length)));
        prop_assert!(lost.tokens.iter().filter(|t| t.cloud.is_some()).count() <= dies_at);
        // Up to the first fallback nothing differs; behind it the cloud writes nothing.
        let first = lost.tokens.iter().position(|t| t.source == Source::Fallback);
        let upto = first.unwrap_or(lost.tokens.len());
        prop_assert_eq!(ids(&lost.tokens[..upto]), ids(&whole.tokens[..upto]));
        prop_assert!(lost.tokens[upto..].iter().all(|t| t.source != Source::Cloud));
        if first.is_some() {
            prop_assert_eq!(lost.cloud_error, Some(FakeCloud::error()));
        }
    }

    #[test]
    fn a_cloud_that_comes_back_is_used_again(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)], dies_at in 0usize..6, absent in 1usize..4) {
        let mut cloud = case.cloud();
        cloud.gone = dies_at..dies_at + absent;
        let outcome = case.run(Some(1.0), cloud, case.limits());
        let fallbacks = outcome.tokens.iter().filter(|t| t.source == Source::Fallback).count();
        prop_assert!(fallbacks <= absent);
        let asked = outcome.cloud.asked;
        prop_assert_eq!(outcome.cloud.answered, asked - asked.saturating_sub(dies_at).min(absent));
        // Whoever wrote it, every token is in the text once.
        prop_assert_eq!(&outcome.streamed, &outcome.text);
        let last = outcome.tokens.iter().rposition(|t| t.source == Source::Fallback);
        if let Some(last) = last && case.exchange == Exchange::Ids && fallbacks == absent {
            prop_assert!(outcome.tokens[last + 1..].iter().all(|t| t.source == Source::Cloud));
        }
    }

    #[test]
    fn a_failure_can_end_the_text(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)], dies_at in 0usize..6, tau in 0.3f32..=1.0) {
        let mut cloud = case.cloud();
        cloud.gone = dies_at..usize::MAX;
        let kept = case.run(Some(tau), cloud.clone(), case.limits());
        let mut edge = case.edge();
        let threshold = Threshold::new(tau).unwrap();
        let routing = Routing { router: Margin, policy: threshold.into(), cloud, on_error: OnCloudError::Fail };
        let plan = SessionInput { prompt: case.prompt(), written: vec![], sampling: case.sampling, limits: case.limits() };
        let mut session = Session::new(&mut edge, Some(routing), plan).unwrap();
        let end = block_on(async {
            loop {
                match session.next().await {
                    Ok(Some(_)) => {}
                    other => return other,
                }
            }
        });
        let failed = kept.cloud_error.is_some();
        prop_assert_eq!(failed, end.is_err());
        let written = session.transcript().tokens();
        let first = kept.tokens.iter().position(|t| t.source == Source::Fallback);
        prop_assert_eq!(written, &ids(&kept.tokens)[..first.unwrap_or(written.len())]);
    }

    #[test]
    fn words_come_only_at_boundaries(case in cases(Exchange::Text), tau in 0.2f32..=1.0) {
        let outcome = case.joint(tau);
        let edge = FakeModel::new(case.edge, PIECES);
        let (mut context, mut text) = (case.prompt(), String::new());
        let mut whole = true;
        for token in &outcome.tokens {
            if token.cloud.is_some() {
                // What the edge would have written here tells whether a word was under way.
                let proposed = tandem_decode::sampling::argmax(&edge.logits(&context)).unwrap();
                let proposed = edge.vocabulary.piece(proposed);
                let place = format!("{text:?} before {:?}", String::from_utf8_lossy(&proposed));
                prop_assert!(whole, "inside a character: {}", place);
                prop_assert!(!text.ends_with(' '), "behind a space: {}", place);
                prop_assert!(!is_inside_word(&text, &proposed), "inside a word: {}", place);
            }
            whole = !token.text.is_empty();
            text += &token.text;
            context.extend(token.id);
        }
    }

    #[test]
    fn a_stop_string_is_never_shown(case in prop_oneof![cases(Exchange::Ids), cases(Exchange::Text)], tau in 0f32..=1.0, stop in prop_oneof![Just(" cat"), Just(".\n"), Just("中文"), Just("he c")]) {
        let limits = Limits { max_tokens: case.max_tokens, stops: vec![stop.into()] };
        let stopped = case.run(Some(tau), case.cloud(), limits);
        let whole = case.joint(tau);
        prop_assert_eq!(&stopped.streamed, &stopped.text);
        match whole.text.find(stop) {
            Some(at) => prop_assert_eq!(stopped.text, &whole.text[..at]),
            None => prop_assert_eq!(stopped.text, whole.text),
        }
    }
}

#[test]
fn a_context_that_fills_up_ends_with_length() {
    // This edge never writes end-of-text before its context is full.
    let case = (0..)
        .map(|edge| Case {
            edge,
            cloud: 1,
            sampling: Sampling::default(),
            max_tokens: 500,
            exchange: Exchange::Ids,
        })
        .find(|case| case.small().tokens.len() > 40)
        .unwrap();
    let mut edge = FakeEdge::new(FakeModel::new(case.edge, PIECES), 30);
    let plan = SessionInput {
        prompt: case.prompt(),
        written: vec![],
        sampling: case.sampling,
        limits: case.limits(),
    };
    let mut session = Session::<_, Margin, FakeCloud>::new(&mut edge, None, plan).unwrap();
    block_on(async { while session.next().await.unwrap().is_some() {} });
    assert_eq!(session.transcript().finish_reason(), Some(FinishReason::Length));
    // The last token of a full context is shown, but never read.
    assert_eq!(case.prompt().len() + session.transcript().tokens().len(), 31);
    assert_eq!(edge.cache.len(), 30);
}

#[test]
fn prompts_that_cannot_begin_are_named() {
    let case = Case {
        edge: 1,
        cloud: 2,
        sampling: Sampling::default(),
        max_tokens: 5,
        exchange: Exchange::Ids,
    };
    let begin = |prompt: Vec<Token>| {
        let plan = SessionInput {
            prompt,
            written: vec![],
            sampling: case.sampling,
            limits: case.limits(),
        };
        Session::<_, Margin, FakeCloud>::new(
            FakeEdge::new(FakeModel::new(1, PIECES), 8),
            None,
            plan,
        )
        .err()
        .map(|e| e.to_string())
    };
    assert!(begin(vec![]).unwrap().contains("empty"));
    assert!(begin(vec![Token(1); 8]).unwrap().contains("8 tokens"));
    assert!(begin(vec![Token(1); 7]).is_none());
}
