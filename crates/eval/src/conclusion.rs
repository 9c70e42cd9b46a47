//! What a model's answer says, read by the conventions of the tasks.

/// The label of the last "the answer is … (x)", as the question spells it; without parentheses, a
/// label that stands alone behind these words.
pub fn choice(text: &str, labels: &[String]) -> Option<String> {
    let behind = behind_last(text, "the answer is")?;
    let sentence = behind.split('\n').next().unwrap_or(behind);
    parenthesised(sentence, labels).or_else(|| bare(sentence, labels))
}

/// What the last `\boxed{…}` holds, else the number behind the last "the answer is".
pub fn number(text: &str) -> Option<String> {
    let boxed = text.rfind("\\boxed{").and_then(|at| balanced(&text[at + "\\boxed{".len()..]));
    if let Some(boxed) = boxed {
        return Some(normal_number(boxed));
    }
    let behind = behind_last(text, "the answer is")?;
    let number: String = behind
        .trim_start_matches([' ', ':', '$'])
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '.' | ',' | '/'))
        .collect();
    let number = normal_number(&number);
    (!number.is_empty()).then_some(number)
}

/// A number as it is compared: without currency, thousands marks, per cent and trailing zeros.
pub fn normal_number(text: &str) -> String {
    let text = text.trim().trim_end_matches(['.', ',']).replace("\\$", "").replace("\\%", "");
    let plain: String = text.chars().filter(|c| !matches!(c, '$' | ',' | '%' | ' ')).collect();
    match plain.split_once('.') {
        Some((whole, fraction)) if fraction.chars().all(|c| c.is_ascii_digit()) => {
            match fraction.trim_end_matches('0') {
                "" => whole.to_owned(),
                rest => format!("{whole}.{rest}"),
            }
        }
        _ => plain,
    }
}

fn behind_last<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    // ASCII case folding keeps every byte where it is.
    let at = text.to_ascii_lowercase().rfind(words)?;
    Some(&text[at + words.len()..])
}

/// The first known label in parentheses: what comes behind it is what it is not.
fn parenthesised(text: &str, labels: &[String]) -> Option<String> {
    let inside = text.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    inside.filter_map(|(label, _)| known(label, labels)).next()
}

/// A known label that stands alone right behind the words, as in "the answer is B."; the article in
/// "the answer is a mountain" is none.
fn bare(text: &str, labels: &[String]) -> Option<String> {
    let word = text.trim_start_matches([' ', ':', '*']);
    let end = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
    let (word, rest) = word.split_at(end);
    let alone = !rest.trim_start().starts_with(char::is_alphanumeric);
    known(word, labels).filter(|label| alone || label == word)
}

fn known(label: &str, labels: &[String]) -> Option<String> {
    labels.iter().find(|known| known.eq_ignore_ascii_case(label.trim())).cloned()
}

/// Up to the brace that closes the one before the text.
fn balanced(text: &str) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Vec<String> {
        ["A", "B", "C", "D", "E"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_last_conclusion_counts() {
        let says = |text: &str| choice(text, &labels());
        assert_eq!(says("So. Therefore, the answer is atlas (d)."), Some("D".into()));
        assert_eq!(says("The answer is x (a). No: the answer is y (b)."), Some("B".into()));
        assert_eq!(says("Therefore, the answer is populated areas (B)"), Some("B".into()));
        assert_eq!(says("the answer is (e), not (a)."), Some("E".into()));
        assert_eq!(says("The answer is: C."), Some("C".into()));
        assert_eq!(says("The answer is B because it is."), Some("B".into()));
        assert_eq!(says("The answer is **D**"), Some("D".into()));
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for text in [
            "",
            "(a)",
            "the answer is",
            "the answer is blue",
            "the answer is (z)",
            "é the answer is",
        ] {
            assert_eq!(choice(text, &labels()), None, "{text}");
        }
        // A word that begins with a label is no label.
        assert_eq!(choice("the answer is apple", &labels()), None);
        assert_eq!(choice("Therefore, the answer is a mountain.", &labels()), None);
    }

    #[test]
    fn numbers_compare_as_numbers() {
        assert_eq!(number("so \\boxed{2,317.00}"), Some("2317".into()));
        assert_eq!(number("\\boxed{1} then \\boxed{\\frac{1}{2}}"), Some("\\frac{1}{2}".into()));
        assert_eq!(number("The answer is $18.50."), Some("18.5".into()));
        assert_eq!(number("The answer is many"), None);
        assert_eq!(number("\\boxed{7"), None);
        assert_eq!(normal_number("1.0"), "1");
    }
}
