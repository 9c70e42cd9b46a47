//! The JSON files of a folder of samples. The first line is `collection.json`, the second a round's file, and the
//! others are positions that may be rolled out and how roll-outs ended.
#![no_main]

use lab::collect::{Collection, Round};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    fuzz::file("collection.json", next());
    fuzz::file("round-2.json", next());
    let rest = next();
    fuzz::file("shard-00000.open.jsonl", rest);
    fuzz::file("rollouts-1.jsonl", rest);
    // There as long as somebody says so; what is in shards is the target `samples`.
    fuzz::file("shard-00000.safetensors", b"");
    let Ok(collection) = Collection::read(fuzz::folder()) else { return };
    // Every shard there could be is looked for: many take long, and nothing else.
    if collection.info().count > 10_000 {
        return;
    }
    let _ = (collection.drawn(10, true), collection.rolled_out(Round::FIRST), collection.digest());
    for round in collection.rounds().take(4) {
        let _ = collection.round_info(round);
    }
    assert!(collection.samples().is_err() || collection.info().count == 0);
});
