use super::*;
use crate::{collect::rounds::RoundInfo, train::tests};

pub(in crate::collect) fn info(count: usize) -> CollectionInfo {
    CollectionInfo {
        format: CollectionInfo::FORMAT,
        model: "m".into(),
        model_name: "small".into(),
        hidden: 2,
        cloud: "large".into(),
        exchange: Exchange::Text,
        examples: "d".into(),
        count,
        seed: 1,
    }
}

fn sample(example: u32, position: u32, found: LabelSource) -> Sample {
    let label = if found == LabelSource::Neither { Label::Unknown } else { Label::Trust };
    Sample { label, label_source: found, position, ..tests::sample(example, 2) }
}

fn open(example: u32, position: u32) -> OpenPosition {
    OpenPosition { example, position, proposed: Some(Token(9)), ask: false }
}

#[test]
fn roll_outs_label_what_was_open_and_the_second_round_has_the_last_word() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Collection::begin(folder.path(), info(2)).unwrap();
    let samples = [sample(0, 1, LabelSource::Neither), sample(1, 4, LabelSource::Neither)];
    let places = [open(0, 1), open(1, 4)];
    collection.write(SampleSet::Forced, 0, &samples, &places).unwrap();
    assert_eq!(collection.drawn(10, false).unwrap(), places);
    let note = |round, example, position, right| {
        collection.add_rollout(round, RollOut { example, position, right }).unwrap();
    };
    note(Round::FIRST, 0, 1, true);
    let labels = |c: &Collection| -> Vec<_> {
        c.samples().unwrap().iter().map(|s| (s.label, s.label_source)).collect()
    };
    let unknown = (Label::Unknown, LabelSource::Neither);
    assert_eq!(labels(&collection), [(Label::Trust, LabelSource::RollOut), unknown]);
    let before = collection.digest().unwrap();
    let with = RoundInfo { router: "r".into(), threshold: 0.5 };
    note(collection.begin_round(&with).unwrap(), 0, 1, false);
    assert_eq!(labels(&collection)[0], (Label::Ask, LabelSource::RollOut));
    assert_ne!(collection.digest().unwrap(), before);
}

#[test]
fn the_draw_is_the_seeds_alone() {
    let drawn = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let about = CollectionInfo { seed, ..info(64) };
        let collection = Collection::begin(folder.path(), about).unwrap();
        for shard in 0..collection.shards() {
            let places: Vec<_> = collection.examples(shard).map(|e| open(e as u32, 3)).collect();
            collection.write(SampleSet::Forced, shard, &[], &places).unwrap();
        }
        collection.drawn(10, false).unwrap()
    };
    assert_eq!(drawn(1).len(), 10);
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_line_cut_short_is_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Collection::begin(folder.path(), info(1)).unwrap();
    let done = RollOut { example: 0, position: 1, right: true };
    collection.add_rollout(Round::FIRST, done).unwrap();
    let path = folder.path().join("rollouts-1.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [whole.as_slice(), b"{\"exam"].concat()).unwrap();
    let again = Collection::begin(folder.path(), info(1)).unwrap();
    assert_eq!(again.rolled_out(Round::FIRST).unwrap(), [done]);
    again.add_rollout(Round::FIRST, done).unwrap();
    assert_eq!(again.rolled_out(Round::FIRST).unwrap(), [done, done]);
}

#[test]
fn another_collection_is_not_mixed_in() {
    let folder = tempfile::tempdir().unwrap();
    Collection::begin(folder.path(), info(1)).unwrap();
    let other = CollectionInfo { model: "n".into(), model_name: "tiny".into(), ..info(1) };
    let error = Collection::begin(folder.path(), other).unwrap_err().to_string();
    assert!(error.contains("small") && error.contains("tiny"), "{error}");
    fs::write(folder.path().join("collection.json"), b"{").unwrap();
    assert!(Collection::read(folder.path()).is_err());
}

#[test]
fn a_count_without_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Collection::begin(folder.path(), info(2)).unwrap();
    let path = folder.path().join("collection.json");
    let json = fs::read_to_string(&path).unwrap();
    fs::write(&path, json.replace("\"count\": 2", "\"count\": 1000000000000000000")).unwrap();
    let refused = Collection::read(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("1000000000000000000 examples"), "{refused}");
}
