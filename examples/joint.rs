//! A joint decode in twenty lines: every word with who wrote it and how far it was trusted.
//!
//! `cargo run --release --package tandem --example joint -- "Why is the sky blue?"`

use tandem::{Source, Tandem};

#[tokio::main]
async fn main() -> Result<(), tandem::Error> {
    let question = std::env::args().nth(1).unwrap_or_else(|| "Why is the sky blue?".into());
    let tandem = Tandem::builder().budget(0.1).max_tokens(64).build()?;
    let mut generation = tandem.generate(question).await?;
    while let Some(span) = generation.next().await? {
        for token in span.tokens {
            let writer = if token.source == Source::Cloud { "large" } else { "small" };
            let trust = token.score.map_or(1.0, |score| score.value());
            println!("{writer}  {trust:.2}  {:?}", token.text);
        }
    }
    let stats = generation.summary().stats;
    println!("{:.1} % of {} tokens from the cloud", stats.routed_share * 100.0, stats.tokens);
    Ok(())
}
