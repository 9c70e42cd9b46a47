//! `tandem config show`: every option of a command, its value, and where that came from.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, CommandFactory, parser::ValueSource};
use toml::{Table, Value};

use crate::{
    args::{Args, ConfigCommand},
    config::UsageError,
    settings::{
        Settings, is_settable,
        pairs::{FROM_SERVER, TypedPair, typed},
    },
};

pub fn config(command: &ConfigCommand, file: Option<&PathBuf>) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Show { command } = command;
    let settings = Settings::find(file)?;
    let all = Args::command();
    settings.check(&all)?;
    let unknown = || UsageError(format!("there is no command {command:?}"));
    let positionals = all.find_subcommand(command).ok_or_else(unknown)?.get_positionals().count();
    // What has to be typed stands in for itself.
    let typed =
        ["tandem", command.as_str()].into_iter().chain(std::iter::repeat_n("-", positionals));
    let typed: Vec<&str> = typed.collect();
    let wrong =
        |e: clap::Error| UsageError(e.to_string().lines().next().unwrap_or_default().into());
    let matches = all.clone().try_get_matches_from(&typed).map_err(wrong)?;
    let applied = settings.apply(all, &matches);
    let mut built = applied.clone();
    let matches = applied.try_get_matches_from(&typed).map_err(wrong)?;
    built.build();
    let (Some(own), Some((_, values))) = (built.find_subcommand(command), matches.subcommand())
    else {
        return Err(unknown().into());
    };
    let mut out = io::stdout().lock();
    match &settings.path {
        Some(path) => writeln!(out, "# {}", path.display())?,
        None => writeln!(out, "# no configuration file")?,
    }
    for arg in own.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        if !is_settable(arg) {
            continue;
        }
        let source = match values.value_source(arg.get_id().as_str()) {
            Some(ValueSource::EnvVariable) => environment(arg),
            Some(_) if settings.has(command, long) => "file".into(),
            Some(_) => "default".into(),
            None => "not set".into(),
        };
        writeln!(out, "{long} = {}  # {source}", value(arg, values))?;
    }
    if let Some(tables) = settings.pairs().and_then(Value::as_table).filter(|_| command == "serve")
    {
        for (name, table) in tables {
            show_pair(&mut out, name, table.as_table())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A further pair of a server.
fn show_pair(out: &mut impl Write, name: &str, table: Option<&Table>) -> anyhow::Result<()> {
    let wrong = |reason: String| UsageError(format!("[serve.pairs.{name}]: {reason}"));
    let table = table.ok_or_else(|| wrong("it must be a table".into()))?;
    let TypedPair { command, matches } = typed(table).map_err(wrong)?;
    writeln!(out, "\n[serve.pairs.{name}]")?;
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long().filter(|long| is_settable(arg) && *long != "mode") else {
            continue;
        };
        let source = match matches.value_source(arg.get_id().as_str()) {
            Some(ValueSource::CommandLine) => "file".into(),
            Some(ValueSource::EnvVariable) => environment(arg),
            // What the server has is shown above.
            _ if FROM_SERVER.contains(&long) => continue,
            Some(_) => "default".into(),
            None => "not set".into(),
        };
        writeln!(out, "{long} = {}  # {source}", value(arg, &matches))?;
    }
    Ok(())
}

fn environment(arg: &Arg) -> String {
    let name = arg.get_env().map(|name| name.to_string_lossy()).unwrap_or_default();
    format!("environment {name}")
}

/// A value as it would stand in a file; keys stay secret.
fn value(arg: &Arg, values: &ArgMatches) -> String {
    let given = values.get_raw(arg.get_id().as_str());
    let given: Vec<String> =
        given.into_iter().flatten().map(|value| format!("{:?}", value.to_string_lossy())).collect();
    match given.as_slice() {
        [] => "\"\"".into(),
        _ if arg.is_hide_env_values_set() => "\"***\"".into(),
        [one] if !matches!(arg.get_action(), ArgAction::Append) => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
