//! The configuration file: values of options that neither the command line nor the environment gives.
//!
//! A key is the long name of an option, also of one that every command has, such as `log-format`. At the
//! top of the file it is for every command that has such an option, in a table with the name of a
//! command for that command alone:
//!
//! ```toml
//! pair = "qwen"
//! budget = "10%"
//!
//! [serve]
//! listen = "0.0.0.0:8080"
//! api-key-file = "/etc/tandem/keys"
//! ```
//!
//! The values become the defaults of the options, so they are parsed, checked and refused as if they had
//! been typed. [`pairs`]: further pairs of a server, which have tables of their own.

pub mod pairs;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource,
};
use toml::{Table, Value};

use crate::{
    args::{self, Args},
    config::UsageError,
};

use self::pairs::{PAIRS, further_pairs};

/// A file with its values, or nothing.
#[derive(Debug, Default)]
pub struct Settings {
    pub path: Option<PathBuf>,
    table: Table,
}

/// The arguments of this process, with the file's values where there are no others.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Args, UsageError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = Args::command();
    let typed = command.clone().get_matches_from(&arguments);
    let settings = Settings::find(typed.get_one::<PathBuf>("config"))?;
    let Some(path) = &settings.path else {
        return Args::from_arg_matches(&typed).map_err(|e| e.exit());
    };
    settings.check(&command)?;
    command = settings.apply(command, &typed);
    match command.try_get_matches_from(&arguments).and_then(|m| Args::from_arg_matches(&m)) {
        Ok(mut args) => {
            if let args::Command::Serve(serve) = &mut args.command
                && let Some(tables) = settings.pairs()
            {
                let wrong = |reason| UsageError(format!("{}: {reason}", path.display()));
                serve.pairs = further_pairs(tables, serve).map_err(wrong)?;
            }
            Ok(args)
        }
        Err(error) => {
            let told = error.to_string();
            let told = told.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Err(UsageError(format!("{}: {told}", path.display())))
        }
    }
}

impl Settings {
    /// The file that was named, or the user's own if there is one.
    pub fn find(named: Option<&PathBuf>) -> Result<Self, UsageError> {
        let path = match named {
            Some(path) => path.clone(),
            None => match usual().filter(|path| path.exists()) {
                Some(path) => path,
                None => return Ok(Self::default()),
            },
        };
        Self::read(&path).map_err(|reason| UsageError(format!("{}: {reason}", path.display())))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
        let table = text.parse::<Table>().map_err(|e| e.to_string())?;
        Ok(Self { path: Some(path.to_owned()), table })
    }

    /// Refuses keys that no command has, and values that say nothing.
    pub fn check(&self, command: &Command) -> Result<(), UsageError> {
        let wrong = |key: &str| {
            let path = self.path.as_deref().unwrap_or(Path::new("")).display();
            UsageError(format!("{path}: there is no option {key:?}"))
        };
        let everywhere = |key: &str| global(command, key).is_some();
        for (key, value) in &self.table {
            match value {
                Value::Table(own) => {
                    let command =
                        command.find_subcommand(key).ok_or_else(|| wrong(&format!("[{key}]")))?;
                    let has_pairs = key == SERVE;
                    for key in own.keys() {
                        let tables = has_pairs && key == PAIRS;
                        let known = everywhere(key) || option(command, key).is_some() || tables;
                        known.then_some(()).ok_or_else(|| wrong(key))?;
                    }
                }
                _ => {
                    let some = command.get_subcommands().any(|c| option(c, key).is_some());
                    (everywhere(key) || some).then_some(()).ok_or_else(|| wrong(key))?;
                }
            }
        }
        self.check_lists()
    }

    /// An empty list would read as if nothing were said: no keys, so that everybody may come in, or
    /// every mode.
    fn check_lists(&self) -> Result<(), UsageError> {
        let own = self.table.values().filter_map(Value::as_table).flatten();
        let all = self.table.iter().filter(|(_, value)| !value.is_table());
        let Some((key, _)) = own.chain(all).find(|(_, value)| written(value).is_empty()) else {
            return Ok(());
        };
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        let advice = "write what is to be in it, or leave the line out";
        Err(UsageError(format!("{path}: {key} is an empty list: {advice}")))
    }

    /// The tables of a server's further pairs.
    pub fn pairs(&self) -> Option<&Value> {
        self.table.get(SERVE)?.get(PAIRS)
    }

    /// Whether the file has a value for an option of a command.
    pub fn has(&self, command: &str, key: &str) -> bool {
        self.values(command).any(|(known, _)| known == key)
    }

    /// The values for one command; its own go before those of all.
    fn values<'a>(&'a self, command: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let own = self.table.get(command).and_then(Value::as_table);
        let own: Vec<_> = own.into_iter().flatten().collect();
        let all = self.table.iter().filter(|(_, value)| !value.is_table());
        let all: Vec<_> = all.filter(|(key, _)| own.iter().all(|(k, _)| k != key)).collect();
        own.into_iter().chain(all)
    }

    /// The command line with the file's values as defaults, but for those that exclude what was typed.
    pub fn apply(&self, mut command: Command, typed: &ArgMatches) -> Command {
        let Some((name, typed)) = typed.subcommand() else { return command };
        let name = name.to_owned();
        for (key, value) in self.values(&name) {
            if let Some(id) = global(&command, key).map(|arg| arg.get_id().clone()) {
                command = command.mut_arg(id, |arg| arg.default_values(written(value)));
            }
        }
        command.mut_subcommand(&name, |mut command| {
            let given: Vec<_> = typed.ids().filter(|id| is_given(typed, id.as_str())).collect();
            let mut built = command.clone();
            built.build();
            for (key, value) in self.values(&name) {
                let Some(arg) = option(&built, key) else { continue };
                if key == PAIR_KEY && arg.get_env().is_none() && is_set(PAIR) {
                    continue;
                }
                // An exclusion is written at one of the two options.
                let excludes = |one: &Arg, other: &Arg| {
                    built.get_arg_conflicts_with(one).iter().any(|c| c.get_id() == other.get_id())
                };
                let mut others = built.get_arguments().filter(|a| given.contains(&a.get_id()));
                if others.any(|other| excludes(arg, other) || excludes(other, arg)) {
                    continue;
                }
                let values = written(value);
                command = command.mut_arg(arg.get_id().clone(), |arg| arg.default_values(values));
            }
            command
        })
    }
}

/// Whether a value was typed or is in the environment.
fn is_given(matches: &ArgMatches, id: &str) -> bool {
    // Groups of options have no source of their own.
    let source = matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id));
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// The command that serves several pairs.
const SERVE: &str = "serve";

/// `tandem pull` has no value from this variable, because `--list` excludes one; it reads it itself.
const PAIR: &str = "TANDEM_PAIR";
const PAIR_KEY: &str = "pair";

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Whether an option can stand in a file: help cannot, nor can the file's own name.
pub fn is_settable(arg: &Arg) -> bool {
    let takes = matches!(
        arg.get_action(),
        ArgAction::Set | ArgAction::Append | ArgAction::SetTrue | ArgAction::Count
    );
    takes && arg.get_long() != Some("config")
}

/// An option of one command by its long name.
pub fn option<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    let mut own = command.get_arguments().filter(|arg| is_settable(arg) && !arg.is_global_set());
    own.find(|arg| arg.get_long() == Some(long))
}

/// An option that every command has.
fn global<'a>(program: &'a Command, long: &str) -> Option<&'a Arg> {
    let mut all = program.get_arguments().filter(|arg| is_settable(arg) && arg.is_global_set());
    all.find(|arg| arg.get_long() == Some(long))
}

/// A value as it would be typed.
fn written(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(written).collect(),
        other => vec![other.to_string()],
    }
}

/// `~/.config/tandem/tandem.toml`
fn usual() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("tandem").join("tandem.toml"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::args::Command as Parsed;

    fn settings(text: &str) -> Settings {
        Settings { path: Some("t.toml".into()), table: text.parse().unwrap() }
    }

    fn run_args(text: &str, typed: &[&str]) -> crate::args::RunArgs {
        let arguments: Vec<_> = ["tandem", "run", "Hi"].iter().chain(typed).collect();
        let (settings, command) = (settings(text), Args::command());
        settings.check(&command).unwrap();
        let matches = command.clone().try_get_matches_from(&arguments).unwrap();
        let matches = settings.apply(command, &matches).try_get_matches_from(&arguments).unwrap();
        match Args::from_arg_matches(&matches).unwrap().command {
            Parsed::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_goes_before_the_file_and_a_commands_table_before_all() {
        let file =
            "max-tokens = 11\nstop = [\"a\", \"b\"]\n[run]\nmax-tokens = 12\n[serve]\nqueue = 1";
        let args = run_args(file, &[]);
        assert_eq!((args.generate.max_tokens, args.generate.stop.len()), (12, 2));
        let args = run_args(file, &["--max-tokens", "13", "--stop", "c"]);
        assert_eq!((args.generate.max_tokens, args.generate.stop), (13, vec!["c".to_owned()]));
    }

    fn log(text: &str, typed: &[&str]) -> (u8, crate::args::LogFormat) {
        let arguments: Vec<_> = ["tandem", "run", "Hi"].iter().chain(typed).collect();
        let (settings, command) = (settings(text), Args::command());
        settings.check(&command).unwrap();
        let matches = command.clone().try_get_matches_from(&arguments).unwrap();
        let matches = settings.apply(command, &matches).try_get_matches_from(&arguments).unwrap();
        let args = Args::from_arg_matches(&matches).unwrap();
        (args.verbose, args.log_format)
    }

    #[test]
    fn options_of_every_command_may_stand_in_the_file() {
        use crate::args::LogFormat;
        assert!(matches!(log("", &[]), (0, LogFormat::Text)));
        assert!(matches!(log("verbose = 1\nlog-format = \"json\"", &[]), (1, LogFormat::Json)));
        let own = "log-format = \"json\"\n[run]\nverbose = 2\nlog-format = \"text\"";
        assert!(matches!(log(own, &[]), (2, LogFormat::Text)));
        assert!(matches!(log("[serve]\nverbose = 2", &[]), (0, LogFormat::Text)));
        let typed = log("verbose = 2\nlog-format = \"json\"", &["-v", "--log-format", "text"]);
        assert!(matches!(typed, (1, LogFormat::Text)));
    }

    #[test]
    fn what_excludes_something_typed_is_left_out() {
        assert!(run_args("budget = \"10%\"", &[]).generate.budget.is_some());
        let args = run_args("budget = \"10%\"", &["--threshold", "0.5"]);
        assert!(args.generate.budget.is_none() && args.generate.threshold.is_some());
    }

    #[test]
    fn empty_lists_are_refused_by_name() {
        for (text, named) in [
            ("stop = []", "stop"),
            ("[serve]\napi-key = []", "api-key"),
            ("[serve]\nmodes = [[]]", "modes"),
        ] {
            let error = settings(text).check(&Args::command()).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("empty list"), "{error}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        for (text, named) in [
            ("frobnicate = 1", "frobnicate"),
            ("[run]\nqueue = 1", "queue"),
            ("[jog]\nx = 1", "[jog]"),
            ("help = true", "help"),
            ("config = \"other.toml\"", "config"),
            ("[serve]\nconfig = \"other.toml\"", "config"),
        ] {
            let error = settings(text).check(&Args::command()).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    /// The words of a unit's command, as systemd would start it.
    fn started_by(unit: &str) -> Vec<String> {
        let unit = unit.replace("\\\n", " ");
        let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let command = command.replace("${CREDENTIALS_DIRECTORY}", "/run/credentials/tandem");
        command.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn units_start_the_program_with_options_that_it_has() {
        for (unit, name, credential) in [
            (include_str!("../../../ops/tandem-serve.service"), "serve", "keys"),
            (include_str!("../../../ops/tandem-cloud.service"), "cloud", "cloud-key"),
        ] {
            let words = started_by(unit);
            let matches = Args::command().try_get_matches_from(&words);
            let matches = matches.unwrap_or_else(|error| panic!("{words:?}: {error}"));
            assert_eq!(matches.subcommand_name(), Some(name));
            // What systemd hands over is what the program reads.
            assert!(unit.contains(&format!("LoadCredential={credential}:/etc/tandem/")), "{unit}");
            let path = format!("/run/credentials/tandem/{credential}");
            assert_eq!(words.last(), Some(&path));
        }
    }
}
