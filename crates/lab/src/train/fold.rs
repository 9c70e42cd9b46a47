//! From a trained network to the three affine maps of a router file.

use candle_core::{Result, Tensor};
use half::f16;
use router::Layer;

use super::{
    data::Standard,
    network::{Block, EPSILON, Network},
    platt::Platt,
};

/// A network's weights as they are after standardisation and batch normalisation have been
/// multiplied into them.
pub(super) struct Folded {
    first: Layer,
    second: Layer,
    /// Still in full precision: scaling comes later.
    last: Vec<f32>,
    bias: f32,
}

impl Folded {
    pub(super) fn new(network: &Network, standard: &Standard) -> Result<Self> {
        let [first, second] = &network.blocks;
        let mut first = fold(first, &standard.inverse)?;
        // With the rounded weights: an input whose mean is far larger than its deviation would
        // otherwise turn their rounding into a shift.
        for (row, bias) in first.weight.chunks(standard.width()).zip(&mut first.bias) {
            let at_mean: f64 =
                row.iter().zip(&standard.mean).map(|(w, &mean)| w.to_f64() * f64::from(mean)).sum();
            *bias -= at_mean as f32;
        }
        let second = fold(second, &vec![1.0; network.blocks[1].weight.dim(0)?])?;
        let last = numbers(&network.weight)?;
        let bias = numbers(&network.bias)?.iter().sum();
        Ok(Self { first, second, last, bias })
    }

    /// The layers, with the scaling of the output in the last.
    pub(super) fn scaled(self, platt: Platt) -> [Layer; 3] {
        let weight = self.last.iter().map(|w| round(w * platt.slope)).collect();
        let bias = vec![self.bias * platt.slope + platt.offset];
        [self.first, self.second, Layer { weight, bias }]
    }
}

/// One block, whose inputs are multiplied by `inverse` first.
fn fold(block: &Block, inverse: &[f32]) -> Result<Layer> {
    let (scale, shift) = (numbers(&block.scale)?, numbers(&block.shift)?);
    let (mean, variance) = (numbers(&block.mean)?, numbers(&block.variance)?);
    let weight = numbers(&block.weight)?;
    let outputs = scale.len();
    let normalised = |(scale, variance): (f32, f32)| {
        (f64::from(scale) / (f64::from(variance) + EPSILON).sqrt()) as f32
    };
    let scale: Vec<f32> = scale.into_iter().zip(variance).map(normalised).collect();
    let mut rows = Vec::with_capacity(weight.len());
    for (output, scale) in scale.iter().enumerate() {
        let column = weight.iter().skip(output).step_by(outputs);
        rows.extend(column.zip(inverse).map(|(w, inverse)| round(w * inverse * scale)));
    }
    let bias =
        shift.iter().zip(&mean).zip(&scale).map(|((shift, mean), scale)| shift - mean * scale);
    Ok(Layer { weight: rows, bias: bias.collect() })
}

fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}

fn round(weight: f32) -> f16 {
    f16::from_f32(weight.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()))
}
