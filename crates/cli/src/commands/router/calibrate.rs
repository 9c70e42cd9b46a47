//! `tandem router calibrate`: from a budget to a threshold, on the user's own prompts.
//!
//! The edge answers each prompt alone, and the router only watches. A threshold's share is then that
//! of the tokens in words that it would have asked for.

use std::{
    io::Write,
    sync::{Mutex, PoisonError},
};

use decode::{Edge, Exchange, Message, Router, Score, Step, Transcript, boundary};
use lab::eval::{Example, Worked};
use router::{Calibration, Point, RouterFile};
use tandem::{NamedRouter, Share};

use crate::{
    args::CalibrateArgs,
    config::UsageError,
    config::edge_alone,
    crew::{Way, Worker, Workers},
    progress::Progress,
    show::say,
};

/// The shares a table has.
const SHARES: [f32; 12] = [0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7];

/// What routers think of every position of texts the edge wrote alone.
pub struct Watch<'a> {
    routers: Vec<&'a dyn Router>,
    scores: Mutex<Vec<Vec<f32>>>,
    /// For each router: score and length, in tokens, of each word that could have been asked for.
    words: Vec<Vec<(f32, usize)>>,
    tokens: usize,
}

impl<'a> Watch<'a> {
    pub fn new(routers: Vec<&'a dyn Router>) -> Self {
        let words = vec![vec![]; routers.len()];
        Self { routers, scores: Mutex::default(), words, tokens: 0 }
    }

    /// Lets the edge answer, and watches.
    pub async fn watch(
        &mut self,
        worker: &mut Worker,
        messages: &[Message],
        exchange: Exchange,
        max_tokens: usize,
    ) -> anyhow::Result<Transcript> {
        let way = Way::Small(&*self);
        let transcript = worker.decode(messages, vec![], way, max_tokens).await?;
        let scores = std::mem::take(self.scores.get_mut().unwrap_or_else(PoisonError::into_inner));
        let vocabulary = worker.edge.vocabulary();
        let (mut text, mut begins) = (vec![], vec![]);
        for (i, &token) in transcript.tokens().iter().enumerate() {
            let piece = vocabulary.piece(token);
            let eligible = match exchange {
                Exchange::Ids => true,
                Exchange::Text => {
                    std::str::from_utf8(&text).is_ok_and(|t| boundary::eligible(t, &piece))
                }
            };
            if eligible {
                begins.push(i);
            }
            text.extend(piece);
        }
        let count = transcript.tokens().len();
        self.tokens += count;
        for (at, &begin) in begins.iter().enumerate() {
            let end = begins.get(at + 1).copied().unwrap_or(count);
            let Some(scores) = scores.get(begin) else { continue };
            for (words, &score) in self.words.iter_mut().zip(scores) {
                words.push((score, end - begin));
            }
        }
        Ok(transcript)
    }

    /// A table for each router.
    pub fn tables(&self) -> Vec<Calibration> {
        self.words.iter().map(|words| table(words, self.tokens)).collect()
    }
}

impl Router for Watch<'_> {
    fn score(&self, step: &Step) -> Score {
        let scores = self.routers.iter().map(|r| r.score(step).value()).collect();
        self.scores.lock().unwrap_or_else(PoisonError::into_inner).push(scores);
        Score::new(1.0)
    }
}

/// From shares of tokens to thresholds, by the scores of words.
fn table(words: &[(f32, usize)], tokens: usize) -> Calibration {
    let mut words = words.to_vec();
    words.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut points = vec![];
    for share in SHARES {
        let most = share * tokens as f32;
        let mut asked = 0;
        let within = |&(_, length): &&(f32, usize)| {
            asked += length;
            asked as f32 <= most
        };
        let count = words.iter().take_while(within).count();
        // Between the last word that is asked for and the first that is not.
        let (Some(last), Some(next)) =
            (count.checked_sub(1).and_then(|i| words.get(i)), words.get(count))
        else {
            continue;
        };
        // Scores that are the same cannot be told apart, and a threshold of 1 would ask always.
        if last.0 < next.0 {
            points.push(Point { share, threshold: f32::midpoint(last.0, next.0) });
        }
    }
    Calibration::new(points)
}

pub async fn calibrate(args: CalibrateArgs) -> anyhow::Result<()> {
    let mut examples = vec![];
    for path in &args.prompts {
        examples.extend(Example::read(path, Worked::AsGiven)?);
    }
    examples.truncate(args.limit);
    if examples.is_empty() {
        return Err(UsageError("the files hold no prompts".into()).into());
    }
    let crew =
        Workers::new(edge_alone(&args.edge, &args.machine, args.preset.as_deref()), 1).await?;
    let judge = NamedRouter::read(&args.router, crew.edge_options())?;
    let file = RouterFile::read(&args.router)?;
    let exchange = if file.metadata().ids { Exchange::Ids } else { Exchange::Text };
    let router = judge.build(0);
    let mut watch = Watch::new(vec![&router]);
    let mut worker = crew.worker().await?;
    let progress = Progress::new("calibrating", examples.len());
    for example in &examples {
        let messages = [Message::system(&args.system), Message::user(example.prompt())];
        watch.watch(&mut worker, &messages, exchange, args.max_tokens).await?;
        progress.step();
    }
    drop(progress);
    let calibration = watch.tables().pop().unwrap_or_default();
    if calibration.points().is_empty() {
        let reason = "the answers are too short, or the scores all the same: give more prompts";
        return Err(UsageError(reason.into()).into());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} prompts, {} tokens", examples.len(), watch.tokens)?;
    for point in calibration.points() {
        writeln!(
            out,
            "  {:>4} of tokens: threshold {:.4}",
            Share::new(point.share).map_or_else(String::new, |s| s.to_string()),
            point.threshold
        )?;
    }
    let output = args.output.as_ref().unwrap_or(&args.router);
    file.with_calibration(calibration).write(output)?;
    say(&format!("{} written", output.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_tokens_not_words() {
        // 100 tokens in 50 words of two.
        let words: Vec<_> = (0..50).map(|i| (i as f32 / 50.0, 2)).collect();
        let table = table(&words, 100);
        let at = |share| table.points().iter().find(|p| p.share == share).map(|p| p.threshold);
        // 10 % are ten tokens, five words: between the scores 4/50 and 5/50.
        assert!((at(0.1).unwrap_or(0.0) - 0.09).abs() < 1e-6);
        assert!((at(0.02).unwrap_or(0.0) - 0.01).abs() < 1e-6);
        // Less than a word cannot be asked for.
        assert_eq!(at(0.01), None);
    }
}
