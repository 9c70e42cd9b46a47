//! Where a text concludes.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CueKind {
    /// "The answer is", "Answer:", "the correct option is", "####".
    Words,
    /// "The best choice is": how answers also *begin*, with the reasons and the conclusion to come.
    Best,
    Boxed,
    /// "… is the answer": what is said stands before it.
    Subject,
}

/// A conclusion, and what is said in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuePhrase<'a> {
    pub kind: CueKind,
    /// All that stands behind the words, or before them on the line for a subject; what the box
    /// holds, or all behind it if it is not closed.
    pub behind: &'a str,
    /// Whether it is whole: not a box without its last brace.
    pub whole: bool,
    at: usize,
}

/// Words before "answer" with which nothing is concluded.
const OTHER_ANSWERS: [&str; 8] = ["no", "an", "any", "each", "every", "which", "what", "wrong"];

/// Every conclusion, the last first.
pub fn cue_phrases(text: &str) -> Vec<CuePhrase<'_>> {
    // ASCII case folding keeps every byte where it is.
    let lower = text.to_ascii_lowercase();
    let mut cue_phrases = vec![];
    let mut find = |word: &str, kind: fn(&str) -> Option<CueKind>| {
        for (at, _) in lower.match_indices(word) {
            let before = &lower[..at];
            let whole_word = !before.ends_with(|c: char| c.is_alphanumeric());
            let said = claim(text, &lower, at + word.len());
            if let (true, Some(at), Some(kind)) = (whole_word, said, kind(last_word(before))) {
                cue_phrases.push(CuePhrase { kind, behind: &text[at..], whole: true, at });
            }
        }
    };
    find("answer", |word| (!OTHER_ANSWERS.contains(&word)).then_some(CueKind::Words));
    for word in ["choice", "option"] {
        find(word, |word| match word {
            "correct" | "right" => Some(CueKind::Words),
            "best" => Some(CueKind::Best),
            _ => None,
        });
    }
    for (at, mark) in text.match_indices("####") {
        let at = at + mark.len();
        cue_phrases.push(CuePhrase { kind: CueKind::Words, behind: &text[at..], whole: true, at });
    }
    cue_phrases.extend(boxes(text));
    cue_phrases.extend(subjects(text, &lower));
    cue_phrases.sort_by_key(|cue| std::cmp::Reverse(cue.at));
    cue_phrases
}

pub fn boxes(text: &str) -> impl Iterator<Item = CuePhrase<'_>> {
    text.match_indices("\\boxed").filter_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        let inside = rest.trim_start().strip_prefix('{')?;
        let held = balanced(inside);
        let (behind, whole) = (held.unwrap_or(inside), held.is_some());
        let at = at + word.len() + (rest.len() - inside.len());
        Some(CuePhrase { kind: CueKind::Boxed, behind, whole, at })
    })
}

/// Every "… is the answer", "… is the correct choice".
fn subjects<'a>(text: &'a str, lower: &str) -> Vec<CuePhrase<'a>> {
    let found = lower.match_indices(" is the ").filter_map(|(at, words)| {
        let rest = &lower[at + words.len()..];
        let of = ["correct ", "right ", "best "].iter().find_map(|word| rest.strip_prefix(word));
        let rest = match of {
            Some(rest) => {
                ["answer", "choice", "option"].iter().find_map(|w| rest.strip_prefix(w))?
            }
            None => rest.strip_prefix("answer")?,
        };
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let whole_word = !rest.starts_with(|c: char| c.is_alphanumeric());
        let claims = whole_word && !rest.trim_start().starts_with(':') && !rest.starts_with(" key");
        claims.then(|| CuePhrase {
            kind: CueKind::Subject,
            behind: &text[start..at],
            whole: true,
            at,
        })
    });
    found.collect()
}

/// Where "is" or ":" ends, if it follows; "answer to the question is" too.
fn claim(text: &str, lower: &str, at: usize) -> Option<usize> {
    let mut rest = lower[at..].trim_start_matches(MARKUP);
    for aside in ["to the question", "to this question", "to the problem", "to this problem"] {
        rest = rest.strip_prefix(aside).map_or(rest, |rest| rest.trim_start_matches(MARKUP));
    }
    for aside in ["choice", "option"] {
        rest = rest.strip_prefix(aside).map_or(rest, |rest| rest.trim_start_matches(MARKUP));
    }
    let behind = match rest.strip_prefix("is") {
        Some(behind) if !behind.starts_with(|c: char| c.is_alphanumeric() || c == '\'') => behind,
        Some(_) => return None,
        None => rest.strip_prefix([':', '='])?,
    };
    Some(text.len() - behind.len())
}

const MARKUP: [char; 4] = [' ', '\t', '*', '_'];

fn last_word(text: &str) -> &str {
    let words = text.trim_end_matches(MARKUP).rsplit(|c: char| !c.is_alphanumeric());
    words.into_iter().next().unwrap_or_default()
}

/// Up to the brace that closes the one before the text.
pub fn balanced(text: &str) -> Option<&str> {
    let mut depth = 1usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..at]);
        }
    }
    None
}

/// The line that begins here, or the next one with anything on it: "The answer is:" may be followed
/// by an empty one.
pub fn line(text: &str) -> &str {
    let filled = |line: &&str| !line.trim_matches([' ', '\t', '\r', ':', '*', '_']).is_empty();
    text.split('\n').find(filled).unwrap_or_default().trim()
}

/// The first sentence and what follows it. A full stop inside a number, a word or a title ends
/// none.
pub fn sentence(text: &str) -> (&str, &str) {
    const TITLES: [&str; 7] = ["mr", "mrs", "ms", "dr", "st", "no", "vs"];
    for (at, c) in text.char_indices() {
        let (so_far, rest) = (&text[..at], &text[at + c.len_utf8()..]);
        let title = || c == '.' && TITLES.contains(&last_word(&so_far.to_ascii_lowercase()));
        let ends =
            matches!(c, '.' | '!' | '?') && (rest.is_empty() || rest.starts_with([' ', '"']));
        if c == '\n' || ends && !title() {
            return (so_far, rest);
        }
    }
    (text, "")
}

pub fn last_sentence(line: &str) -> &str {
    let mut last = line.trim();
    while let (_, rest) = sentence(last)
        && !rest.trim().is_empty()
    {
        last = rest.trim();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(text: &str) -> Vec<&str> {
        cue_phrases(text).into_iter().map(|cue| cue.behind.trim()).collect()
    }

    #[test]
    fn the_last_comes_first() {
        assert_eq!(
            behind("The answer is x. Answer: \\boxed{y}"),
            ["y", "\\boxed{y}", "x. Answer: \\boxed{y}"]
        );
        assert_eq!(behind("**Answer**: 5"), ["5"]);
        assert_eq!(behind("The answer to the question is 5"), ["5"]);
        assert_eq!(behind("The correct option is: b"), [": b"]);
        assert_eq!(behind("é – the answer is é"), ["é"]);
        assert_eq!(behind("x\nSo b is the answer."), ["So b"]);
        assert_eq!(behind("b is the correct choice, as a is not"), ["b"]);
    }

    #[test]
    fn what_does_not_conclude() {
        for text in [
            "",
            "answer",
            "The answer isn't 5",
            "No answer is right",
            "which answer is 5",
            "The answers: 5",
            "The option is 5",
            "The answer must be 5",
            "unanswer: 5",
            "5 is the answer key",
            "5 is the option",
        ] {
            assert_eq!(behind(text), Vec::<&str>::new(), "{text}");
        }
    }

    #[test]
    fn sentences_end_where_they_end() {
        assert_eq!(sentence("It is 3.5 cm. Or"), ("It is 3.5 cm", " Or"));
        assert_eq!(sentence("Mr. Smith has 5"), ("Mr. Smith has 5", ""));
        assert_eq!(sentence("Really? Yes"), ("Really", " Yes"));
        assert_eq!(line("\n\n  (b)\nc"), "(b)");
        assert_eq!((balanced("a{b}c}d"), balanced("a{")), (Some("a{b}c"), None));
    }
}
