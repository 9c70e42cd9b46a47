//! A router of one's own: it doubts the small model where two tokens are nearly as likely.
//!
//! `cargo run --release --package tandem --example custom_router`

use std::sync::Arc;

use tandem::{Router, Score, Step, Tandem, Threshold};

/// Doubts every position whose likeliest token leads the second by little.
struct Lead;

impl Router for Lead {
    fn score(&self, step: &Step) -> Score {
        let (mut first, mut second) = (f32::MIN, f32::MIN);
        for &logit in &step.logits {
            if logit > first {
                (first, second) = (logit, first);
            } else if logit > second {
                second = logit;
            }
        }
        // Two nats ahead is as good as certain.
        Score::new(((first - second) / 2.0).min(1.0))
    }
}

#[tokio::main]
async fn main() -> Result<(), tandem::Error> {
    let tandem = Tandem::builder()
        .router(Arc::new(Lead))
        .threshold(Threshold::new(0.15)?)
        .max_tokens(64)
        .build()?;
    let answer = tandem.answer("How many legs do three spiders have?").await?;
    println!("{}", answer.text);
    let stats = answer.summary.stats;
    println!("{} asks, {:.1} % from the cloud", stats.asks, stats.routed_share * 100.0);
    Ok(())
}
