//! Texts that are held to a form: by the edge alone, and where the cloud writes into them.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use tandem_decode::{
    Accepted, Constrained, Constraint, ConstraintError, Continuation, Exchange, FinishReason,
    Limits, OnCloudError, Router, Routing, Sampling, Score, Session, SessionInput, Source, Step,
    Threshold, Token, Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel, FakeVocabulary},
};

const PIECES: &[&str] = &[" the", " cat", " sat", " dog", ".", "\n", " on", " mat"];

/// What a text may be: they have a long beginning in common, and some go on behind others' ends.
const TEXTS: &[&str] = &[
    "{\" the cat sat.",
    "{\" the cat sat. on the mat.",
    "{\" the cat on the dog\n",
    "{\" the dog",
    "{\" the dog. the dog. the dog.",
];

/// Lets the text be one of several.
#[derive(Clone)]
struct OneOf {
    vocabulary: Arc<FakeVocabulary>,
    written: Vec<u8>,
}

impl OneOf {
    fn new(vocabulary: &Arc<FakeVocabulary>) -> Self {
        Self { vocabulary: vocabulary.clone(), written: vec![] }
    }

    fn rests(&self) -> Vec<&'static [u8]> {
        TEXTS.iter().filter_map(|t| t.as_bytes().strip_prefix(self.written.as_slice())).collect()
    }

    fn fits(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && self.rests().iter().any(|rest| rest.starts_with(bytes))
    }
}

impl Constraint for OneOf {
    fn continuation(&mut self) -> Result<Continuation, ConstraintError> {
        // The tokens that all of them begin with: not half of one, which no model would write.
        let encode = |rest: &&[u8]| self.vocabulary.encode(std::str::from_utf8(rest).unwrap());
        let rests: Vec<_> = self.rests().iter().map(encode).collect();
        let common = |a: &[Token], b: &[Token]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let shared = rests.iter().map(|rest| common(rest, &rests[0])).min().unwrap();
        Ok(match shared {
            0 if rests == [vec![]] => Continuation::Complete,
            0 => Continuation::Open,
            n => Continuation::Forced(rests[0][..n].to_vec()),
        })
    }

    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        let may_end = self.may_end()?;
        for (id, logit) in (0u32..).zip(logits) {
            let allowed = match id {
                0 => may_end,
                id => self.fits(&self.vocabulary.piece(Token(id))),
            };
            if !allowed {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    fn allows(&mut self, tokens: &[Token]) -> Result<bool, ConstraintError> {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| self.vocabulary.piece(t)).collect();
        Ok(self.fits(&bytes))
    }

    fn may_end(&mut self) -> Result<bool, ConstraintError> {
        Ok(self.rests().contains(&&b""[..]))
    }

    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        self.written.extend(tokens.iter().flat_map(|&t| self.vocabulary.piece(t)));
        match self.rests().is_empty() {
            true => Err(ConstraintError(String::from_utf8_lossy(&self.written).into_owned())),
            false => Ok(()),
        }
    }

    fn duplicate(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

/// Trusts nothing, so that every position that can be asked for is.
struct Doubtful;

impl Router for Doubtful {
    fn score(&self, step: &Step) -> Score {
        // A forced token never comes here: there is always a choice, and never an impossible token.
        assert!(step.logits.iter().filter(|l| l.is_finite()).count() > 1, "{}", step.position);
        assert!(step.logits[step.proposed.index()].is_finite());
        Score::new(0.0)
    }
}

struct Text {
    text: String,
    tokens: Vec<Accepted>,
    reason: Option<FinishReason>,
    asked: usize,
    steps: usize,
}

fn write(seed: u64, cloud: Option<(Exchange, std::ops::Range<usize>)>, temperature: f32) -> Text {
    let (small, large) = (FakeModel::new(seed, PIECES), FakeModel::new(seed ^ 77, PIECES));
    let vocabulary = small.vocabulary.clone();
    let prompt = vocabulary.encode(" the cat");
    let routing = cloud.map(|(exchange, gone)| {
        let mut cloud = FakeCloud::new(large, prompt.clone(), exchange);
        cloud.gone = gone;
        let policy = Threshold::new(1.0).unwrap().into();
        Routing { router: Doubtful, policy, cloud, on_error: OnCloudError::Keep }
    });
    let input = SessionInput {
        prompt,
        written: vec![],
        sampling: Sampling { temperature, seed, ..Sampling::default() },
        limits: Limits { max_tokens: 200, stops: vec![] },
    };
    let session = Session::new(FakeEdge::new(small, 400), routing, input).unwrap();
    let mut session = session.with_constraint(Box::new(OneOf::new(&vocabulary)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { while session.next().await.unwrap().is_some() {} });
    let (edge, cloud, transcript) = session.into_parts();
    Text {
        text: transcript.text(),
        tokens: transcript.shown().to_vec(),
        reason: transcript.finish_reason(),
        asked: cloud.map_or(0, |c| c.asked),
        steps: edge.reads.len(),
    }
}

proptest! {
    #[test]
    fn every_text_has_the_form(
        seed in 0u64..10_000,
        exchange in prop_oneof![Just(None), Just(Some(Exchange::Ids)), Just(Some(Exchange::Text))],
        gone in 0usize..6,
        temperature in prop_oneof![Just(0.0f32), Just(1.0)],
    ) {
        let text = write(seed, exchange.map(|e| (e, gone..gone + 2)), temperature);
        prop_assert!(TEXTS.contains(&text.text.as_str()), "{:?}", text.text);
        prop_assert_eq!(text.reason, Some(FinishReason::Stop));
        let forced: Vec<_> =
            text.tokens.iter().filter(|t| t.constrained == Some(Constrained::Forced)).collect();
        prop_assert!(forced.iter().all(|t| t.source == Source::Edge && t.score.is_none()));
        // What is forced costs neither a step nor an ask.
        prop_assert!(text.steps < text.tokens.len());
        prop_assert!(text.asked <= text.steps + 1);
    }
}

#[test]
fn what_the_cloud_may_not_write_is_replaced_and_marked() {
    let mut replaced = 0;
    let mut kept = 0;
    for exchange in [Exchange::Ids, Exchange::Text] {
        for seed in 0..60 {
            let text = write(seed, Some((exchange, 0..0)), 0.0);
            for token in &text.tokens {
                replaced += usize::from(token.constrained == Some(Constrained::Replaced));
                kept += usize::from(token.source == Source::Cloud);
                if token.constrained == Some(Constrained::Replaced) {
                    assert_eq!(token.source, Source::Edge);
                    assert!(token.cloud.is_some(), "the ask was made and has its cost");
                }
            }
        }
    }
    assert!(replaced > 20 && kept > 20, "{replaced} {kept}");
}

#[test]
fn a_duplicate_goes_its_own_way() {
    let vocabulary = FakeModel::new(0, PIECES).vocabulary;
    let mut first: Box<dyn Constraint> = Box::new(OneOf::new(&vocabulary));
    first.advance(&vocabulary.encode("{\" the")).unwrap();
    let mut second = first.clone();
    first.advance(&vocabulary.encode(" dog")).unwrap();
    assert!(first.may_end().unwrap() && !second.may_end().unwrap());
    assert!(second.allows(&vocabulary.encode(" cat")).unwrap());
    assert!(!first.allows(&vocabulary.encode(" cat")).unwrap());
}

/// Any number of words in quotes.
#[derive(Clone)]
struct Quoted {
    vocabulary: Arc<FakeVocabulary>,
    written: String,
}

impl Constraint for Quoted {
    fn continuation(&mut self) -> Result<Continuation, ConstraintError> {
        Ok(match self.written.as_str() {
            "" => Continuation::Forced(self.vocabulary.encode("\"")),
            text if text.len() > 1 && text.ends_with('"') => Continuation::Complete,
            _ => Continuation::Open,
        })
    }

    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        logits[0] = f32::NEG_INFINITY;
        Ok(())
    }

    fn allows(&mut self, _: &[Token]) -> Result<bool, ConstraintError> {
        Ok(true)
    }

    fn may_end(&mut self) -> Result<bool, ConstraintError> {
        Ok(false)
    }

    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| self.vocabulary.piece(t)).collect();
        self.written += &String::from_utf8(bytes).unwrap();
        Ok(())
    }

    fn is_json(&self) -> bool {
        true
    }

    fn duplicate(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

#[test]
fn json_is_closed_before_its_limit() {
    let model = FakeModel::new(3, PIECES);
    let vocabulary = model.vocabulary.clone();
    let input = SessionInput {
        prompt: vocabulary.encode(" the"),
        written: vec![],
        sampling: Sampling::default(),
        limits: Limits { max_tokens: 40, stops: vec![] },
    };
    let session: Session<_, Doubtful, FakeCloud> =
        Session::new(FakeEdge::new(model, 400), None, input).unwrap();
    let mut session =
        session.with_constraint(Box::new(Quoted { vocabulary, written: String::new() }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { while session.next().await.unwrap().is_some() {} });
    let transcript = session.transcript();
    // The scripted model never writes a quote by itself.
    assert_eq!(transcript.finish_reason(), Some(FinishReason::Stop), "{}", transcript.text());
    let last = transcript.shown().last().unwrap();
    assert_eq!((last.text.as_str(), last.constrained), ("\"", Some(Constrained::Closed)));
    assert_eq!(transcript.tokens().len(), 31, "{}", transcript.text());
}
