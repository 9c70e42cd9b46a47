//! The summary.

use minijinja::{Environment, UndefinedBehavior, Value, context, value::Serde};

use super::{Report, ReportError, tight};

/// The report as Markdown: the words and tables of the page.
pub fn summary(report: &Report) -> Result<String, ReportError> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_syntax(tight()?);
    templates.add_filter("plain", plain);
    templates.add_template("summary.md", include_str!("summary.md"))?;
    let report = Value::from(Serde(report));
    Ok(templates.get_template("summary.md")?.render(context! { report })?)
}

/// Words that Markdown takes as they are, on one line: a name must neither end a cell nor begin a
/// tag.
fn plain(words: &str) -> String {
    let mut plain = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter {
            '\n' | '\r' => plain.push(' '),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' => plain.extend(['\\', letter]),
            _ => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        assert_eq!(plain("a|b\n<script> x_y"), "a\\|b &lt;script&gt; x\\_y");
    }
}
