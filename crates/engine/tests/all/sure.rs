//! What a quantised model is sure of.
//!
//! Every kernel rounds in its own way: another CPU, or a batch of another size, moves a logit by a
//! tenth of a nat, and with it the choice between two tokens that are nearly as likely. Only what is
//! further apart than that is the model's word.

/// Further than rounding moves a logit: against the same weights in 32 bits llama.cpp's kernels were
/// off by 0.06.
pub const ROUNDING: f32 = 0.25;

/// A lead that rounding cannot turn, which moves both ends of it.
pub const CLEAR: f32 = 2.0 * ROUNDING;

/// How far, in nats, the first choice is ahead of the second.
pub fn lead(logits: &[f32]) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &logit in logits {
        if logit > first {
            (first, second) = (logit, first);
        } else if logit > second {
            second = logit;
        }
    }
    first - second
}
