//! `tandem bench agree`: how far two models agree on the next token.

use std::io::Write;

use decode::{Message, Token, Vocabulary, sampling};
use engine::{Compute, LoadOptions, Model, Sequence};
use lab::{Progress, eval::Example};
use models::Role;
use serde::Serialize;

use crate::{args::BenchAgreeArgs, progress::TerminalProgress, show::print_json};

/// What was seen at every position behind a question.
#[derive(Default, Serialize)]
struct Agreement {
    questions: usize,
    positions: usize,
    /// Positions where both models put the same token first.
    same: usize,
    agreement: f64,
    /// Of the reference's distribution from the edge's, in nats.
    mean_kl: f64,
}

pub async fn agree(args: BenchAgreeArgs) -> anyhow::Result<()> {
    let store = args.edge.store()?;
    let options = args.edge.config().options(&store, &args.machine.config(), 1)?;
    let path = store.resolve(args.reference.as_deref(), Role::Edge)?;
    let reference = LoadOptions { path, adapters: vec![], ..options.clone() };
    let mut examples = Example::read(&args.data)?;
    examples.truncate(args.limit.unwrap_or(usize::MAX));
    let compute = Compute::start()?;
    let edge = Model::load(&compute, options).await?;
    let reference = Model::load(&compute, reference).await?;
    anyhow::ensure!(
        edge.vocabulary().fingerprint() == reference.vocabulary().fingerprint(),
        "the two models have different vocabularies: their tokens cannot be compared"
    );
    let (mut edge, mut reference) = (edge.open().await?, reference.open().await?);
    let mut figures = Agreement::default();
    let mut sum = 0.0;
    let progress = TerminalProgress::default();
    progress.begin("comparing", examples.len());
    for example in &examples {
        let messages =
            [Message::system("You are a helpful assistant."), Message::user(example.prompt())];
        let prompt = reference.model().vocabulary().prompt(&messages)?;
        let (text, theirs) = write(&mut reference, &prompt, args.tokens).await?;
        let ours = read(&mut edge, &prompt, &text).await?;
        for (theirs, ours) in theirs.iter().zip(&ours) {
            figures.positions += 1;
            figures.same += usize::from(sampling::argmax(theirs) == sampling::argmax(ours));
            sum += divergence(theirs, ours);
        }
        figures.questions += 1;
        progress.step();
    }
    let positions = figures.positions.max(1) as f64;
    figures.agreement = figures.same as f64 / positions;
    figures.mean_kl = sum / positions;
    print(&figures, args.json)
}

/// Writes greedily behind a prompt; the tokens, and the logits each was taken from.
async fn write(
    sequence: &mut Sequence,
    prompt: &[Token],
    count: usize,
) -> anyhow::Result<(Vec<Token>, Vec<Vec<f32>>)> {
    sequence.truncate(0);
    let (mut text, mut all, mut unread) = (vec![], vec![], prompt.to_vec());
    for _ in 0..count {
        let logits = sequence.read(&unread, false).await?.logits;
        let Some(next) = sampling::argmax(&logits) else { break };
        all.push(logits);
        text.push(next);
        unread = vec![next];
        if sequence.model().vocabulary().is_end(next) {
            break;
        }
    }
    Ok((text, all))
}

/// The logits behind the prompt and behind each token of a text but the last.
async fn read(
    sequence: &mut Sequence,
    prompt: &[Token],
    text: &[Token],
) -> anyhow::Result<Vec<Vec<f32>>> {
    sequence.truncate(0);
    let mut all = vec![sequence.read(prompt, true).await?.logits];
    for token in text.iter().take(text.len().saturating_sub(1)) {
        all.push(sequence.read(&[*token], true).await?.logits);
    }
    Ok(all)
}

/// The Kullback-Leibler divergence of the second distribution from the first, in nats.
fn divergence(first: &[f32], second: &[f32]) -> f64 {
    let normal = |logits: &[f32]| {
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = logits.iter().map(|l| f64::from(l - most).exp()).sum();
        f64::from(most) + sum.ln()
    };
    let (p, q) = (normal(first), normal(second));
    let term = |(&a, &b): (&f32, &f32)| {
        let (a, b) = (f64::from(a) - p, f64::from(b) - q);
        a.exp() * (a - b)
    };
    first.iter().zip(second).map(term).sum()
}

fn print(figures: &Agreement, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(figures);
    }
    let mut out = std::io::stdout().lock();
    let Agreement { questions, positions, same, agreement, mean_kl } = figures;
    writeln!(out, "{questions} questions, {positions} positions")?;
    writeln!(out, "  same first token    {agreement:.4} ({same})")?;
    writeln!(out, "  mean divergence     {mean_kl:.5} nats")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::divergence;

    #[test]
    fn divergence_by_hand() {
        let logits = [0.0, 1.0, -2.0];
        assert!(divergence(&logits, &logits).abs() < 1e-12);
        // p = 1/2, 1/2; q = 3/4, 1/4.
        let kl = divergence(&[0.0, 0.0], &[3f32.ln(), 0.0]);
        assert!((kl - 0.143_841).abs() < 1e-5, "{kl}");
    }
}
