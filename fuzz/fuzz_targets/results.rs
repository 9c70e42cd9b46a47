//! Files of results: what is read is written as it was.
#![no_main]

use lab::eval::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = Record::read(&fuzz::file("results.jsonl", bytes)) else { return };
    let lines = record.lines().expect("results that were read");
    let again = Record::read(&fuzz::file("again.jsonl", &lines)).expect("a file that we wrote");
    let counts = |r: &Record| (r.points.len(), r.questions.len(), r.outcomes.len());
    assert_eq!((&again.about, counts(&again)), (&record.about, counts(&record)));
});
