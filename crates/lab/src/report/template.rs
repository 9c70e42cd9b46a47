//! The page and the summary, from their templates.

use minijinja::{
    Environment, UndefinedBehavior, Value, context, syntax::SyntaxConfig, value::Serde,
};

use super::{Report, ReportError};

/// Fills in a template. One whose name ends in `.html` escapes whatever comes from results: only our
/// own drawings, style and patterns go in as they are.
pub fn render(report: &Report, name: &str, template: &str) -> Result<String, ReportError> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    // Lines of a template that hold nothing but its own commands leave no trace.
    let tight = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    templates.set_syntax(tight);
    templates.add_filter("plain", plain);
    templates.add_template(name, template)?;
    let (style, patterns) = (include_str!("page.css"), include_str!("patterns.svg"));
    let report = Value::from(Serde(report));
    Ok(templates.get_template(name)?.render(context! { report, style, patterns })?)
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
