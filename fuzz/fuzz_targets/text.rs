//! Tokens' bytes, cut anywhere: what is shown is always whole characters, and joined it is the whole text.
#![no_main]

use decode::{boundary, text::TextStream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<Vec<u8>>, usize)| {
    let (pieces, at) = input;
    let mut stream = TextStream::default();
    let mut shown = String::new();
    for piece in &pieces {
        shown += &stream.push(piece);
    }
    shown += &stream.finish();
    if let Ok(text) = String::from_utf8(pieces.concat()) {
        assert_eq!(shown, text);
    }
    let at = shown.floor_char_boundary(at % (shown.len() + 1));
    let (context, answer) = shown.split_at(at);
    let _ = boundary::boundary(&shown, at);
    let _ = boundary::eligible(context, answer.as_bytes());
    if let Some(end) = boundary::word_end(context, answer) {
        assert!(answer.is_char_boundary(end));
    }
});
