//! What a router should have said at each position of a worked answer.
//!
//! The edge reads the answer with teacher forcing; the cloud scores it in one prefill. Where the
//! edge's own choice is the reference's, keeping it is right, whatever the cloud thinks. Else, where
//! the cloud's is, asking is right. Where neither is, only a roll-out can tell.
//!
//! Where ids travel a position is a token. Where text travels it is a word, and both models are
//! compared by what they make of the reference's next word.

use decode::{Exchange, Step, Token, Vocabulary, boundary, sampling};
use half::f16;
use router::features;

use crate::collect::{Label, LabelSource, Sample};

/// What the cloud thought of one of its own tokens of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The characters that became whole with the token.
    pub text: String,
    pub logprob: f32,
    /// Whether the cloud would have chosen it.
    pub chosen: bool,
    /// What it would have chosen.
    pub greedy: String,
    /// The same as a token of the cloud's; `None` where only its text is known.
    pub greedy_id: Option<Token>,
}

/// What a cloud thought of an answer that it wrote itself, always taking its first choice. How likely
/// it found each is not known.
pub fn own_choice(
    tokens: &[Token],
    vocabulary: &dyn Vocabulary,
    exchange: Exchange,
) -> Vec<Judgement> {
    let chosen = |text: String, greedy_id| Judgement {
        greedy: text.clone(),
        text,
        logprob: f32::NAN,
        chosen: true,
        greedy_id,
    };
    match exchange {
        Exchange::Ids => {
            let text = |&t: &Token| String::from_utf8_lossy(&vocabulary.piece(t)).into_owned();
            tokens.iter().map(|t| chosen(text(t), Some(*t))).collect()
        }
        // How the cloud cut it into tokens is not known: every character may be the end of one.
        Exchange::Text => {
            let bytes: Vec<u8> = tokens.iter().flat_map(|&t| vocabulary.piece(t)).collect();
            let text = String::from_utf8_lossy(&bytes);
            text.chars().map(|c| chosen(c.to_string(), None)).collect()
        }
    }
}

/// A worked answer, as the edge read it.
#[derive(Clone, Copy, Debug)]
pub struct EdgeReading<'a> {
    pub tokens: &'a [Token],
    /// The edge's view of each position before its token was read.
    pub steps: &'a [Step],
    pub example: u32,
}

/// A position that was labelled, and the edge's own token there.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    pub sample: Sample,
    pub proposed: Token,
}

pub fn label(
    reading: EdgeReading<'_>,
    vocabulary: &dyn Vocabulary,
    exchange: Exchange,
    judgements: &[Judgement],
) -> Vec<Labelled> {
    let tokens = &reading.tokens[..reading.tokens.len().min(reading.steps.len())];
    let units: Vec<Unit> = match exchange {
        Exchange::Ids => {
            let count = tokens.len().min(judgements.len());
            (0..count).map(|i| Unit { edge: i..i + 1, cloud: i..i + 1 }).collect()
        }
        Exchange::Text => words(tokens, reading.steps, vocabulary, judgements),
    };
    units.iter().map(|unit| unit.label(reading, vocabulary, exchange, judgements)).collect()
}

/// A stretch of the answer that one decision is about: the edge's tokens, and the cloud's.
struct Unit {
    edge: std::ops::Range<usize>,
    cloud: std::ops::Range<usize>,
}

/// The words that begin where the edge could have been overruled and where both models cut.
fn words(
    tokens: &[Token],
    steps: &[Step],
    vocabulary: &dyn Vocabulary,
    judgements: &[Judgement],
) -> Vec<Unit> {
    let pieces: Vec<_> = tokens.iter().map(|&t| vocabulary.piece(t)).collect();
    let whole = String::from_utf8_lossy(&pieces.concat()).into_owned();
    let cloud_ends = ends(judgements.iter().map(|j| j.text.len()));
    let edge_ends = ends(pieces.iter().map(Vec::len));
    let begins = |i: usize, piece: &[u8]| {
        whole.get(..edge_ends[i]).is_some_and(|before| boundary::eligible(before, piece))
    };
    let mut units = vec![];
    for (first, (piece, step)) in pieces.iter().zip(steps).enumerate() {
        // A word begins both for the reference and for the edge's proposal.
        if !begins(first, &vocabulary.piece(step.proposed)) || !begins(first, piece) {
            continue;
        }
        let next = (first + 1..pieces.len()).find(|&i| begins(i, &pieces[i]));
        let last = next.unwrap_or(pieces.len());
        let place = |at: usize| place(&cloud_ends, edge_ends[at]);
        if let (Some(from), Some(to)) = (place(first), place(last))
            && from < to
        {
            units.push(Unit { edge: first..last, cloud: from..to });
        }
    }
    units
}

/// Where each piece begins, and where the last ends.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let sum = |total: &mut usize, length| {
        *total += length;
        Some(*total)
    };
    [0].into_iter().chain(lengths.scan(0, sum)).collect()
}

/// Which piece begins at this byte; `None` inside one.
fn place(ends: &[usize], byte: usize) -> Option<usize> {
    // Tokens that end inside a character have no text yet: the first of them is meant.
    let at = ends.partition_point(|&end| end < byte);
    (ends.get(at) == Some(&byte)).then_some(at)
}

impl Unit {
    fn label(
        &self,
        reading: EdgeReading<'_>,
        vocabulary: &dyn Vocabulary,
        exchange: Exchange,
        judgements: &[Judgement],
    ) -> Labelled {
        let first = &reading.steps[self.edge.start];
        let read = self.edge.clone().map(|i| (&reading.steps[i], reading.tokens[i]));
        let edge_right = read.clone().all(|(step, token)| step.proposed == token);
        let edge_logprob = read.map(|(step, token)| sampling::logprob(&step.logits, token)).sum();
        let cloud = &judgements[self.cloud.clone()];
        let cloud_right = cloud.iter().all(|j| j.chosen);
        let (label, found) = match (edge_right, cloud_right) {
            (true, _) => (Label::Trust, LabelSource::Edge),
            (false, true) => (Label::Ask, LabelSource::Cloud),
            (false, false) => (Label::Unknown, LabelSource::Neither),
        };
        let sample = Sample {
            hidden: first.hidden.iter().map(|&x| f16::from_f32(x)).collect(),
            features: features(&first.logits),
            label,
            label_source: found,
            edge_logprob,
            cloud_logprob: cloud.iter().map(|j| j.logprob).sum(),
            agrees: Some(match (edge_right, cloud_right) {
                (false, false) => match (exchange, cloud[0].greedy_id) {
                    (Exchange::Ids, Some(id)) => id == first.proposed,
                    _ => alike(&vocabulary.piece(first.proposed), cloud[0].greedy.as_bytes()),
                },
                (edge_right, cloud_right) => edge_right == cloud_right,
            }),
            example: reading.example,
            position: u32::try_from(self.edge.start).unwrap_or(u32::MAX),
        };
        Labelled { sample, proposed: first.proposed }
    }
}

/// What a model would write next, as far as the other can compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    End,
    /// A token, where ids travel.
    Id(Token),
    /// The first piece of a word, where text does.
    Piece(&'a [u8]),
}

impl Choice<'_> {
    /// Whether two models mean the same.
    pub fn agrees(self, other: Self) -> bool {
        match (self, other) {
            (Self::Piece(a), Self::Piece(b)) => alike(a, b),
            (a, b) => a == b,
        }
    }
}

/// Whether two first pieces of a word can be of the same word.
fn alike(edge: &[u8], cloud: &[u8]) -> bool {
    !edge.is_empty() && !cloud.is_empty() && (edge.starts_with(cloud) || cloud.starts_with(edge))
}

#[cfg(test)]
mod tests {
    use decode::fake::FakeVocabulary;

    use super::*;

    /// An edge that would have written these words, each of them one token, in place of the
    /// reference's.
    fn labels(
        reference: &[&str],
        proposals: &[&str],
        cloud: &[&str],
        by: Exchange,
    ) -> Vec<Labelled> {
        let vocabulary = FakeVocabulary::new(&[reference, proposals, cloud].concat());
        let token = |piece: &&str| *vocabulary.encode(piece).first().unwrap_or(&Token(0));
        let step = |proposal: &&str| {
            let mut logits = vec![0.0; vocabulary.len()];
            logits[token(proposal).index()] = 9.0;
            let (hidden, reading) = (vec![1.0, 2.0], decode::Reading::default());
            Step { position: 1, logits, hidden, proposed: token(proposal), reading }
        };
        let tokens: Vec<_> = reference.iter().map(token).collect();
        let steps: Vec<_> = proposals.iter().map(step).collect();
        let judged = reference.iter().zip(cloud).map(|(given, greedy)| Judgement {
            text: (*given).into(),
            logprob: if given == greedy { -0.1 } else { -2.0 },
            chosen: given == greedy,
            greedy: (*greedy).into(),
            greedy_id: Some(token(greedy)),
        });
        let reading = EdgeReading { tokens: &tokens, steps: &steps, example: 5 };
        label(reading, &vocabulary, by, &judged.collect::<Vec<_>>())
    }

    fn found(labelled: &[Labelled]) -> Vec<(u32, Label, LabelSource)> {
        labelled
            .iter()
            .map(|l| (l.sample.position, l.sample.label, l.sample.label_source))
            .collect()
    }

    #[test]
    fn an_edge_that_is_right_is_trusted_whatever_the_cloud_thinks() {
        let labelled = labels(&["The", " cat"], &["The", " cat"], &["The", " dog"], Exchange::Ids);
        let trust = |at| (at, Label::Trust, LabelSource::Edge);
        assert_eq!(found(&labelled), [trust(0), trust(1)]);
        assert_eq!(labelled[0].sample.agrees, Some(true));
        assert_eq!(labelled[1].sample.agrees, Some(false));
        assert_eq!((labelled[1].sample.example, labelled[1].sample.hidden.len()), (5, 2));
    }

    #[test]
    fn where_only_the_cloud_is_right_it_is_asked() {
        let labelled = labels(&["The", " cat"], &["The", " dog"], &["The", " cat"], Exchange::Ids);
        assert_eq!(found(&labelled)[1], (1, Label::Ask, LabelSource::Cloud));
        assert_eq!(labelled[1].sample.agrees, Some(false));
        assert!(labelled[1].sample.cloud_logprob > labelled[1].sample.edge_logprob);
    }

    #[test]
    fn where_neither_is_right_nothing_is_known_yet() {
        let labelled = labels(&["A", " cat"], &["A", " dog"], &["A", " dog"], Exchange::Ids);
        assert_eq!(found(&labelled)[1], (1, Label::Unknown, LabelSource::Neither));
        assert_eq!(labelled[1].sample.agrees, Some(true));
        let labelled = labels(&["A", " cat"], &["A", " dog"], &["A", " cow"], Exchange::Ids);
        assert_eq!(labelled[1].sample.agrees, Some(false));
    }

    #[test]
    fn across_vocabularies_words_are_compared() {
        // "mount" is right, "ains" is not: the decision at the word's start was wrong.
        let reference = ["Under", " mount", "ains", "."];
        let labelled =
            labels(&reference, &["Under", " mount", "ain", "."], &reference, Exchange::Text);
        assert_eq!(
            found(&labelled),
            [
                (0, Label::Trust, LabelSource::Edge),
                (1, Label::Ask, LabelSource::Cloud),
                (3, Label::Trust, LabelSource::Edge)
            ]
        );
    }

    #[test]
    fn a_word_the_edge_would_not_end_is_no_place_to_ask() {
        // The edge would go on with the word where the reference begins another.
        let labelled = labels(&["un", " cat"], &["un", "der"], &["un", " cat"], Exchange::Text);
        assert_eq!(found(&labelled), [(0, Label::Trust, LabelSource::Edge)]);
    }

    #[test]
    fn a_cloud_agrees_with_its_own_text_however_it_cut_it() {
        let vocabulary = FakeVocabulary::new(&["Under", " mount", "ains", "é", "."]);
        let tokens = vocabulary.encode("Under mountainsé.");
        for (exchange, count) in [(Exchange::Ids, tokens.len()), (Exchange::Text, 17)] {
            let own = own_choice(&tokens, &vocabulary, exchange);
            let text: String = own.iter().map(|j| j.text.as_str()).collect();
            assert_eq!((own.len(), text.as_str()), (count, "Under mountainsé."), "{exchange:?}");
            assert!(own.iter().all(|j| j.chosen));
        }
    }

    #[test]
    fn what_the_cloud_did_not_judge_is_left_out() {
        assert_eq!(labels(&["a", " b"], &["a", " b"], &["a"], Exchange::Ids).len(), 1);
        assert_eq!(labels(&["a", " b"], &["a", " b"], &["a"], Exchange::Text).len(), 1);
        assert_eq!(labels(&["a", " b"], &["a"], &["a", " b"], Exchange::Ids).len(), 1);
    }
}
