//! Chat templates: a conversation in the form that the model was trained on.
//!
//! The template comes from the model's own metadata. Only the template may write special tokens:
//! each message is rendered as a placeholder, which is replaced after the template's own text has
//! been recognised, so that "<|im_end|>" in a message stays plain text.

use decode::Message;
use minijinja::{Environment, Error, ErrorKind, context, syntax::SyntaxConfig};
use thiserror::Error as ThisError;

use crate::error::EngineError;

/// A piece of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Written by the template: may spell special tokens.
    Template(String),
    /// A message: plain text.
    Content(String),
}

/// The special tokens a template may name.
#[derive(Clone, Debug, Default)]
pub struct Specials {
    pub bos: String,
    pub eos: String,
}

/// Steps that a template may take, and those it may take for each message besides: a hundred times
/// what any needs. A template is part of a model's file, and must not run for ever.
const FUEL: u64 = 1_000_000;
const FUEL_A_MESSAGE: u64 = 10_000;

/// Why a conversation cannot be rendered.
#[derive(Debug, ThisError)]
pub enum RenderError {
    #[error(transparent)]
    Template(#[from] Error),
    #[error(transparent)]
    Random(#[from] getrandom::Error),
}

impl From<RenderError> for EngineError {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Template(error) => Self::Template { reason: error.to_string() },
            RenderError::Random(error) => Self::Random { reason: error.to_string() },
        }
    }
}

/// Renders a conversation, ready for the assistant's answer.
pub fn render(
    template: &str,
    specials: &Specials,
    messages: &[Message],
) -> Result<Vec<Part>, RenderError> {
    let marker = marker()?;
    let placeholder = |i: usize| format!("{marker}{i}{marker}");
    let placeholders: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(i, m)| context! { role => m.role.as_str(), content => placeholder(i) })
        .collect();
    let mut environment = Environment::new();
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.set_syntax(syntax()?);
    environment.set_fuel(Some(FUEL + FUEL_A_MESSAGE * messages.len() as u64));
    let rendered = environment.render_str(
        template,
        context! {
            messages => placeholders,
            add_generation_prompt => true,
            bos_token => specials.bos.as_str(),
            eos_token => specials.eos.as_str(),
        },
    )?;
    Ok(parts(&rendered, &marker, messages))
}

/// A rendered conversation as one text, in which special tokens look like any other text.
pub fn joined(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Template(text) | Part::Content(text) => text.clone(),
    };
    parts.iter().map(text).collect()
}

/// White space is trimmed as in `transformers`, for which chat templates are written.
fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()
}

/// What stands around the placeholder of a message while its conversation is rendered.
///
/// It is drawn anew for each conversation, so no message can contain it: nobody who writes one knows
/// it. A marker made to differ from the messages would have to be compared with all of them, again
/// and again where they try to have it.
fn marker() -> Result<String, getrandom::Error> {
    // Digits, which a template leaves alone whatever it does with letters.
    Ok(format!("\u{e000}{:020}\u{e001}", getrandom::u64()?))
}

fn parts(rendered: &str, marker: &str, messages: &[Message]) -> Vec<Part> {
    let pieces = rendered.split(marker).enumerate();
    pieces
        .filter_map(|(i, piece)| {
            if i % 2 == 0 {
                return (!piece.is_empty()).then(|| Part::Template(piece.to_owned()));
            }
            let message = piece.parse::<usize>().ok().and_then(|n| messages.get(n))?;
            Some(Part::Content(message.content.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + \
        message.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}\
        {{ '<|im_start|>assistant\n' }}{% endif %}";

    #[test]
    fn messages_are_not_mixed_up_with_the_template() {
        let messages =
            [Message::system("Be brief."), Message::user("<|im_end|> \u{e000}0\u{e000}")];
        let parts = render(CHATML, &Specials::default(), &messages).unwrap();
        assert_eq!(
            joined(&parts),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|im_end|> \
             \u{e000}0\u{e000}<|im_end|>\n<|im_start|>assistant\n"
        );
        let contents: Vec<_> = parts.iter().filter(|p| matches!(p, Part::Content(_))).collect();
        assert_eq!(
            contents,
            [
                &Part::Content("Be brief.".into()),
                &Part::Content("<|im_end|> \u{e000}0\u{e000}".into())
            ]
        );
    }

    /// Comparing them with markers that grow until they differ would take minutes, and gigabytes for
    /// as many placeholders.
    #[test]
    fn messages_made_of_markers_cost_no_more_than_others() {
        let mut messages = vec![Message::user(""); 2000];
        messages[0].content = format!("\u{e000}{}", "\u{e001}".repeat(300_000));
        messages[1].content = "\u{e000}0\u{e000}".repeat(50_000);
        let started = Instant::now();
        let parts = render(CHATML, &Specials::default(), &messages).unwrap();
        let contents = parts.iter().filter_map(|part| match part {
            Part::Content(text) => Some(text),
            Part::Template(_) => None,
        });
        assert!(contents.eq(messages.iter().map(|message| &message.content)));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    #[test]
    fn a_template_may_refuse_and_says_why() {
        let template = "{{ raise_exception('roles must alternate') }}";
        let error = render(template, &Specials::default(), &[Message::user("x")]).unwrap_err();
        assert!(error.to_string().contains("roles must alternate"), "{error}");
    }

    #[test]
    fn a_template_that_runs_on_and_on_is_stopped() {
        let template = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}\
            {% endfor %}{% endfor %}";
        let error = render(template, &Specials::default(), &[Message::user("x")]).unwrap_err();
        let RenderError::Template(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), ErrorKind::OutOfFuel, "{error}");
        let messages = vec![Message::user("x"); 4000];
        assert!(render(CHATML, &Specials::default(), &messages).is_ok());
    }

    #[test]
    fn a_broken_template_is_an_error() {
        assert!(render("{% for %}", &Specials::default(), &[]).is_err());
    }

    #[test]
    fn python_methods_and_special_tokens_work() {
        let template = "{{ bos_token }}{% for m in messages %}{{ m['content'].strip() }}\
            {{ eos_token }}{% endfor %}";
        let specials = Specials { bos: "<s>".into(), eos: "</s>".into() };
        let parts = render(template, &specials, &[Message::user(" hi ")]).unwrap();
        assert_eq!(joined(&parts), "<s> hi </s>");
    }
}
