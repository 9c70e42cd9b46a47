//! Which examples are for what.

use std::collections::HashMap;

use decode::sampling;

use super::TrainError;

/// What an example is used for. All positions of one example are on the same side: neighbouring
/// hidden states are so alike that otherwise the router would be judged on what it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The weights are fitted to it.
    Training,
    /// It decides when to stop, and the scores are calibrated on it.
    Tuning,
    /// It is judged on, and nothing else.
    Report,
}

/// The fewest examples that can be split in three.
const FEWEST: usize = 4;

/// Assigns examples by a hash of the seed and their number: this share is held out, one half for
/// tuning and one for the report.
pub fn split(
    examples: impl IntoIterator<Item = u32>,
    held_out: f32,
    seed: u64,
) -> Result<HashMap<u32, Part>, TrainError> {
    let mut drawn: Vec<(u64, u32)> = examples
        .into_iter()
        .map(|example| (sampling::hash(seed, example as usize), example))
        .collect();
    drawn.sort_unstable();
    drawn.dedup();
    if drawn.len() < FEWEST {
        return Err(TrainError::FewExamples { found: drawn.len(), wanted: FEWEST });
    }
    let held_out = ((drawn.len() as f32 * held_out).round() as usize).clamp(2, drawn.len() - 2);
    let part = |place: usize| match place {
        place if place >= held_out => Part::Training,
        place if place % 2 == 0 => Part::Tuning,
        _ => Part::Report,
    };
    Ok(drawn.into_iter().enumerate().map(|(place, (_, example))| (example, part(place))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(parts: &HashMap<u32, Part>, part: Part) -> usize {
        parts.values().filter(|&&p| p == part).count()
    }

    #[test]
    fn every_example_has_one_part_and_shares_are_met() {
        // Each example three times, as several positions of it would be.
        let parts = split((0..3000).map(|i| i % 1000), 0.15, 1).unwrap();
        assert_eq!(parts.len(), 1000);
        assert_eq!(count(&parts, Part::Tuning), 75);
        assert_eq!(count(&parts, Part::Report), 75);
        assert_eq!(parts, split(0..1000, 0.15, 1).unwrap());
        assert_ne!(parts, split(0..1000, 0.15, 2).unwrap());
    }

    #[test]
    fn few_examples_still_fill_every_part_and_too_few_are_refused() {
        for (examples, held_out) in [(4, 0.15), (5, 0.9), (20, 0.01)] {
            let parts = split(0..examples, held_out, 7).unwrap();
            for part in [Part::Training, Part::Tuning, Part::Report] {
                assert!(count(&parts, part) > 0, "{examples} {part:?}");
            }
        }
        assert!(split(0..3, 0.15, 1).is_err());
        assert!(split([], 0.15, 1).is_err());
    }
}
