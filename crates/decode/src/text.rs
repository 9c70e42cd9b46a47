//! Turns the bytes of tokens into text that never contains a broken character.

/// Joins the bytes of tokens into text. A character that is not whole yet waits for the next
/// token; bytes that can never become one turn into U+FFFD, as `String::from_utf8_lossy` would.
#[derive(Clone, Debug, Default)]
pub struct TextStream {
    pending: Vec<u8>,
}

impl TextStream {
    /// The characters that became whole with these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, tail) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        Some(bad) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = &tail[bad..];
                        }
                        // The end of the input: the character may still become whole.
                        None => {
                            rest = tail;
                            break;
                        }
                    }
                }
            }
        }
        self.pending = rest.to_vec();
        text
    }

    /// Whether the last token ended inside a character.
    pub fn is_inside_character(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends the text: returns U+FFFD if a character was still incomplete.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_character_waits_until_it_is_whole() {
        let mut stream = TextStream::default();
        let bytes = "é中😀".as_bytes();
        let pieces: Vec<_> = bytes.iter().map(|&b| stream.push(&[b])).collect();
        assert_eq!(pieces, ["", "é", "", "", "中", "", "", "", "😀"]);
        assert!(!stream.is_inside_character());
    }

    proptest! {
        #[test]
        fn the_pieces_joined_are_the_whole(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xe4), Just(0xf0), Just(0x9f)], 0..64),
            cuts in prop::collection::vec(1usize..5, 0..64),
        ) {
            let mut stream = TextStream::default();
            let (mut text, mut rest) = (String::new(), bytes.as_slice());
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                text += &stream.push(now);
                rest = later;
            }
            text += &stream.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
