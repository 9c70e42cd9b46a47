//! Words around a choice, and how its text is found among them.

/// What may stand before a label or a choice.
pub const QUOTES: [char; 7] = [' ', '\t', ':', '"', '\'', '$', '{'];
/// Words between a conclusion and its label.
const LEADS: [&str; 8] =
    ["option", "choice", "label", "letter", "answer", "most", "likely", "probably"];
/// Words that may follow a label or a choice and say no more about which it is.
const REASONS: [&str; 8] = ["because", "since", "as", "for", "which", "where", "so", "due"];
/// Without markup, and with one kind of quotes and parentheses.
pub fn plain(text: &str) -> String {
    let text = ["\\text", "\\textbf", "\\mathrm", "\\mathbf"]
        .iter()
        .fold(text.to_owned(), |text, command| text.replace(&format!("{command}{{"), "{"));
    let text = text.replace("\\(", " ").replace("\\)", " ");
    let mapped = text.chars().filter(|c| !matches!(c, '*' | '`' | '\r')).map(|c| match c {
        '“' | '”' | '«' | '»' => '"',
        '‘' | '’' => '\'',
        '（' => '(',
        '）' => ')',
        '：' => ':',
        '\u{a0}' | '\u{202f}' => ' ',
        c => c,
    });
    mapped.collect()
}

/// What follows a choice's text, with or without an article; `None` if the text does not stand
/// here as whole words.
pub fn strip_text<'t>(front: &'t str, text: &str) -> Option<&'t str> {
    let text = text.trim().trim_start_matches(QUOTES).trim_end_matches(['.', '"', '\'']);
    strip(front, text).or_else(|| strip(skip_article(front), skip_article(text)))
}

fn strip<'t>(front: &'t str, text: &str) -> Option<&'t str> {
    let mut rest = front;
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    for word in words {
        rest = rest.trim_start_matches(' ');
        for wanted in word.chars() {
            let found = rest.chars().next()?;
            if found != wanted && !found.to_lowercase().eq(wanted.to_lowercase()) {
                return None;
            }
            rest = &rest[found.len_utf8()..];
        }
        if rest.starts_with(char::is_alphanumeric) {
            return None;
        }
    }
    let mut next = rest.chars();
    let goes_on = match (next.next(), next.next()) {
        (Some('-' | '\'' | '/'), Some(c)) => c.is_alphanumeric(),
        (Some('.' | ','), Some(c)) => c.is_ascii_digit(),
        _ => false,
    };
    (!goes_on).then_some(rest)
}

fn skip_article(text: &str) -> &str {
    let found = ["a", "an", "the"].iter().find_map(|article| after_word(text, article));
    found.map_or(text, |rest| rest.trim_start_matches(QUOTES))
}

/// Without the words that may stand between a conclusion and its label.
pub fn skip_leads(mut text: &str) -> &str {
    while let Some(rest) = LEADS.iter().find_map(|lead| after_word(text, lead)) {
        text = rest.trim_start_matches(QUOTES);
    }
    text
}

/// What follows a word, in any case, and the space behind it.
pub fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let found = start.eq_ignore_ascii_case(word) && rest.starts_with([' ', ':']);
    found.then(|| rest.trim_start_matches([' ', ':']))
}

/// Whether nothing more is said about which choice it is: neither a word nor a formula goes on.
pub fn is_over(rest: &str) -> bool {
    let rest = rest.trim_start();
    let goes_on = |c: char| c.is_alphanumeric() || "%+=_^/<>→×&".contains(c);
    !rest.starts_with(goes_on) && !rest.starts_with("->") || starts_with_reason(rest)
}

pub fn starts_with_reason(text: &str) -> bool {
    REASONS.contains(&first_word(text))
}

/// Up to the first character that is no letter or digit.
pub fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_as_whole_words() {
        assert_eq!(strip_text("Bus  Stop, near", "bus stop"), Some(", near"));
        assert_eq!(strip_text("the bus stop", "a bus stop."), Some(""));
        assert_eq!(strip_text("ÉTÉ (b)", "été"), Some(" (b)"));
        for (front, text) in
            [("bus stops", "bus stop"), ("busstop", "bus stop"), ("bus", "bus stop"), ("x", "")]
        {
            assert_eq!(strip_text(front, text), None, "{front}");
        }
        assert_eq!(strip_text("0.55", "0"), None);
    }

    #[test]
    fn markup_is_no_text() {
        assert_eq!(plain("**“é”** `x`\u{a0}\\textbf{y}"), "\"é\" x {y}");
        assert_eq!(skip_leads("Most likely option: b"), "b");
        assert_eq!(after_word("ör", "o"), None);
    }
}
