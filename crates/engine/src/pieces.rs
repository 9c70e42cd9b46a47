//! Long texts, cut before they are tokenized.
//!
//! A tokenizer takes some hundred bytes for every byte of a text while it reads it, which for a few
//! megabytes would be as much as a model. And llama.cpp splits a text into words with regular expressions that recurse once for each character
//! of a word, and that look at some runs of spaces again from every space. Both must have an end, so a
//! text is cut where every vocabulary begins a word anyway: before a single space between two
//! letters. A run without such a place is cut all the same; nobody writes words of 16 KiB.

use decode::Token;

/// The most bytes of a piece.
pub const PIECE_BYTES: usize = 16 << 10;

/// What stands in front of every piece but the first while it is tokenized. Many vocabularies put a space
/// in front of a text, and no piece may have one that the text has not. No word goes on behind it.
const EDGE: &str = "\n";

/// What is tokenized whole and in pieces, to see whether a vocabulary minds.
const SAMPLE: &str = "The sea is wide and deep, and ships cross it by night. Wo die Straße endet beginnt das \
    Meer; il a déjà neigé en été. Привет как дела сегодня. for i in range(10): print(i)  # two spaces\n\
    \tA line of its own with words and 12 more words";

/// The tokens of a text, piece by piece; `None` where a piece does not say which of them are its own.
pub fn joined(
    text: &str,
    tokenize: impl Fn(&str) -> Result<Vec<Token>, String>,
) -> Result<Option<Vec<Token>>, String> {
    let edge = tokenize(EDGE)?;
    let mut pieces = cut(text).into_iter();
    let mut tokens = tokenize(pieces.next().unwrap_or_default())?;
    for piece in pieces {
        let behind = tokenize(&format!("{EDGE}{piece}"))?;
        let Some(own) = behind.strip_prefix(edge.as_slice()) else { return Ok(None) };
        tokens.extend_from_slice(own);
    }
    Ok(Some(tokens))
}

/// Whether a text has the same tokens wherever it is cut before a word. It is tried out, because
/// vocabularies differ in what they do with the beginning of a text, and nothing says how.
pub fn can_join(tokenize: impl Fn(&str) -> Result<Vec<Token>, String>) -> bool {
    let same = || -> Result<bool, String> {
        let (whole, edge) = (tokenize(SAMPLE)?, tokenize(EDGE)?);
        for (at, _) in SAMPLE.match_indices(' ').filter(|&(at, _)| is_boundary(SAMPLE, at)) {
            let (before, after) = SAMPLE.split_at(at);
            let behind = tokenize(&format!("{EDGE}{after}"))?;
            let Some(own) = behind.strip_prefix(edge.as_slice()) else { return Ok(false) };
            if [tokenize(before)?.as_slice(), own].concat() != whole {
                return Ok(false);
            }
        }
        Ok(true)
    };
    same().unwrap_or(false)
}

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
    // Not in the first half: many short pieces would take longer than one long one.
    let spaces = text[..most].rmatch_indices(' ').map(|(at, _)| at);
    spaces.take_while(|&at| at > most / 2).find(|&at| is_boundary(text, at)).unwrap_or(most)
}

/// Whether this space stands between two letters.
fn is_boundary(text: &str, space: usize) -> bool {
    let before = text[..space].chars().next_back();
    let after = text[space + 1..].chars().next();
    before.is_some_and(char::is_alphabetic) && after.is_some_and(char::is_alphabetic)
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

    /// A token for each word with the space before it, and one for every other character.
    fn words(text: &str) -> Result<Vec<Token>, String> {
        let mut tokens = vec![];
        for character in text.chars() {
            match tokens.last_mut() {
                Some(Token(word)) if character.is_alphabetic() && *word >= 1 << 21 => {
                    *word = word.wrapping_mul(31).wrapping_add(u32::from(character)) | 1 << 21;
                }
                _ if character == ' ' || character.is_alphabetic() => {
                    tokens.push(Token(u32::from(character) | 1 << 21));
                }
                _ => tokens.push(Token(u32::from(character))),
            }
        }
        Ok(tokens)
    }

    /// As many vocabularies do with the beginning of a text.
    fn with_space(text: &str) -> Result<Vec<Token>, String> {
        words(&format!(" {text}"))
    }

    #[test]
    fn a_vocabulary_that_does_not_mind_has_the_same_tokens_in_pieces() {
        let text = "Some words, and 12 more words. ".repeat(2000);
        for tokenize in [words, with_space] {
            assert!(can_join(tokenize));
            assert_eq!(joined(&text, tokenize).unwrap().unwrap(), tokenize(&text).unwrap());
        }
    }

    #[test]
    fn one_that_minds_is_found_out() {
        // Where a text ends, or how long it is, changes its tokens.
        let ended = |text: &str| Ok([words(text)?, vec![Token(7)]].concat());
        let counted = |text: &str| Ok([vec![Token(text.len() as u32)], words(text)?].concat());
        let refused = |_: &str| Err("no character of it is known".to_owned());
        assert!(!can_join(ended) && !can_join(counted) && !can_join(refused));
        let text = "word ".repeat(10_000);
        assert_eq!(joined(&text, counted).unwrap(), None);
        assert!(joined(&text, refused).is_err());
    }
}
