//! The page. The template escapes whatever comes from results; only our own drawings, style and
//! patterns go in as they are.

use minijinja::{Environment, UndefinedBehavior, Value, context, value::Serde};

use super::{Report, ReportError, tight};

/// The report as one file that needs no other.
pub fn page(report: &Report) -> Result<String, ReportError> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_syntax(tight()?);
    // The ending of its name makes it escape.
    templates.add_template("page.html", include_str!("page.html"))?;
    let style = include_str!("page.css");
    let patterns = include_str!("patterns.svg");
    let report = Value::from(Serde(report));
    Ok(templates.get_template("page.html")?.render(context! { report, style, patterns })?)
}
