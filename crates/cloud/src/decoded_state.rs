//! What the edge saw at a position, on its way to a cloud that collects: made there, read here.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use decode::{
    Exchange, Step, Token, Vocabulary,
    features::{FEATURES, features},
};
use half::f16;

use crate::protocol::EdgeState;

/// The same as numbers, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedState {
    pub hidden: Vec<f16>,
    /// The shape of the distribution.
    pub features: [f32; FEATURES],
    pub proposed: Token,
    /// Its bytes, where text travels; none for the end of the text.
    pub piece: Vec<u8>,
}

impl EdgeState {
    /// What is told of a step; `None` where its numbers do not fit in half precision.
    pub fn new(step: &Step, exchange: Exchange, vocabulary: &dyn Vocabulary) -> Option<Self> {
        let hidden: Vec<f16> = step.hidden.iter().map(|&x| f16::from_f32(x)).collect();
        if !hidden.iter().all(|x| x.is_finite()) {
            return None;
        }
        let bytes: Vec<u8> = hidden.iter().flat_map(|x| x.to_le_bytes()).collect();
        let piece = || {
            // Some tokenizers spell even the end of a text.
            let end = vocabulary.is_end(step.proposed);
            let piece = if end { vec![] } else { vocabulary.piece(step.proposed) };
            STANDARD.encode(piece)
        };
        Some(Self {
            proposed: step.proposed,
            piece: (exchange == Exchange::Text).then(piece),
            hidden: STANDARD.encode(bytes),
            features: features(&step.logits).to_vec(),
        })
    }

    /// The numbers, of an edge whose hidden state is this long; or what is wrong with them.
    pub fn read(&self, hidden: usize, exchange: Exchange) -> Result<DecodedState, String> {
        let bytes = STANDARD.decode(&self.hidden);
        let bytes = bytes.map_err(|e| format!("the hidden state is no base64: {e}"))?;
        let (pairs, rest) = bytes.as_chunks::<2>();
        if pairs.len() != hidden || !rest.is_empty() {
            let found = bytes.len();
            return Err(format!(
                "the hidden state has {found} bytes where the edge's {hidden} numbers take {}",
                hidden * 2
            ));
        }
        let hidden: Vec<f16> = pairs.iter().map(|&pair| f16::from_le_bytes(pair)).collect();
        let features: [f32; FEATURES] = self.features.as_slice().try_into().map_err(|_| {
            format!("{} features came where there are {FEATURES}", self.features.len())
        })?;
        let finite = hidden.iter().all(|x| x.is_finite()) && features.iter().all(|x| x.is_finite());
        if !finite {
            return Err("the hidden state or a feature holds what is no finite number".into());
        }
        let piece = match (exchange, &self.piece) {
            (Exchange::Ids, _) => vec![],
            (Exchange::Text, Some(piece)) => {
                STANDARD.decode(piece).map_err(|e| format!("the piece is no base64: {e}"))?
            }
            (Exchange::Text, None) => {
                return Err("text travels, and the proposed token's piece is missing".into());
            }
        };
        Ok(DecodedState { hidden, features, proposed: self.proposed, piece })
    }
}

#[cfg(test)]
mod tests {
    use decode::{Reading, fake::FakeVocabulary};

    use super::*;

    fn step(hidden: &[f32], proposed: u32) -> Step {
        let (hidden, reading) = (hidden.to_vec(), Reading::default());
        let logits = vec![1.0, 2.0, 0.5];
        Step { position: 1, logits, hidden, proposed: Token(proposed), reading }
    }

    #[test]
    fn numbers_come_back_as_they_were() {
        let vocabulary = FakeVocabulary::new(&[" cat"]);
        let step = step(&[0.5, -2.25, 1e-3], 257);
        for (exchange, piece) in [(Exchange::Ids, &b""[..]), (Exchange::Text, b" cat")] {
            let state = EdgeState::new(&step, exchange, &vocabulary).unwrap();
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<EdgeState>(&json).unwrap(), state);
            let read = state.read(3, exchange).unwrap();
            assert_eq!(read.hidden, [0.5, -2.25, 1e-3].map(f16::from_f32));
            assert_eq!(read.features, features(&step.logits));
            assert_eq!(read.piece, piece);
        }
    }

    #[test]
    fn the_end_of_a_text_has_no_piece() {
        let state =
            EdgeState::new(&step(&[1.0], 0), Exchange::Text, &FakeVocabulary::new(&[])).unwrap();
        assert_eq!(state.read(1, Exchange::Text).unwrap().piece, b"");
    }

    #[test]
    fn what_does_not_fit_in_half_precision_is_not_told() {
        let vocabulary = FakeVocabulary::new(&[]);
        for bad in [1e6, f32::NAN, f32::INFINITY] {
            assert!(EdgeState::new(&step(&[1.0, bad], 5), Exchange::Ids, &vocabulary).is_none());
        }
    }

    #[test]
    fn what_is_malformed_is_named() {
        let vocabulary = FakeVocabulary::new(&[]);
        let good = EdgeState::new(&step(&[1.0, 2.0], 5), Exchange::Text, &vocabulary).unwrap();
        let nan = STANDARD.encode([f16::NAN.to_le_bytes(), f16::ONE.to_le_bytes()].concat());
        let cases = [
            (EdgeState { hidden: "!".into(), ..good.clone() }, "no base64"),
            (EdgeState { hidden: STANDARD.encode([0; 3]), ..good.clone() }, "3 bytes"),
            (EdgeState { hidden: String::new(), ..good.clone() }, "0 bytes"),
            (EdgeState { hidden: nan, ..good.clone() }, "no finite number"),
            (EdgeState { features: vec![0.5], ..good.clone() }, "1 features"),
            (
                EdgeState { features: vec![f32::INFINITY; FEATURES], ..good.clone() },
                "no finite number",
            ),
            (EdgeState { piece: Some("?".into()), ..good.clone() }, "the piece is no base64"),
            (EdgeState { piece: None, ..good.clone() }, "piece is missing"),
        ];
        for (state, says) in cases {
            let error = state.read(2, Exchange::Text).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
        assert!(good.read(3, Exchange::Text).unwrap_err().contains("4 bytes"));
    }
}
