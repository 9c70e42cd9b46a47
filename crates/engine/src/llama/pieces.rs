//! Long texts, cut before they are tokenized.
//!
//! llama.cpp splits a text into words with regular expressions that recurse once for each character
//! of a word, and that look at some runs of spaces again from every space. Both must have an end, so a
//! text is cut where every vocabulary begins a word anyway: before a single space between two
//! letters. A run without such a place is cut all the same; nobody writes words of 16 KiB.

/// The most bytes of a piece.
const PIECE_BYTES: usize = 16 << 10;

/// The text in pieces of at most [`PIECE_BYTES`].
pub fn cut(mut text: &str) -> Vec<&str> {
    let mut pieces = vec![];
    while text.len() > PIECE_BYTES {
        let (piece, rest) = text.split_at(place(text));
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// Where the first piece of a text ends that is longer than a piece.
fn place(text: &str) -> usize {
    let most = text.floor_char_boundary(PIECE_BYTES);
    let is_boundary = |&space: &usize| {
        let before = text[..space].chars().next_back();
        let after = text[space + 1..].chars().next();
        before.is_some_and(char::is_alphabetic) && after.is_some_and(char::is_alphabetic)
    };
    // Not in the first half: many short pieces would take longer than one long one.
    let spaces = text[..most].rmatch_indices(' ').map(|(at, _)| at);
    spaces.take_while(|&at| at > most / 2).find(is_boundary).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_word_begins() {
        let text = "Some words, and 12 more words. ".repeat(2000);
        let pieces = cut(&text);
        assert_eq!(pieces.concat(), text);
        assert!(pieces.len() >= text.len() / PIECE_BYTES && pieces.len() < 8);
        for pair in pieces.windows(2) {
            assert!(pair[0].ends_with(char::is_alphabetic), "{:?}", pair[0]);
            assert!(pair[1].starts_with(' ') && pair[1].chars().nth(1).unwrap().is_alphabetic());
        }
    }

    #[test]
    fn a_run_without_end_is_cut_between_characters() {
        for run in ["a", "é", "中", "🙂", " ", "\n"] {
            let text = run.repeat(100_000);
            let pieces = cut(&text);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES && !piece.is_empty()));
        }
        assert_eq!(cut("short"), ["short"]);
        assert_eq!(cut(""), [""]);
    }
}
