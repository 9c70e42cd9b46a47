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
        let last = self.pending.utf8_chunks().last().map_or(&[] as &[u8], |chunk| chunk.invalid());
        // At the end of the input a character may still become whole.
        let waits = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
        let certain = self.pending.len() - if waits { last.len() } else { 0 };
        let text = String::from_utf8_lossy(&self.pending[..certain]).into_owned();
        self.pending.drain(..certain);
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
