//! From a budget to a threshold.
//!
//! The edge answers prompts alone, and the router only watches. A threshold's share is then that of
//! the tokens in words that it would have asked for.

use decode::{Edge, Exchange, Message, Transcript, Vocabulary, boundary};
use router::{Calibration, Mlp, Point, RouterFile};
use tandem::Tandem;

use crate::{
    Error,
    progress::Progress,
    record::Recorder,
    worker::{Decoding, Worker},
};

/// The shares a table has.
pub(crate) const SHARES: [f32; 12] =
    [0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7];

/// What could have been asked for: its score, and how many tokens it has.
pub type Unit = (f32, usize);

/// For each share, the threshold below which the units with that share of all tokens lie. A share
/// that no threshold gives is left out.
pub fn thresholds(units: &[Unit], tokens: usize) -> Calibration {
    let mut units = units.to_vec();
    units.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut points = vec![];
    for share in SHARES {
        let most = share * tokens as f32;
        let mut asked = 0;
        let within = |&(_, length): &&Unit| {
            asked += length;
            asked as f32 <= most
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
}

/// Measures a router's table on answers to these conversations.
pub async fn calibrate(
    tandem: &Tandem,
    file: &RouterFile,
    conversations: &[Vec<Message>],
    max_tokens: usize,
    progress: &dyn Progress,
) -> Result<Calibrated, Error> {
    let exchange = if file.metadata().ids { Exchange::Ids } else { Exchange::Text };
    let recorder = Recorder::new(Box::new(Mlp::new(file)), |_, score| score.value());
    let mut worker = Worker::new(tandem).await?;
    let (mut units, mut tokens) = (vec![], 0);
    progress.begin("calibrating", conversations.len());
    for messages in conversations {
        let decoding = Decoding::edge_alone(recorder.clone(), max_tokens);
        let transcript = worker.decode(messages, vec![], decoding).await?;
        let vocabulary = worker.edge().await?.vocabulary();
        tokens += transcript.tokens().len();
        units.extend(scored_units(&transcript, &recorder.take(), exchange, vocabulary.as_ref()));
        progress.step();
    }
    progress.end();
    let table = thresholds(&units, tokens);
    if table.points().is_empty() {
        let reason = "the answers are too short, or the scores all the same: give more prompts";
        return Err(Error::usage(reason));
    }
    Ok(Calibrated { table, tokens })
}

/// Every place of an answer where the cloud could have been asked, with the score there and how many
/// tokens the next such place is away.
fn scored_units(
    transcript: &Transcript,
    scores: &[f32],
    exchange: Exchange,
    vocabulary: &dyn Vocabulary,
) -> Vec<Unit> {
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
        let words: Vec<_> = (0..50).map(|i| (i as f32 / 50.0, 2)).collect();
        let table = thresholds(&words, 100);
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
        let units: Vec<Unit> = scores.iter().map(|&score| (score, 1)).collect();
        let table = thresholds(&units, units.len());
        assert_eq!(table.points().len(), SHARES.len());
        for &Point { share, threshold } in table.points() {
            let asked = scores.iter().filter(|&&score| score < threshold).count();
            assert_eq!(asked, (share * 1000.0).round() as usize);
        }
        // Where all scores are the same no threshold gives a share.
        assert!(thresholds(&[(0.5, 1); 100], 100).points().is_empty());
        assert!(thresholds(&[], 0).points().is_empty());
    }
}
