//! Routers: how far can the edge's proposal be trusted?
//!
//! Some need no training. One file each: [`top1`], [`margin`], [`entropy`], [`random`],
//! [`constant`]; [`kind`] names them.
//!
//! One is trained, elsewhere, and comes as a file:
//!
//! - [`mod@file`]: the router file; [`metadata`]: what it says about itself, with the table from
//!   shares to thresholds
//! - [`mlp`]: the router that is built from it
//! - [`mod@features`] (of `decode`): what it sees of the distribution, besides the hidden state;
//!   [`tokens`]: the numbers that stand for the best tokens there
//! - [`tensors`] and [`atomic`]: how such files are read and written; files of samples use them too
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod atomic;
pub mod constant;
pub mod entropy;
pub mod file;
pub mod kind;
pub mod margin;
pub mod metadata;
pub mod mlp;
pub mod random;
pub mod tensors;
pub mod tokens;
pub mod top1;

pub use constant::Constant;
pub use decode::features::{self, FEATURES, Seen, TOP, features};
pub use entropy::Entropy;
pub use file::{FileError, Flaw, Layer, RouterFile};
pub use kind::{RouterKind, UnknownRouter};
pub use margin::Margin;
pub use metadata::{Calibration, Inputs, Metadata, Objective, Point, Report};
pub use mlp::Mlp;
pub use random::Random;
pub use tensors::Malformed;
pub use tokens::{TOKEN_WIDTH, TokenTable};
pub use top1::Top1;

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
