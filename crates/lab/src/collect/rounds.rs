//! The rounds of a collection: the edge alone first, then joint decodes, each with a router and a
//! threshold of its own.
//!
//! A round is named by what it was made with. The same router and threshold resume it; others begin
//! the next one. So there may be as many rounds as wanted, and none is taken for another.

use std::fs;

use decode::Threshold;
use serde::{Deserialize, Serialize};
use tandem::NamedRouter;

use router::atomic;

use super::collection::{Collection, CollectionError, SampleSet, io_error, malformed};

/// The number of a round, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round(usize);

impl Round {
    /// The edge rolls out alone.
    pub const FIRST: Self = Self(1);

    pub fn number(self) -> usize {
        self.0
    }
}

/// What a round behind the first was made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundInfo {
    /// The router by its file's hash, or by its name if it was not trained.
    pub router: String,
    pub threshold: f32,
}

impl RoundInfo {
    pub fn new(router: &NamedRouter, threshold: Threshold) -> Self {
        let name = router.digest().unwrap_or_else(|| router.name());
        Self { router: name.to_owned(), threshold: threshold.value() }
    }
}

impl Collection {
    /// The rounds there are, in order.
    pub fn rounds(&self) -> impl Iterator<Item = Round> + use<> {
        let this = self.clone();
        (1..).map(Round).take_while(move |&round| round == Round::FIRST || this.has_round(round))
    }

    /// The round that was made with this router and threshold, or a new one.
    pub fn begin_round(&self, with: &RoundInfo) -> Result<Round, CollectionError> {
        let mut next = 2;
        for round in self.rounds().skip(1) {
            if self.round_info(round)?.as_ref() == Some(with) {
                return Ok(round);
            }
            next = round.0 + 1;
        }
        let (round, path) = (Round(next), self.round_path(Round(next)));
        let json = serde_json::to_vec_pretty(with).map_err(|e| malformed(&path, e.to_string()))?;
        atomic::write(&path, &json).map_err(|source| io_error(&path, source))?;
        Ok(round)
    }

    /// What a round was made with. Rounds of versions before 0.2 do not say.
    pub fn round_info(&self, round: Round) -> Result<Option<RoundInfo>, CollectionError> {
        let path = self.round_path(round);
        if !path.exists() {
            return Ok(None);
        }
        let json = fs::read(&path).map_err(|source| io_error(&path, source))?;
        serde_json::from_slice(&json).map(Some).map_err(|e| malformed(&path, e.to_string()))
    }

    fn has_round(&self, round: Round) -> bool {
        self.round_path(round).exists()
            || self.rollouts_path(round).exists()
            || (0..self.shards()).any(|shard| self.has(SampleSet::Joint(round), shard))
    }

    fn round_path(&self, round: Round) -> std::path::PathBuf {
        self.folder.join(format!("round-{}.json", round.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::{
        Label, LabelSource,
        collection::{RollOut, tests::info},
    };

    #[test]
    fn every_router_and_threshold_has_a_round_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::begin(folder.path(), info(1)).unwrap();
        let with = |router: &str, threshold| RoundInfo { router: router.into(), threshold };
        let rounds = || collection.rounds().map(Round::number).collect::<Vec<_>>();
        assert_eq!(rounds(), [1]);
        let second = collection.begin_round(&with("a", 0.5)).unwrap();
        let third = collection.begin_round(&with("b", 0.5)).unwrap();
        assert_eq!((second.number(), third.number()), (2, 3));
        // The same again resumes; another threshold is another round.
        assert_eq!(collection.begin_round(&with("a", 0.5)).unwrap(), second);
        let fourth = collection.begin_round(&with("b", 0.6)).unwrap();
        assert_eq!((fourth.number(), rounds()), (4, vec![1, 2, 3, 4]));

        // What each finds is its own, and the last one counts.
        let sample = crate::collect::Sample {
            label_source: LabelSource::Neither,
            ..crate::train::tests::sample(0, 2)
        };
        collection.write(SampleSet::Forced, 0, std::slice::from_ref(&sample), &[]).unwrap();
        for (round, right) in [(second, true), (third, false)] {
            assert_eq!(collection.missing(SampleSet::Joint(round)), [0]);
            collection.write(SampleSet::Joint(round), 0, &[], &[]).unwrap();
            collection.add_rollout(round, RollOut { example: 0, position: 0, right }).unwrap();
        }
        assert_eq!(collection.missing(SampleSet::Joint(fourth)), [0]);
        assert_eq!(collection.samples().unwrap()[0].label, Label::Ask);
    }

    #[test]
    fn a_round_of_an_older_version_is_not_taken_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let collection = Collection::begin(folder.path(), info(1)).unwrap();
        fs::write(folder.path().join("rollouts-2.jsonl"), "").unwrap();
        let with = RoundInfo { router: "a".into(), threshold: 0.5 };
        assert_eq!(collection.begin_round(&with).unwrap().number(), 3);
    }
}
