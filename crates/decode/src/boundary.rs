//! Where one word ends and the next begins, for models that do not share a vocabulary.
//!
//! Two tokenizers agree on a cut only where neither's pre-tokenizer would have joined what is on
//! its two sides. The rules here follow the byte-level BPE families: GPT-2's, and Qwen's, which
//! glues one leading mark to a word and trailing newlines to punctuation. A cut is a [`boundary`]
//! where both make it, with three exceptions that are worth more than they cost: every digit,
//! though some families join three; the start of an indented line, though GPT-2 joins the newline
//! to the spaces; and, as no family cuts inside a run of Chinese or Japanese, each character there.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// What a character is to a pre-tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Letter,
    Ideograph,
    Digit,
    Newline,
    Space,
    Mark,
}

fn class(character: char) -> Class {
    match character {
        '\n' | '\r' => Class::Newline,
        c if c.is_whitespace() => Class::Space,
        // Han with its extensions and compatibility forms, kana, bopomofo.
        '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{312f}'
        | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Class::Ideograph,
        c => match c.general_category_group() {
            GeneralCategoryGroup::Letter => Class::Letter,
            GeneralCategoryGroup::Number => Class::Digit,
            _ => Class::Mark,
        },
    }
}

/// The class of the last user-perceived character: of its base, not of an accent on it.
fn last_class(text: &str) -> Option<Class> {
    text.graphemes(true).next_back()?.chars().next().map(class)
}

/// Whether the text can be cut at `at` so that both sides read it as they would the whole.
///
/// The start of a text is a boundary; so is its end, unless white space is left hanging there.
pub fn boundary(text: &str, at: usize) -> bool {
    let Some((left, right)) = text.split_at_checked(at) else { return false };
    let Some(before) = last_class(left) else { return true };
    let Some(next) = right.chars().next() else { return before != Class::Space };
    if !matches!(GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0), Ok(true)) {
        return false;
    }
    between(left, before, class(next))
}

fn between(left: &str, before: Class, after: Class) -> bool {
    use Class::{Digit, Ideograph, Letter, Mark, Newline, Space};
    match (before, after) {
        // White space belongs to what follows it, so it is never left hanging.
        (Space, _) => false,
        (Newline, Newline) => false,
        (Newline, _) => true,
        // Some glue newlines to the punctuation before them.
        (Mark, Newline) => false,
        (_, Newline | Space | Digit) => true,
        (Ideograph, _) | (_, Ideograph) => true,
        (Letter, Letter) => false,
        (Digit, Letter) => true,
        // Some glue a single mark to the word behind it: "(A" is one piece, " (" and "A" are two.
        (Mark, Letter) => marks_stand_alone(left),
        (Letter | Digit, Mark) => true,
        (Mark, Mark) => false,
    }
}

/// Whether the marks at the end of `left` are too many, with a space before them, to be glued.
fn marks_stand_alone(left: &str) -> bool {
    let mut back = left.chars().rev();
    back.next();
    back.next().is_some_and(|c| c == ' ' || class(c) == Class::Mark)
}

/// As much of a text's end as the rules look back at, a long grapheme included.
fn tail(text: &str) -> &str {
    text.char_indices().rev().take(24).last().map_or("", |(i, _)| &text[i..])
}

/// Whether a word may be asked for after `text`, where the edge would write `proposal`: the bytes
/// of its proposed token, none for end-of-text.
pub fn eligible(text: &str, proposal: &[u8]) -> bool {
    let text = tail(text);
    match std::str::from_utf8(proposal) {
        Ok(proposal) => boundary(&format!("{text}{proposal}"), text.len()),
        Err(error) if error.valid_up_to() > 0 => {
            let whole = String::from_utf8_lossy(&proposal[..error.valid_up_to()]);
            boundary(&format!("{text}{whole}"), text.len())
        }
        // A token that ends inside its first character. The lead byte tells ideographs; of the
        // others it is not known what they join, except at the start of a line.
        Err(_) => match last_class(text) {
            None | Some(Class::Newline) => true,
            Some(Class::Space) => false,
            Some(_) => proposal.first().is_some_and(|lead| (0xe4..=0xe9).contains(lead)),
        },
    }
}

/// The end of the first word that `answer` adds behind `context`: white space before it belongs
/// to it, a line's end is a word of its own. `None` when more text is needed to tell.
pub fn word_end(context: &str, answer: &str) -> Option<usize> {
    let tail = tail(context);
    let joined = format!("{tail}{answer}");
    answer.char_indices().map(|(i, _)| i).skip(1).find(|&i| boundary(&joined, tail.len() + i))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cuts a text into words, as an endless cloud would answer them.
    fn words(text: &str) -> Vec<&str> {
        let mut words = vec![];
        let mut start = 0;
        while start < text.len() {
            let end = word_end(&text[..start], &text[start..]).map_or(text.len(), |e| start + e);
            words.push(&text[start..end]);
            start = end;
        }
        words
    }

    #[test]
    fn words_of_every_kind() {
        for (text, expected) in [
            ("The capital is Paris.", &["The", " capital", " is", " Paris", "."][..]),
            ("answer (A) here", &["answer", " (", "A", ")", " here"]),
            ("f(x)", &["f", "(x", ")"]),
            ("don't stop", &["don", "'t", " stop"]),
            ("in 1995, 3.14", &["in", " 1", "9", "9", "5", ",", " 3", ".", "1", "4"]),
            ("你好，世界", &["你", "好", "，", "世", "界"]),
            ("def f():\n    return 1\n", &["def", " f", "():\n", "    return", " 1", "\n"]),
            ("one\n\ntwo", &["one", "\n\n", "two"]),
            ("a 👩‍👩‍👧 b", &["a", " 👩‍👩‍👧", " b"]),
            ("cafe\u{301}s x", &["cafe\u{301}s", " x"]),
            ("x -> y", &["x", " ->", " y"]),
            ("1st", &["1", "st"]),
        ] {
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    #[test]
    fn never_after_a_trailing_space() {
        assert!(!eligible("the ", b"cat"));
        assert!(!eligible("the ", b" "));
        assert!(!eligible("    ", b"x"));
        assert!(!eligible("the ", b""));
    }

    #[test]
    fn eligible_positions() {
        assert!(eligible("", b"The"));
        assert!(eligible("the", b" cat"));
        assert!(eligible("the answer is (", b"A"));
        assert!(eligible("the end", b"."));
        assert!(eligible("the end.", b""), "end-of-text can be routed");
        assert!(eligible("line\n", b"next"));
        assert!(eligible("if x:\n", b"    "));
        assert!(eligible("19", b"9"));
        assert!(!eligible("wor", b"ld"));
        assert!(!eligible("e", "\u{301}".as_bytes()));
        assert!(!eligible(":", b"\n"));
    }

    #[test]
    fn a_token_inside_a_character_is_judged_by_its_lead_byte() {
        let chinese = "世".as_bytes();
        assert!(eligible("你", &chinese[..1]));
        assert!(!eligible("caf", &"é".as_bytes()[..1]));
        assert!(!eligible("x ", &chinese[..1]));
    }

    proptest! {
        #[test]
        fn words_joined_are_the_text(text in r"[ a-z0-9.,()'\n\t中文é😀\u{301}]{0,40}") {
            prop_assert_eq!(words(&text).concat(), text);
        }

        #[test]
        fn a_word_does_not_change_with_what_follows(
            text in r"[ a-z0-9.,()\n中é😀]{1,20}", more in r"[ a-z0-9.,()\n中é😀]{0,10}"
        ) {
            if let Some(end) = word_end("", &text) {
                prop_assert_eq!(word_end("", &format!("{text}{more}")), Some(end));
            }
        }
    }
}
