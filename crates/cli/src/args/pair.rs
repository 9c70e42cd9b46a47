//! The name of a pair, and who gave it.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error,
    builder::{StringValueParser, TypedValueParser},
    parser::ValueSource,
};

/// The name of a pair. One that was typed is meant, also beside a preset; one of the environment or of the
/// configuration file gives way to a preset for another pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairName {
    pub name: String,
    pub is_typed: bool,
}

impl PairName {
    pub fn typed(name: &str) -> Self {
        Self { name: name.to_owned(), is_typed: true }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PairNameParser;

impl TypedValueParser for PairNameParser {
    type Value = PairName;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PairName, Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<PairName, Error> {
        let name = StringValueParser::new().parse_ref(command, arg, value)?;
        Ok(PairName { name, is_typed: source == ValueSource::CommandLine })
    }
}
