//! From a budget to a threshold.
//!
//! The edge answers prompts alone, and the routers only watch. A threshold's share is then that of
//! the tokens in words that it would have asked for, on the mean of all answers: a budget is to be
//! right for one short answer as for a long one. Where there is a cloud, a few answers with it tell
//! how far that is from the truth, because behind a word of the cloud's the edge is surer of itself,
//! or less sure. A budget moves its threshold while it is spent, so the table is made for that: each
//! share is followed through all answers, and the table moved until the mean comes out.

use std::sync::Arc;

use decode::{
    Budget, Cloud, Decision, Edge, Exchange, Message, Router, Score, Source, Threshold,
    ThresholdPolicy, Transcript, Vocabulary, boundary,
};
use router::{Calibration, Constant, Point};
use tandem::{Mode, NamedRouter, Tandem};

use crate::{
    Error,
    progress::Progress,
    record::Recorder,
    worker::{Decoding, Worker},
};

/// The shares a table has.
pub(crate) const SHARES: [f32; 12] =
    [0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7];

/// The shares at which a table is tried with the cloud.
const TRIED: [f32; 3] = [0.04, 0.1, 0.25];

/// How often a table is moved until budgets come out.
const SETTLING: usize = 6;

/// On how many answers at most.
const MOST_TRIED: usize = 24;

/// No trial moves a share by more than this factor: few answers can mislead.
const MOST: f32 = 3.0;

/// What could have been asked for: its score, and how much it counts.
pub type Unit = (f32, f32);

/// For each share, the threshold below which the units with that share of the whole lie. A share that
/// no threshold gives is left out.
pub fn thresholds(units: &[Unit], whole: f32) -> Calibration {
    let mut units = units.to_vec();
    units.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut points = vec![];
    for share in SHARES {
        // Sums of many small numbers are a little off.
        let most = f64::from(share) * f64::from(whole) * (1.0 + 1e-5);
        let mut asked = 0.0;
        let within = |&(_, weight): &&Unit| {
            asked += f64::from(*weight);
            asked <= most
        };
        let count = units.iter().take_while(within).count();
        // Between the last unit that is asked for and the first that is not.
        let last = count.checked_sub(1).and_then(|i| units.get(i));
        let (Some(last), Some(next)) = (last, units.get(count)) else { continue };
        // Scores that are the same cannot be told apart, and a threshold of 1 would ask always.
        if last.0 < next.0 {
            points.push(Point { share, threshold: f32::midpoint(last.0, next.0) });
        }
    }
    Calibration::new(points)
}

#[derive(Clone, Debug)]
pub struct Calibrated {
    pub table: Calibration,
    /// Tokens it was made from.
    pub tokens: usize,
    /// What could have been asked for in each answer; the weights of one are 1 together.
    answers: Vec<Vec<Unit>>,
}

/// Answers to measure on.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    pub conversations: &'a [Vec<Message>],
    /// No answer is longer.
    pub max_tokens: usize,
}

/// Measures the tables of some routers on the same answers of the edge alone.
pub async fn calibrate(
    tandem: &Tandem,
    routers: &[NamedRouter],
    exchange: Exchange,
    answers: Answers<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Calibrated>, Error> {
    let watching: Vec<_> = routers.iter().map(|router| router.build(0)).collect();
    let recorder = Recorder::new(Box::new(Constant::Never), move |step, _| -> Vec<f32> {
        watching.iter().map(|router| router.score(step).value()).collect()
    });
    let mut worker = Worker::new(tandem).await?;
    let mut units: Vec<Vec<Vec<Unit>>> = vec![vec![]; routers.len()];
    let mut tokens = 0;
    progress.begin("calibrating", answers.conversations.len());
    for messages in answers.conversations {
        let decoding = Decoding::edge_alone(recorder.clone(), answers.max_tokens);
        let transcript = worker.decode(messages, vec![], decoding).await?;
        let vocabulary = worker.edge().await?.vocabulary();
        let length = transcript.tokens().len();
        let recorded = recorder.take();
        for (i, units) in units.iter_mut().enumerate() {
            let scores: Vec<f32> = recorded.iter().map(|scores| scores[i]).collect();
            let of = scored_units(&transcript, &scores, exchange, vocabulary.as_ref());
            let weight = |(score, tokens): (f32, usize)| (score, tokens as f32 / length as f32);
            units.push(of.into_iter().map(weight).collect());
        }
        tokens += length;
        progress.step();
    }
    progress.end();
    let mut calibrated = vec![];
    for answers in units {
        let answered = answers.iter().filter(|units| !units.is_empty()).count();
        let table = settled(thresholds(&answers.concat(), answered as f32), &answers);
        if table.points().is_empty() {
            let reason = "the answers are too short, or the scores all the same: give more prompts";
            return Err(Error::usage(reason));
        }
        calibrated.push(Calibrated { table, tokens, answers });
    }
    Ok(calibrated)
}

/// What both models exchange: found out by opening the cloud.
pub async fn exchange(tandem: &Tandem, messages: &[Message]) -> Result<Exchange, Error> {
    let mut worker = Worker::new(tandem).await?;
    let opened = worker.introduce(messages, false).await?.open().await?;
    worker.close().await?;
    Ok(opened.exchange)
}

/// Tries a table with the cloud at a few shares, on some of the answers it was made from, and moves it
/// by how much more or less really came from there.
pub async fn adjust(
    tandem: &Tandem,
    router: &NamedRouter,
    calibrated: &Calibrated,
    answers: Answers<'_>,
    progress: &dyn Progress,
) -> Result<Calibration, Error> {
    let Calibrated { table, answers: alone, .. } = calibrated;
    let count = answers.conversations.len().min(MOST_TRIED);
    let some = Answers { conversations: &answers.conversations[..count], ..answers };
    let mut tried = vec![];
    for share in TRIED {
        let Some(threshold) = threshold_of(table, share) else { continue };
        let expected = share_below(alone.get(..count).unwrap_or(alone), threshold);
        let realised = mean_share(tandem, router, threshold, some, progress).await?;
        tracing::info!(
            "{router} at {share}: {expected} of the edge's alone, {realised} with the cloud"
        );
        tried.push((share, share * realised / expected.max(1e-4)));
    }
    Ok(rescaled(table, &tried))
}

/// A table with which budgets, each beginning with an answer, come out at their shares on the mean.
fn settled(mut table: Calibration, answers: &[Vec<Unit>]) -> Calibration {
    for _ in 0..SETTLING {
        let found = |point: &Point| (point.share, followed(&table, point.share, answers));
        let tried: Vec<_> = table.points().iter().map(found).collect();
        table = rescaled(&table, &tried);
    }
    table
}

/// The mean share of answers through which a budget is followed, each from its first token.
fn followed(table: &Calibration, share: f32, answers: &[Vec<Unit>]) -> f32 {
    let table = table.points().iter().map(|p| (p.share, p.threshold));
    let (mut sum, mut answered) = (0.0, 0.0);
    for units in answers.iter().filter(|units| !units.is_empty()) {
        let policy = ThresholdPolicy::budget(Budget::new(share, table.clone()));
        // The lightest is one token.
        let one = units.iter().map(|(_, weight)| *weight).fold(1.0, f32::min);
        for &(score, weight) in units {
            let ask = policy.threshold().decide(Score::new(score)) == Decision::Ask;
            let source = if ask { Source::Cloud } else { Source::Edge };
            policy.observe((weight / one).round() as usize, source);
            sum += if ask { weight } else { 0.0 };
        }
        answered += 1.0;
    }
    sum / f32::max(answered, 1.0)
}

/// The mean share that a threshold would have asked for.
fn share_below(answers: &[Vec<Unit>], threshold: Threshold) -> f32 {
    let below = |units: &Vec<Unit>| -> f32 {
        units.iter().filter(|(score, _)| *score < threshold.value()).map(|(_, weight)| weight).sum()
    };
    let answered = answers.iter().filter(|units| !units.is_empty()).count();
    answers.iter().map(below).sum::<f32>() / answered.max(1) as f32
}

/// The mean share of tokens from the cloud, over answers that have nothing to do with each other.
async fn mean_share(
    tandem: &Tandem,
    router: &NamedRouter,
    threshold: Threshold,
    answers: Answers<'_>,
    progress: &dyn Progress,
) -> Result<f32, Error> {
    let mut worker = Worker::new(tandem).await?;
    let (mut sum, mut answered) = (0.0, 0.0);
    progress.begin(&format!("trying {router}"), answers.conversations.len());
    for messages in answers.conversations {
        worker.close().await?;
        let prompt = worker.tokens(messages).await?;
        worker.read_alone(&prompt[..prompt.len().saturating_sub(1)]).await?;
        let (router, policy) = (Arc::from(router.build(0)), threshold.into());
        let max_tokens = answers.max_tokens;
        let decoding = Decoding { mode: Mode::Joint, router, policy, max_tokens };
        let stats = worker.decode(messages, vec![], decoding).await?.stats();
        if stats.tokens > 0 {
            sum += stats.routed_share as f32;
            answered += 1.0;
        }
        progress.step();
    }
    worker.close().await?;
    progress.end();
    Ok(if answered > 0.0 { sum / answered } else { 0.0 })
}

/// The threshold for a share, between the points of a table.
fn threshold_of(table: &Calibration, share: f32) -> Option<Threshold> {
    let points = table.points();
    let after = points.iter().position(|p| p.share >= share)?;
    let high = points[after];
    let low = after.checked_sub(1).map_or(Point { share: 0.0, threshold: 0.0 }, |i| points[i]);
    let part = (share - low.share) / (high.share - low.share).max(f32::EPSILON);
    Threshold::new(low.threshold + (high.threshold - low.threshold) * part).ok()
}

/// A table whose shares are moved by the factors that were found, each share by those of its
/// neighbours. What was asked for and came out as nothing says nothing.
fn rescaled(table: &Calibration, tried: &[(f32, f32)]) -> Calibration {
    let known: Vec<(f32, f32)> = tried
        .iter()
        .filter(|(_, realised)| *realised > 0.0)
        .map(|(share, realised)| (share.ln(), (realised / share).clamp(1.0 / MOST, MOST).ln()))
        .collect();
    let factor = |share: f32| {
        let at = share.ln();
        let after = known.iter().position(|(share, _)| *share >= at);
        match (after, known.last()) {
            (_, None) => 1.0,
            (None, Some((_, last))) => last.exp(),
            (Some(0), _) => known[0].1.exp(),
            (Some(i), _) => {
                let ((low, below), (high, above)) = (known[i - 1], known[i]);
                (below + (above - below) * (at - low) / (high - low)).exp()
            }
        }
    };
    let mut points: Vec<Point> = vec![];
    for &Point { share, threshold } in table.points() {
        let share = (share * factor(share)).min(0.99);
        // A table rises.
        if points.last().is_none_or(|last| last.share < share) {
            points.push(Point { share, threshold });
        }
    }
    Calibration::new(points)
}

/// Every place of an answer where the cloud could have been asked, with the score there and how many
/// tokens the next such place is away.
fn scored_units(
    transcript: &Transcript,
    scores: &[f32],
    exchange: Exchange,
    vocabulary: &dyn Vocabulary,
) -> Vec<(f32, usize)> {
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
    let ends = begins.iter().skip(1).copied().chain([transcript.tokens().len()]);
    let unit = |(&begin, end): (&usize, usize)| Some((*scores.get(begin)?, end - begin));
    begins.iter().zip(ends).filter_map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_tokens_not_words() {
        // 100 tokens in 50 words of two.
        let words: Vec<_> = (0..50).map(|i| (i as f32 / 50.0, 2.0)).collect();
        let table = thresholds(&words, 100.0);
        let at = |share| table.points().iter().find(|p| p.share == share).map(|p| p.threshold);
        // 10 % are ten tokens, five words: between the scores 4/50 and 5/50.
        assert!((at(0.1).unwrap() - 0.09).abs() < 1e-6);
        assert!((at(0.02).unwrap() - 0.01).abs() < 1e-6);
        // Less than a word cannot be asked for.
        assert_eq!(at(0.01), None);
    }

    #[test]
    fn thresholds_ask_at_their_share() {
        let scores: Vec<f32> = (0..1000).map(|i| ((i * 37) % 1000) as f32 / 1000.0).collect();
        let units: Vec<Unit> = scores.iter().map(|&score| (score, 1.0)).collect();
        let table = thresholds(&units, units.len() as f32);
        assert_eq!(table.points().len(), SHARES.len());
        for &Point { share, threshold } in table.points() {
            let asked = scores.iter().filter(|&&score| score < threshold).count();
            assert_eq!(asked, (share * 1000.0).round() as usize);
        }
        // Where all scores are the same no threshold gives a share.
        assert!(thresholds(&[(0.5, 1.0); 100], 100.0).points().is_empty());
        assert!(thresholds(&[], 0.0).points().is_empty());
    }

    #[test]
    fn every_answer_counts_alike_however_long() {
        // A short answer that is asked for whole, and a long one that is trusted.
        let short = (0..2).map(|i| (i as f32 / 100.0, 0.5));
        let long = (0..98).map(|i| (0.5 + i as f32 / 200.0, 1.0 / 98.0));
        let table = thresholds(&short.chain(long).collect::<Vec<_>>(), 2.0);
        let at = |share| table.points().iter().find(|p| p.share == share).map(|p| p.threshold);
        // Half of all, although only 2 tokens of 100 are below.
        assert!((at(0.5).unwrap() - 0.255).abs() < 1e-3);
    }

    #[test]
    fn budgets_that_begin_with_every_answer_come_out_at_their_shares() {
        // Answers of very different difficulty and length, and a score that is hardly ever low.
        let answer = |i: usize| -> Vec<Unit> {
            let (length, hard) = (8 + i % 57, 1.0 + (i % 7) as f32);
            let score = |at: usize| {
                let drawn = decode::sampling::uniform(i as u64, at) as f32;
                1.0 - (1.0 - drawn).powf(9.0 / hard)
            };
            (0..length).map(|at| (score(at), 1.0 / length as f32)).collect()
        };
        let answers: Vec<_> = (0..300).map(answer).collect();
        let table = settled(thresholds(&answers.concat(), 300.0), &answers);
        for share in [0.05, 0.1, 0.2] {
            let came = followed(&table, share, &answers);
            assert!((came - share).abs() < 0.01, "{share}: {came}");
        }
    }

    #[test]
    fn shares_below_a_threshold_are_means_over_answers() {
        let answers = [vec![(0.1, 0.5), (0.9, 0.5)], vec![(0.8, 0.2), (0.2, 0.8)], vec![]];
        let at = |tau| share_below(&answers, Threshold::new(tau).unwrap());
        assert!((at(0.5) - 0.65).abs() < 1e-6 && at(0.05) == 0.0);
    }

    #[test]
    fn a_table_is_moved_by_what_really_came() {
        let points = [0.01, 0.05, 0.1, 0.2, 0.4].map(|s| Point { share: s, threshold: s * 2.0 });
        let table = Calibration::new(points.to_vec());
        let shares = |tried: &[(f32, f32)]| -> Vec<f32> {
            rescaled(&table, tried).points().iter().map(|p| p.share).collect()
        };
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(close(&shares(&[]), &[0.01, 0.05, 0.1, 0.2, 0.4]));
        // Twice as much as was asked for, everywhere.
        let twice = shares(&[(0.04, 0.08), (0.25, 0.5)]);
        assert!(close(&twice, &[0.02, 0.1, 0.2, 0.4, 0.8]), "{twice:?}");
        // One trial says nothing, and one is beyond belief.
        let odd = shares(&[(0.04, 0.0), (0.1, 0.9)]);
        assert!(close(&odd, &[0.03, 0.15, 0.3, 0.6, 0.99]), "{odd:?}");
        let found = threshold_of(&table, 0.15).unwrap().value();
        assert!((found - 0.3).abs() < 1e-5);
        assert!(threshold_of(&table, 0.5).is_none());
    }
}
