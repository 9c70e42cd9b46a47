//! The network while it is trained: in → 2h → h → 1, with batch normalisation and dropout.
//!
//! What is normalised here disappears into the weights when a router is written; see [`fold`].
//!
//! [`fold`]: super::fold

use candle_core::{Device, Result, Tensor, Var, backprop::GradStore};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

use super::random::Random;

/// Keeps a variance of 0 from dividing.
pub(super) const EPSILON: f64 = 1e-5;

/// How much of the running statistics each batch replaces.
const MOMENTUM: f64 = 0.1;

/// The share of hidden units left out at each update.
const DROPOUT: f32 = 0.1;

/// Of AdamW, for the matrices.
const WEIGHT_DECAY: f32 = 1e-2;

/// A linear map, then batch normalisation, then ReLU, then dropout.
pub(super) struct Block {
    /// One column for each output: gradients then need no transposition.
    pub(super) weight: Var,
    /// What the normalised outputs are multiplied by.
    pub(super) scale: Var,
    /// What is added to them.
    pub(super) shift: Var,
    pub(super) mean: Tensor,
    pub(super) variance: Tensor,
}

pub(super) struct Network {
    pub(super) blocks: [Block; 2],
    pub(super) weight: Var,
    pub(super) bias: Var,
    batches: usize,
}

impl Block {
    fn new(inputs: usize, outputs: usize, random: &mut Random) -> Result<Self> {
        let cpu = &Device::Cpu;
        // Kaiming's bound for ReLU.
        let bound = (6.0 / inputs as f32).sqrt();
        let weight = random.uniform(inputs * outputs, bound);
        Ok(Self {
            weight: Var::from_vec(weight, (inputs, outputs), cpu)?,
            scale: Var::from_vec(vec![1f32; outputs], (1, outputs), cpu)?,
            shift: Var::from_vec(vec![0f32; outputs], (1, outputs), cpu)?,
            mean: Tensor::from_vec(vec![0f32; outputs], (1, outputs), cpu)?,
            variance: Tensor::from_vec(vec![1f32; outputs], (1, outputs), cpu)?,
        })
    }

    /// Means are taken as products with a row of 1/n: that is far faster, forwards and backwards,
    /// than summing columns.
    fn learn(&mut self, x: &Tensor, dropout: Tensor, momentum: f64) -> Result<Tensor> {
        let x = x.matmul(&self.weight)?;
        let (n, outputs) = x.dims2()?;
        let average = Tensor::full(1.0 / n as f32, (1, n), x.device())?;
        let repeat = Tensor::ones((n, 1), x.dtype(), x.device())?;
        let mean = average.matmul(&x)?;
        let centred = (x - repeat.matmul(&mean)?)?;
        let variance = average.matmul(&centred.sqr()?)?;
        let scale = (self.scale.as_tensor() / (&variance + EPSILON)?.sqrt()?)?;
        let y = ((centred * repeat.matmul(&scale)?)? + repeat.matmul(&self.shift)?)?;

        let blend = |old: &Tensor, new: &Tensor| {
            (old.affine(1.0 - momentum, 0.0)? + new.detach().affine(momentum, 0.0)?)?
                .detach()
                .copy()
        };
        // The variance of a sample is a little less than that of all.
        let all = (&variance * (n as f64 / (n.max(2) - 1) as f64))?;
        self.mean = blend(&self.mean, &mean)?;
        self.variance = blend(&self.variance, &all)?;
        y.relu()? * dropout.reshape((n, outputs))?
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let scale = (self.scale.as_detached_tensor() / (&self.variance + EPSILON)?.sqrt()?)?;
        let x = x.matmul(&self.weight.as_detached_tensor())?;
        let x = x.broadcast_sub(&self.mean)?.broadcast_mul(&scale)?;
        x.broadcast_add(&self.shift.as_detached_tensor())?.relu()
    }
}

impl Network {
    pub(super) fn new(inputs: usize, hidden: usize, random: &mut Random) -> Result<Self> {
        let blocks =
            [Block::new(inputs, 2 * hidden, random)?, Block::new(2 * hidden, hidden, random)?];
        let weight = random.uniform(hidden, (1.0 / hidden as f32).sqrt());
        Ok(Self {
            blocks,
            weight: Var::from_vec(weight, (hidden, 1), &Device::Cpu)?,
            bias: Var::from_vec(vec![0f32], (1, 1), &Device::Cpu)?,
            batches: 0,
        })
    }

    /// One output for each row, with dropout and the statistics of this batch.
    pub(super) fn learn(&mut self, x: &Tensor, random: &mut Random) -> Result<Tensor> {
        // The first batches count alike, so that short trainings have good statistics too.
        self.batches += 1;
        let momentum = MOMENTUM.max(1.0 / self.batches as f64);
        let n = x.dim(0)?;
        let mut x = x.clone();
        for block in &mut self.blocks {
            let count = n * block.scale.elem_count();
            let mask = Tensor::from_vec(random.dropout(count, DROPOUT), count, x.device())?;
            x = block.learn(&x, mask, momentum)?;
        }
        x.matmul(&self.weight)?.broadcast_add(&self.bias)?.flatten_all()
    }

    /// One output for each row, as a finished router would give it.
    pub(super) fn apply(&self, x: &Tensor) -> Result<Vec<f32>> {
        let mut x = x.clone();
        for block in &self.blocks {
            x = block.apply(&x)?;
        }
        let (weight, bias) = (self.weight.as_detached_tensor(), self.bias.as_detached_tensor());
        x.matmul(&weight)?.broadcast_add(&bias)?.flatten_all()?.to_vec1()
    }
}

/// AdamW that lets only the matrices decay.
pub(super) struct Optimisers {
    matrices: AdamW,
    others: AdamW,
}

impl Optimisers {
    pub(super) fn new(network: &Network, learning_rate: f32) -> Result<Self> {
        let lr = f64::from(learning_rate);
        let settings = |weight_decay| ParamsAdamW { lr, weight_decay, ..ParamsAdamW::default() };
        let [first, second] = &network.blocks;
        let matrices = [&first.weight, &second.weight, &network.weight];
        let others = [&first.scale, &first.shift, &second.scale, &second.shift, &network.bias];
        Ok(Self {
            matrices: AdamW::from_slice(&matrices, settings(WEIGHT_DECAY.into()))?,
            others: AdamW::from_slice(&others, settings(0.0))?,
        })
    }

    pub(super) fn step(&mut self, gradients: &GradStore) -> Result<()> {
        self.matrices.step(gradients)?;
        self.others.step(gradients)
    }
}
