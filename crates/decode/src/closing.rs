//! JSON that is closed before its limit is reached: a small model can go on with a string or a list for
//! ever, and what is cut off is no JSON.

use crate::{Token, Vocabulary};

/// How many tokens are kept for what has to be written before the end, at most.
const MOST_KEPT: usize = 40;

/// What is open in a JSON text where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonNesting {
    in_string: bool,
    /// Brackets that are open.
    depth: usize,
}

impl JsonNesting {
    /// Behind a text; only what follows the last `<tool_call>` in it is JSON.
    pub fn behind(text: &str) -> Self {
        let json = text.rsplit("<tool_call>").next().unwrap_or_default();
        let (mut nesting, mut escaped) = (Self::default(), false);
        for byte in json.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if nesting.in_string => escaped = true,
                b'"' => nesting.in_string = !nesting.in_string,
                b'{' | b'[' if !nesting.in_string => nesting.depth += 1,
                b'}' | b']' if !nesting.in_string => {
                    nesting.depth = nesting.depth.saturating_sub(1)
                }
                _ => {}
            }
        }
        nesting
    }

    /// Whether so little room is left that the text has to be closed. Every bracket needs some.
    pub fn must_close(self, room: usize, written: usize) -> bool {
        room <= MOST_KEPT.min((room + written) / 4) + 2 * self.depth
    }
}

/// The tokens that bring a JSON text nearer to its end.
#[derive(Clone, Debug)]
pub(crate) struct Closers {
    in_string: Vec<Token>,
    outside: Vec<Token>,
}

impl Closers {
    pub fn new(vocabulary: &dyn Vocabulary) -> Self {
        let single = |text: &&str| match vocabulary.encode(text).as_slice() {
            [token] => Some(*token),
            _ => None,
        };
        let tokens = |texts: &[&str]| texts.iter().filter_map(single).collect();
        Self {
            in_string: tokens(&["\"", "\"}", "\"]", "\"}}", "\"}]", "\"]}"]),
            outside: tokens(&[
                "}", "}}", "}}}", "]", "]]", "}]", "]}", "null", " null", "{}", " {}", "[]", " []",
                "\"\"", " \"\"",
            ]),
        }
    }

    /// Leaves only closing tokens possible, if any of them is; says whether.
    pub fn prefer(&self, nesting: JsonNesting, logits: &mut [f32]) -> bool {
        let closers = if nesting.in_string { &self.in_string } else { &self.outside };
        let possible = |t: &&Token| logits.get(t.index()).is_some_and(|l| l.is_finite());
        let kept: Vec<(usize, f32)> =
            closers.iter().filter(possible).map(|t| (t.index(), logits[t.index()])).collect();
        if kept.is_empty() {
            return false;
        }
        logits.fill(f32::NEG_INFINITY);
        kept.into_iter().for_each(|(index, logit)| logits[index] = logit);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_brackets_are_told_apart() {
        for (text, in_string, depth) in [
            ("", false, 0),
            ("{\"a\": [1, {\"b", true, 3),
            ("{\"a}]\\\"", true, 1),
            ("{\"a\": \"\\\\\"", false, 1),
            ("[[]]", false, 0),
            ("\"quoted\" text <tool_call>\n{\"x\": ", false, 1),
        ] {
            assert_eq!(JsonNesting::behind(text), JsonNesting { in_string, depth }, "{text}");
        }
    }

    #[test]
    fn deep_texts_are_closed_earlier() {
        let nesting = |depth| JsonNesting { in_string: false, depth };
        assert!(!nesting(0).must_close(100, 100) && nesting(0).must_close(40, 160));
        assert!(nesting(30).must_close(100, 100));
        assert!(!nesting(0).must_close(8, 0) && nesting(0).must_close(2, 6));
    }
}
