//! Which number an answer concludes with.

use super::{
    cue::{CueKind, boxes, cue_phrases, last_sentence, line, sentence},
    value::{Value, clean, is_number, normal_number},
};

/// The number an answer concludes with, as [`normal_number`] writes it.
///
/// The last `\boxed{…}` that is closed, for that is what was asked for; else the first number
/// behind the last "the answer is" or "####" (behind its last "=", if the sentence has one). Else
/// the whole answer, if it is a number; else the last sentence of the text, if it concludes
/// ("Therefore", "So", "in total", "="): its last number. Only the last sentence: what an
/// explanation finds on its way is no answer.
pub fn number(text: &str) -> Option<String> {
    let held = boxes(text).filter(|found| found.whole && !found.behind.trim().is_empty());
    if let Some(last) = held.last() {
        return Some(normal_number(last.behind));
    }
    for cue in cue_phrases(text).iter().filter(|cue| cue.kind == CueKind::Words) {
        let line = line(cue.behind).trim_start_matches([':', ' ']);
        // A dash of a list is no minus.
        let said = sentence(line.strip_prefix("- ").unwrap_or(line)).0;
        let says = !said.is_empty() && !said.contains("\\boxed") && !said.starts_with("not ");
        if says {
            return first(said);
        }
    }
    if is_number(text) { Some(normal_number(text)) } else { concluded(text) }
}

/// The first number; `None` if it is part of a sum, or another one is offered with it.
fn first(said: &str) -> Option<String> {
    let said = clean(said);
    let found = numbers(&said).next()?;
    let rest = found.behind.trim_start();
    let other = rest.strip_prefix("or ").is_some_and(|rest| Value::read(rest).is_some());
    (!other && !found.in_sum()).then(|| found.value.to_string())
}

/// The last number of the last sentence, if that concludes and has come to its end.
fn concluded(text: &str) -> Option<String> {
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let said = last_sentence(last);
    let lower = said.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    const CONCLUDING: [&str; 8] =
        ["therefore", "thus", "hence", "so", "total", "altogether", "finally", "overall"];
    if !words.any(|word| CONCLUDING.contains(&word)) && !lower.contains(['=', '≈']) {
        return None;
    }
    let cleaned = clean(said);
    let equation = said.contains(['=', '≈']);
    let mut found = numbers(&cleaned);
    let found = if equation { found.next() } else { found.last() }?;
    let end = said.ends_with(['.', '!', ')', '*', '$', '%']) || found.behind.trim().is_empty();
    (end && !found.in_sum()).then(|| found.value.to_string())
}

struct NumberMatch<'a> {
    value: Value,
    before: &'a str,
    behind: &'a str,
}

impl NumberMatch<'_> {
    /// "5 + 3": a sum that is not done.
    fn in_sum(&self) -> bool {
        let signs = ['+', '-', '*', '/', '×', '÷', '^'];
        let behind = self.behind.trim_start();
        let goes_on = behind.strip_prefix(signs).is_some_and(|next| {
            next.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '(')
        });
        self.before.trim_end().ends_with(signs) || goes_on
    }
}

fn numbers(text: &str) -> impl Iterator<Item = NumberMatch<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(c) = text[at..].chars().next() {
            let (before, left) = text.split_at(at);
            let glued = before.ends_with(char::is_alphanumeric);
            // A minus behind a number takes away.
            let minus = before.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == ')');
            let starts = match c {
                '-' => !minus,
                '.' | '\\' => !glued,
                c => c.is_ascii_digit() && !glued,
            };
            if starts && let Some((value, behind)) = Value::read(left) {
                at = text.len() - behind.len();
                return Some(NumberMatch { value, before, behind });
            }
            at += c.len_utf8();
        }
        None
    })
}
