//! The trained router: three affine maps with ReLU between them.

use decode::{Router, Score, Step};
use half::{f16, slice::HalfFloatSliceExt};

use crate::{
    features::Seen,
    file::{Layer, RouterFile},
    metadata::Inputs,
    tokens::TokenTable,
};

/// Sums that run side by side, so that no addition waits for the one before it.
const LANES: usize = 32;

/// A multilayer perceptron on the edge's hidden state.
///
/// The score is the probability that keeping the proposed token is right. A step whose hidden state
/// has another length than the router was trained for, or holds what is not a finite number, scores
/// 0: it is never trusted.
#[derive(Clone, Debug)]
pub struct Mlp {
    hidden: usize,
    inputs: Inputs,
    layers: [Layer; 3],
    tokens: Option<TokenTable>,
}

impl Mlp {
    /// A router from its file, whose sizes were checked when it was made.
    pub fn new(file: &RouterFile) -> Self {
        let (hidden, inputs) = (file.metadata().hidden, file.metadata().inputs);
        let tokens = file.tokens().cloned();
        Self { tokens, ..Self::from_layers(hidden, inputs, file.layers().clone()) }
    }

    /// A router that is not in a file yet, and reads no tokens.
    pub fn from_layers(hidden: usize, inputs: Inputs, layers: [Layer; 3]) -> Self {
        Self { hidden, inputs, layers, tokens: None }
    }

    /// The weights, to be written to a file.
    pub fn into_layers(self) -> [Layer; 3] {
        self.layers
    }

    /// The score of a hidden state. What is seen of the logits is computed only where the router was
    /// trained with it.
    pub fn score_state(&self, hidden: &[f32], seen: impl FnOnce() -> Seen) -> Score {
        if hidden.len() != self.hidden || !hidden.iter().all(|x| x.is_finite()) {
            return Score::new(0.0);
        }
        let [first, second, third] = &self.layers;
        let output = match self.inputs {
            Inputs::Hidden => first.apply(hidden),
            Inputs::HiddenLogits => first.apply(&[hidden, &seen().features].concat()),
            Inputs::HiddenLogitsTokens => first.apply(&self.with_tokens(hidden, &seen())),
        };
        let output = third.apply(&relu(second.apply(&relu(output))));
        Score::new(output.first().map_or(0.0, |&z| sigmoid(z)))
    }

    fn with_tokens(&self, hidden: &[f32], seen: &Seen) -> Vec<f32> {
        let mut inputs = [hidden, &seen.features].concat();
        for token in seen.best {
            let row = self.tokens.as_ref().map_or(&[][..], |table| table.row(token));
            inputs.extend(row.iter().map(|number| number.to_f32()));
        }
        inputs
    }
}

impl Router for Mlp {
    fn score(&self, step: &Step) -> Score {
        self.score_state(&step.hidden, || Seen::of(&step.logits))
    }
}

impl Layer {
    fn apply(&self, input: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(input.len().max(1));
        rows.zip(&self.bias).map(|(row, bias)| dot(row, input) + bias).collect()
    }
}

fn dot(row: &[f16], input: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (rows, row_left) = row.as_chunks::<LANES>();
    let (inputs, input_left) = input.as_chunks::<LANES>();
    for (row, input) in rows.iter().zip(inputs) {
        let mut weights = [0.0f32; LANES];
        row.convert_to_f32_slice(&mut weights);
        for lane in 0..LANES {
            lanes[lane] += weights[lane] * input[lane];
        }
    }
    let left: f32 = row_left.iter().zip(input_left).map(|(w, x)| w.to_f32() * x).sum();
    lanes.iter().sum::<f32>() + left
}

fn relu(mut values: Vec<f32>) -> Vec<f32> {
    values.iter_mut().for_each(|value| *value = value.max(0.0));
    values
}

/// 1 / (1 + e^−z).
fn sigmoid(z: f32) -> f32 {
    1.0 / (1.0 + (-z).exp())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use decode::{Reading, Token};

    use super::*;
    use crate::{features::features, file::tests::router, tokens::TOKEN_WIDTH};

    fn step(hidden: Vec<f32>) -> Step {
        let (logits, reading) = (vec![1.0, 3.0, 2.0], Reading::default());
        Step { position: 1, logits, hidden, proposed: Token(1), reading }
    }

    fn slow(file: &RouterFile, mut x: Vec<f64>) -> f64 {
        for (i, layer) in file.layers().iter().enumerate() {
            let row = |(row, bias): (&[f16], &f32)| {
                let z = row.iter().zip(&x).map(|(w, x)| w.to_f64() * x).sum::<f64>();
                let z = z + f64::from(*bias);
                if i < 2 { z.max(0.0) } else { z }
            };
            x = layer.weight.chunks(x.len()).zip(&layer.bias).map(row).collect();
        }
        1.0 / (1.0 + (-x[0]).exp())
    }

    #[test]
    fn equals_the_slow_way_whatever_the_size() {
        for inputs in [Inputs::Hidden, Inputs::HiddenLogits, Inputs::HiddenLogitsTokens] {
            for size in [1, 2, 31, 33, 300] {
                let file = router(size, inputs);
                let step = step((0..size).map(|i| (i as f32).sin() / size as f32).collect());
                let mut all: Vec<f64> = step.hidden.iter().map(|&x| f64::from(x)).collect();
                if inputs != Inputs::Hidden {
                    all.extend(features(&step.logits).map(f64::from));
                }
                // Of these tokens the best has the first row of its own, the other that of all others.
                for row in file.tokens().iter().flat_map(|_| [1.0, 0.0]) {
                    all.extend([row; TOKEN_WIDTH]);
                }
                let (fast, slow) = (Mlp::new(&file).score(&step).value(), slow(&file, all));
                assert!((f64::from(fast) - slow).abs() < 1e-3, "{size}: {fast} {slow}");
            }
        }
    }

    /// `scripts/general/fixture.py` made the router and the scores; they differ by what PyTorch and
    /// this program round differently.
    #[test]
    fn scores_as_it_was_trained_to() {
        #[derive(serde::Deserialize)]
        struct Trained {
            hidden: Vec<f32>,
            logits: Vec<Option<f32>>,
            score: f32,
        }
        let file = include_bytes!("../fixtures/tokens.safetensors");
        let mlp = Mlp::new(&RouterFile::from_bytes(file).unwrap());
        let steps = include_str!("../fixtures/tokens.json");
        let steps: Vec<Trained> = serde_json::from_str(steps).unwrap();
        assert_eq!(steps.len(), 16);
        for Trained { hidden, logits, score } in steps {
            let logits = logits.into_iter().map(|l| l.unwrap_or(f32::NEG_INFINITY)).collect();
            let found = mlp.score(&Step { logits, ..step(hidden) }).value();
            assert!((found - score).abs() < 1e-5, "{found} where training had {score}");
        }
    }

    #[test]
    fn what_it_was_not_trained_for_is_never_trusted() {
        let mlp = Mlp::new(&router(4, Inputs::Hidden));
        assert!(mlp.score(&step(vec![0.1; 4])).value() > 0.0);
        for hidden in [vec![], vec![0.1; 3], vec![0.1; 5], vec![f32::NAN; 4]] {
            assert_eq!(mlp.score(&step(hidden)).value(), 0.0);
        }
        let infinite = mlp.score(&step(vec![0.1, 0.1, f32::INFINITY, 0.1]));
        assert_eq!(infinite.value(), 0.0);
    }

    #[test]
    fn takes_little_time() {
        let mlp = Mlp::new(&router(576, Inputs::Hidden));
        let step = step((0..576).map(|i| (i as f32).sin()).collect());
        mlp.score(&step);
        // The least of several, so that a busy machine does not matter.
        let time = |_| {
            let started = Instant::now();
            std::hint::black_box(mlp.score(std::hint::black_box(&step)));
            started.elapsed()
        };
        let least = (0..50).map(time).min().unwrap();
        println!("one score with a hidden state of 576: {least:?}");
        assert!(least.as_micros() < 2000, "{least:?}");
    }
}
