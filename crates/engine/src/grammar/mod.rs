//! Texts that are held to a form: JSON, a JSON schema, a regular expression or a grammar.
//!
//! - [`Grammar`]: what is asked for; [`GrammarCompiler`]: makes a `decode::Constraint` of it
//! - `gbnf`: llama.cpp's grammars; `finite`: whether a schema has an end at all
//! - `tokens`: a vocabulary as llguidance wants it; `follower`: the constraint itself
//! - `triggered`: free text that is held to a form from a certain word on
//! - `biased`: tokens that are wanted more or less often
//!
//! Only this folder knows llguidance.

mod biased;
mod finite;
mod follower;
mod gbnf;
mod tokens;
mod triggered;

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use decode::{Constraint, Token, Vocabulary};
use llguidance::{
    Matcher, ParserFactory,
    api::TopLevelGrammar,
    earley::SlicedBiasComputer,
    toktrie::{InferenceCapabilities, TokEnv},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use self::{
    biased::Biased,
    follower::Follower,
    tokens::Tokens,
    triggered::{Trigger, Triggered},
};

/// The longest grammar or schema, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// The deepest nesting of brackets in a grammar. llguidance reads it recursively, and a stack that
/// overflows ends the whole program.
const MAX_NESTING: usize = 64;

/// The most choices in a grammar or a regular expression: the time they take grows with their square.
const MAX_CHOICES: usize = 4000;

/// The most values of a schema, and the most properties of one object. A text must be refused long
/// before llguidance's recursion over them would fill a stack.
const MAX_VALUES: usize = 20_000;
const MAX_PROPERTIES: usize = 1000;

/// The stack that grammars are compiled on. Only what is used of it takes memory.
const STACK_BYTES: usize = 64 << 20;

/// The longest message about a grammar: it may repeat parts of it.
const MAX_MESSAGE: usize = 400;

/// The form that a text is held to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema(Value),
    /// A grammar in llguidance's variant of Lark, or in llama.cpp's GBNF.
    Lark(String),
    /// A regular expression that the whole text matches.
    Regex(String),
    /// Free text that is held to a form behind a certain word.
    Triggered {
        /// What begins the form as soon as it is written, such as `<tool_call>`.
        word: String,
        /// The form behind it, as in [`Lark`](Self::Lark).
        lark: String,
        /// Whether the text may go on behind the form, and have the word again.
        again: bool,
    },
}

/// Why a text cannot be held to a grammar.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct GrammarError(String);

/// Makes constraints for one vocabulary. It is costly to make and is shared by all texts.
pub struct GrammarCompiler {
    factory: ParserFactory,
    /// The last trigger: nearly always it is the same one.
    trigger: Mutex<Option<(String, Arc<Trigger>)>>,
}

/// Has tokens come more or less often, in a text that may be held to a form besides.
pub fn biased(form: Option<Box<dyn Constraint>>, biases: Vec<(Token, f32)>) -> Box<dyn Constraint> {
    Box::new(Biased::new(form, biases))
}

impl GrammarCompiler {
    /// Sorts the whole vocabulary, which takes about a tenth of a second.
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Result<Self, GrammarError> {
        let tokens: TokEnv = Arc::new(Tokens::new(vocabulary)?);
        let capabilities = InferenceCapabilities { ff_tokens: true, ..Default::default() };
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tokens, capabilities, &slices).map_err(refused)?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self { factory, trigger: Mutex::new(None) })
    }

    /// The constraint of a grammar, at the beginning of a text.
    pub fn compile(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, GrammarError> {
        if let Grammar::Triggered { word, lark, again } = grammar {
            if word.is_empty() {
                return Err(GrammarError("the word is empty".into()));
            }
            let form = self.compile(&Grammar::Lark(lark.clone()))?;
            return Ok(Box::new(Triggered::new(self.trigger(word), form, *again)));
        }
        // Calls of tools are JSON between words, in a grammar that has it inside.
        let json = match grammar {
            Grammar::JsonObject | Grammar::JsonSchema(_) => true,
            Grammar::Lark(text) => text.contains("%json"),
            Grammar::Regex(_) | Grammar::Triggered { .. } => false,
        };
        let grammar = top_level(grammar)?;
        // A grammar comes from anybody: where llguidance fails on it, only this text must. It works
        // its way down recursively, so it gets a thread with a stack that is large enough.
        let made = thread::scope(|scope| {
            let make = || {
                let parser = self.factory.create_parser(grammar).map_err(refused)?;
                let mut matcher = Matcher::new(Ok(parser));
                // The first mask tells of what is too complex before any model has been asked.
                if !matcher.is_stopped() {
                    matcher.compute_mask_or_eos().map_err(refused)?;
                }
                Ok(matcher)
            };
            let thread = thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, make).map(thread::ScopedJoinHandle::join)
        });
        let made = made.map_err(refused)?;
        let matcher = made.map_err(|_| GrammarError("it cannot be compiled".into()))??;
        Ok(Box::new(Follower::new(matcher, json)))
    }
}

impl GrammarCompiler {
    fn trigger(&self, word: &str) -> Arc<Trigger> {
        let mut last = self.trigger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, trigger)) = &*last
            && known == word
        {
            return trigger.clone();
        }
        let trigger = Arc::new(Trigger::new(word, self.factory.tok_env().clone()));
        *last = Some((word.to_owned(), trigger.clone()));
        trigger
    }
}

fn top_level(grammar: &Grammar) -> Result<TopLevelGrammar, GrammarError> {
    Ok(match grammar {
        Grammar::JsonObject => TopLevelGrammar::from_json_schema(spaced(json!({"type": "object"}))),
        Grammar::JsonSchema(schema) => {
            check_schema(schema)?;
            TopLevelGrammar::from_json_schema(spaced(schema.clone()))
        }
        Grammar::Lark(text) | Grammar::Triggered { lark: text, .. } => {
            check_text(text)?;
            match gbnf::is_gbnf(text) {
                true => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
                false => TopLevelGrammar::from_lark(text.clone()),
            }
        }
        Grammar::Regex(text) => {
            check_text(text)?;
            TopLevelGrammar::from_regex(text)
        }
    })
}

/// Refuses a schema that is too large, or that no finite document fits.
pub fn check_schema(schema: &Value) -> Result<(), GrammarError> {
    check_length(schema.to_string().len())?;
    let mut values = 0;
    count(schema, &mut values)?;
    finite::check(schema)
}

fn count(value: &Value, values: &mut usize) -> Result<(), GrammarError> {
    *values += 1;
    if *values > MAX_VALUES {
        return Err(GrammarError(format!("it has more than {MAX_VALUES} values")));
    }
    match value {
        Value::Array(list) => list.iter().try_for_each(|value| count(value, values)),
        Value::Object(map) if map.len() > MAX_PROPERTIES => {
            Err(GrammarError(format!("an object has more than {MAX_PROPERTIES} properties")))
        }
        Value::Object(map) => map.values().try_for_each(|value| count(value, values)),
        _ => Ok(()),
    }
}

/// One space behind each comma and colon and none elsewhere: as models write JSON on one line. Were
/// blanks free, none of them would be forced, and a small model can go on with blanks for ever.
pub fn spaced(schema: Value) -> Value {
    let options =
        json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "});
    match schema {
        Value::Object(mut schema) => {
            schema.insert("x-guidance".into(), options);
            Value::Object(schema)
        }
        // `true` allows everything, and `false` nothing.
        other => json!({"allOf": [other], "x-guidance": options}),
    }
}

fn check_length(bytes: usize) -> Result<(), GrammarError> {
    if bytes > MAX_BYTES {
        return Err(GrammarError(format!("it is longer than {} KB", MAX_BYTES >> 10)));
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), GrammarError> {
    check_length(text.len())?;
    if text.matches('|').count() > MAX_CHOICES {
        return Err(GrammarError(format!("it has more than {MAX_CHOICES} choices")));
    }
    let (mut depth, mut deepest) = (0usize, 0usize);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > MAX_NESTING {
        return Err(GrammarError(format!("it is nested deeper than {MAX_NESTING} brackets")));
    }
    Ok(())
}

fn refused(error: impl std::fmt::Display) -> GrammarError {
    let message = error.to_string();
    GrammarError(message.chars().take(MAX_MESSAGE).collect())
}

#[cfg(test)]
mod tests;
