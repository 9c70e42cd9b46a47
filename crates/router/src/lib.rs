//! Routers: how far can the edge's proposal be trusted?
//!
//! Some need no training. One file each: [`top1`], [`margin`], [`entropy`], [`random`],
//! [`constant`]; [`kind`] names them.
//!
//! One is trained. Its way, and the module that holds each part of it:
//!
//! - [`mod@features`] (of `decode`): what it sees of the distribution, besides the hidden state
//! - [`mod@label`]: what it should have said at each position of a worked answer
//! - [`sample`]: what collecting keeps of one position, and files of many; [`collection`]: a folder
//!   of such files, which [`collection::traffic`] fills from live use
//! - [`mod@train`]: from samples to a router; [`metrics`] and [`plot`] say how good it is
//! - [`mod@file`]: the router file; [`metadata`]: what it says about itself
//! - [`mlp`]: the router that is built from it
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod atomic;
pub mod collection;
pub mod constant;
pub mod entropy;
pub mod file;
pub mod kind;
pub mod label;
pub mod margin;
pub mod metadata;
pub mod metrics;
pub mod mlp;
pub mod plot;
pub mod random;
pub mod sample;
mod tensors;
pub mod top1;
pub mod train;

pub use collection::{Collection, CollectionError};
pub use constant::Constant;
pub use decode::features::{self, FEATURES, TOP, features};
pub use entropy::Entropy;
pub use file::{FileError, Flaw, Layer, RouterFile};
pub use kind::{RouterKind, UnknownRouter};
pub use margin::Margin;
pub use metadata::{Calibration, Inputs, Metadata, Objective, Point, Report};
pub use mlp::Mlp;
pub use random::Random;
pub use sample::{Label, LabelSource, Sample, SampleError, read_shard, write_shard};
pub use tensors::Malformed;
pub use top1::Top1;
pub use train::{Options, SampleOrigin, TrainError, Trained, train};

#[cfg(test)]
mod tests {
    use decode::{Reading, Router, Step, Token};

    use crate::*;

    pub(crate) fn step(logits: &[f32], position: usize) -> Step {
        let (hidden, reading) = (vec![], Reading::default());
        Step { position, logits: logits.to_vec(), hidden, proposed: Token(0), reading }
    }

    #[test]
    fn scores_of_a_known_distribution() {
        // p = 0.75, 0.25: entropy 0.5623 nats.
        let step = step(&[3f32.ln(), 0.0], 1);
        assert!((Top1.score(&step).value() - 0.75).abs() < 1e-6);
        assert!((Margin.score(&step).value() - 0.5).abs() < 1e-6);
        assert!((Entropy.score(&step).value() - (-0.562_335f32).exp()).abs() < 1e-5);
        assert_eq!(Constant::Always.score(&step).value(), 0.0);
        assert_eq!(Constant::Never.score(&step).value(), 1.0);
    }

    #[test]
    fn certainty_is_trusted_and_doubt_is_not() {
        let (sure, unsure) = (step(&[50.0, 0.0, 0.0, 0.0], 1), step(&[1.0; 4], 1));
        for router in [&Top1 as &dyn Router, &Margin, &Entropy] {
            assert!(router.score(&sure).value() > 0.99);
            assert!(router.score(&unsure).value() < 0.3);
        }
    }
}
