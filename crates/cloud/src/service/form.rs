//! The form that a session's answers are held to, as the edge holds its own.

use std::sync::Arc;

use decode::{Constraint, Token, common_prefix};
use engine::{Grammar, GrammarCompiler, Model};
use serde_json::Value;

use super::{Service, ServiceError};

/// The most values of a schema, those inside of others included. Parsed, they take many times their
/// bytes, and a session may wait to be opened; no edge server takes more.
const MOST_VALUES: usize = 1 << 15;

/// A form, and how far a conversation has followed it.
pub(crate) struct Form {
    start: Box<dyn Constraint>,
    now: Box<dyn Constraint>,
    read: Vec<Token>,
}

impl Form {
    pub fn new(start: Box<dyn Constraint>) -> Self {
        Self { now: start.clone(), start, read: vec![] }
    }

    /// What may come behind these tokens; `None` where they do not fit themselves. Then nothing is
    /// held to it here: the edge checks every answer in any case.
    pub fn behind(&mut self, tokens: &[Token]) -> Option<Box<dyn Constraint>> {
        if common_prefix(&self.read, tokens) < self.read.len() {
            self.begin_again();
        }
        match self.now.advance(&tokens[self.read.len()..]) {
            Ok(()) => {
                self.read = tokens.to_vec();
                Some(self.now.clone())
            }
            Err(error) => {
                tracing::debug!(%error, "the conversation does not fit its form");
                self.begin_again();
                None
            }
        }
    }

    fn begin_again(&mut self) {
        self.now = self.start.clone();
        self.read.clear();
    }
}

/// Refuses a grammar that is too large to wait with.
pub(super) fn check_size(grammar: Option<&Grammar>) -> Result<(), ServiceError> {
    match grammar {
        Some(Grammar::JsonSchema(schema)) if values(schema) > MOST_VALUES => {
            Err(ServiceError::invalid(format!("the schema has more than {MOST_VALUES} values")))
        }
        _ => Ok(()),
    }
}

fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(values).sum::<usize>(),
        Value::Object(map) => map.values().map(values).sum::<usize>(),
        _ => 0,
    }
}

impl Service {
    /// What a session is held to. A grammar that cannot be used is the edge's to refuse.
    pub(super) async fn form(
        &self,
        model: &Model,
        grammar: Option<Grammar>,
    ) -> Result<Option<Form>, ServiceError> {
        let Some(grammar) = grammar else { return Ok(None) };
        let (vocabulary, compiler) = (model.vocabulary().clone(), self.grammars.clone());
        let compile = move || {
            let compiler = match compiler.get() {
                Some(compiler) => compiler,
                None => {
                    let made = GrammarCompiler::new(vocabulary)?;
                    compiler.get_or_init(|| made)
                }
            };
            compiler.compile(&grammar)
        };
        match self.compiling.run(move || Ok(compile())).await? {
            Ok(start) => Ok(Some(Form::new(start))),
            Err(error) => {
                tracing::debug!(%error, "a grammar cannot be used here");
                Ok(None)
            }
        }
    }
}

/// Shared by all sessions, and made when the first one needs it.
pub(super) type Grammars = Arc<std::sync::OnceLock<GrammarCompiler>>;

#[cfg(test)]
mod tests {
    use decode::{Vocabulary, fake::FakeVocabulary};

    use super::*;

    #[test]
    fn a_form_follows_its_conversation_back_and_forth() {
        let vocabulary = Arc::new(FakeVocabulary::new(&[]));
        let compiler = GrammarCompiler::new(vocabulary.clone()).unwrap();
        let start = compiler.compile(&Grammar::Regex("ab+c".into())).unwrap();
        let mut form = Form::new(start);
        let encode = |text: &str| vocabulary.encode(text);
        let mut behind = |text: &str, next: &str| {
            form.behind(&encode(text)).map(|mut form| form.allows(&encode(next)).unwrap())
        };
        assert_eq!(behind("", "a"), Some(true));
        assert_eq!(behind("ab", "bc"), Some(true));
        assert_eq!(behind("abb", "a"), Some(false));
        assert_eq!(behind("a", "b"), Some(true));
        assert_eq!(behind("x", "b"), None);
        assert_eq!(behind("abbb", "c"), Some(true));
    }
}
