use std::fs;

use cloud::decoded_state::DecodedState;
use decode::{Token, fake::FakeVocabulary};
use half::f16;
use router::FEATURES;

use super::*;
use crate::collect::Collection;

fn edge(name: &str) -> EdgeModel {
    EdgeModel { name: name.into(), fingerprint: format!("hash of {name}"), hidden: 2 }
}

fn seen(proposed: u32, piece: &str) -> DecodedState {
    let (hidden, features) = (vec![f16::ONE; 2], [0.5; FEATURES]);
    DecodedState { hidden, features, proposed: Token(proposed), piece: piece.into() }
}

fn some((conversation, position): (u32, usize)) -> Sample {
    let (vocabulary, edge, likeliest) = (&FakeVocabulary::new(&[]), &seen(5, ""), Token(5));
    let exchange = Exchange::Ids;
    sample(Observation { vocabulary, exchange, edge, likeliest, conversation, position })
}

fn send(collector: &TrafficCollector, sample: Sample) {
    lock(&collector.queue).as_ref().unwrap().samples.send(sample).unwrap();
}

#[test]
fn the_two_agree_by_id_by_word_or_by_ending() {
    // 0 ends a text; 257 and 258 are the words.
    let vocabulary = FakeVocabulary::new(&[" cat", " hill"]);
    let agrees = |exchange, edge: DecodedState, cloud| {
        let (vocabulary, edge, likeliest) = (&vocabulary, &edge, Token(cloud));
        let (conversation, position) = (0, 0);
        let observation =
            Observation { vocabulary, exchange, edge, likeliest, conversation, position };
        sample(observation).agrees.unwrap()
    };
    for (proposed, cloud, agree) in
        [(257, 257, true), (257, 258, false), (0, 0, true), (0, 257, false), (257, 0, false)]
    {
        assert_eq!(agrees(Exchange::Ids, seen(proposed, ""), cloud), agree);
    }
    for (piece, cloud, agree) in [
        (" cat", 257, true),
        (" ca", 257, true),
        (" category", 257, true),
        (" hi", 257, false),
        ("", 0, true),
        ("", 257, false),
        (" cat", 0, false),
    ] {
        assert_eq!(agrees(Exchange::Text, seen(9, piece), cloud), agree, "{piece:?}");
    }
}

#[test]
fn what_is_left_is_written_at_the_end_and_a_second_start_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let start = || TrafficCollector::start(folder.path().into(), "large".into());
    let collector = start().unwrap();
    // Two may not write into one folder.
    assert!(matches!(start(), Err(CollectionError::InUse { .. })));
    collector.accepts(edge("small"), Exchange::Ids).unwrap();
    for at in 0..SHARD + 3 {
        send(&collector, some((at as u32 / 100, at)));
    }
    collector.finish();
    collector.finish();
    drop(collector);
    let count = || Collection::read(folder.path()).unwrap().samples().unwrap().len();
    assert_eq!(count(), SHARD + 3);

    let again = start().unwrap();
    assert_eq!(again.examples.load(Ordering::Relaxed), 3);
    let refused = again.accepts(edge("tiny"), Exchange::Ids).unwrap_err();
    assert!(refused.contains("small") && refused.contains("tiny"), "{refused}");
    assert!(again.accepts(edge("small"), Exchange::Text).unwrap_err().contains("travels"));
    again.accepts(edge("small"), Exchange::Ids).unwrap();
    send(&again, some((3, 1)));
    drop(again);
    assert_eq!(count(), SHARD + 4);
    let other =
        TrafficCollector::start(folder.path().into(), "huge".into()).unwrap_err().to_string();
    assert!(other.contains("large") && other.contains("huge"), "{other}");
}

#[test]
fn edges_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let collector = TrafficCollector::start(folder.path().into(), "large".into()).unwrap();
    for wrong in [
        EdgeModel { hidden: 0, ..edge("small") },
        EdgeModel { hidden: usize::MAX, ..edge("small") },
        edge("small\n"),
        edge(&"x".repeat(2000)),
    ] {
        assert!(collector.accepts(wrong, Exchange::Ids).is_err());
    }
    assert!(!folder.path().join("collection.json").exists());
}

#[test]
fn a_disk_that_fails_is_counted_and_nothing_else_happens() {
    let folder = tempfile::tempdir().unwrap();
    let collector = TrafficCollector::start(folder.path().into(), "large".into()).unwrap();
    collector.accepts(edge("small"), Exchange::Ids).unwrap();
    // A folder where a file is to be written stands for a disk that says no.
    fs::create_dir(folder.path().join("traffic-00000.safetensors")).unwrap();
    for at in 0..SHARD + 1 {
        send(&collector, some((0, at)));
    }
    collector.finish();
    assert_eq!(collector.counts().lost, SHARD as u64 + 1);
}
