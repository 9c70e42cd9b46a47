//! How far rounding can move the logits of a quantised model.
//!
//! Every kernel rounds in its own way: another CPU, or a batch of another size, moves a logit by a
//! tenth of a nat, and with it the choice between two tokens that are nearly as likely. Tests compare
//! choices only where the lead is larger than that.

/// More than rounding moves a logit: compared with the same weights in 32 bits, llama.cpp's kernels
/// were off by 0.06.
pub const ROUNDING: f32 = 0.25;

/// A lead that rounding cannot reverse, although it may move both logits.
pub const CLEAR_LEAD: f32 = 2.0 * ROUNDING;

/// How many nats the first choice is ahead of the second.
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
