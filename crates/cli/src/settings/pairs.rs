//! The tables `[serve.pairs.NAME]`: further pairs of models in one server.
//!
//! What such a table says is read as if it had been typed for that pair alone, so it goes before the
//! environment. What it does not say about the machine, the seats, the queue and the operator's limits is the
//! server's; the rest is as the program has it by default, because the server's own models and budget are not
//! this pair's.

use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource,
};
use server::edge::pairs::check_name;
use toml::{Table, Value};

use super::{option, written};
use crate::args::{FurtherPairArgs, MachineArgs, PairTableArgs, ServeArgs};

/// The key of all these tables in `[serve]`.
pub const PAIRS: &str = "pairs";

/// Options that a pair has from the server, unless its table says otherwise.
pub const FROM_SERVER: [&str; 7] =
    ["context", "threads", "gpu-layers", "parallel", "queue", "max-wait", "max-share"];

/// The table of one pair, as a command line that was typed.
pub struct TypedPair {
    pub command: Command,
    pub matches: ArgMatches,
}

/// The further pairs of a server, in the order of their names.
pub fn further_pairs(tables: &Value, own: &ServeArgs) -> Result<Vec<FurtherPairArgs>, String> {
    let tables = tables.as_table().ok_or("[serve.pairs] must hold a table for each pair")?;
    let pair = |(name, value): (&String, &Value)| {
        let wrong = |reason: String| format!("[serve.pairs.{name}]: {reason}");
        let table = value.as_table().ok_or_else(|| wrong("it must be a table".into()))?;
        check_name(name).map_err(wrong)?;
        let TypedPair { matches, .. } = typed(table).map_err(wrong)?;
        let options = PairTableArgs::from_arg_matches(&matches);
        let mut options = options.map_err(|error| wrong(first_line(&error)))?;
        inherit(&mut options.generate.pair.machine, own, &matches);
        // The environment's key is for the server's own cloud and goes nowhere else.
        let typed_key = matches.value_source("cloud_key") == Some(ValueSource::CommandLine);
        let cloud = &mut options.generate.pair.cloud.location;
        if !typed_key && cloud.cloud != own.generate.pair.cloud.location.cloud {
            cloud.cloud_key.clear();
        }
        Ok(FurtherPairArgs { name: name.clone(), table: table.clone(), options })
    };
    tables.iter().map(pair).collect()
}

/// Reads a table as options of a command line.
pub fn typed(table: &Table) -> Result<TypedPair, String> {
    let mut command = PairTableArgs::command();
    command.build();
    let mut words = vec![];
    for (key, value) in table {
        let unknown = || format!("a pair has no option {key:?}");
        let arg = option(&command, key).ok_or_else(unknown)?;
        if key == "mode" {
            return Err("a pair has no mode of its own: the name of a model says it".into());
        }
        words.extend(words_of(arg, key, value)?);
    }
    let matches = command.clone().try_get_matches_from(words).map_err(|e| first_line(&e))?;
    Ok(TypedPair { command, matches })
}

fn words_of(arg: &Arg, key: &str, value: &Value) -> Result<Vec<String>, String> {
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{key}")]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(vec![]),
        (ArgAction::SetTrue, _) => Err(format!("{key} must be true or false")),
        (_, value) => {
            let values = written(value);
            if values.is_empty() {
                let advice = "write what is to be in it, or leave the line out";
                return Err(format!("{key} is an empty list: {advice}"));
            }
            Ok(values.iter().map(|value| format!("--{key}={value}")).collect())
        }
    }
}

fn first_line(error: &clap::Error) -> String {
    let told = error.to_string();
    told.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn inherit(machine: &mut MachineArgs, own: &ServeArgs, matches: &ArgMatches) {
    let is_own = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let MachineArgs { context, threads, gpu_layers } = &own.generate.pair.machine;
    if !is_own("context") {
        machine.context = *context;
    }
    if !is_own("threads") {
        machine.threads = *threads;
    }
    if !is_own("gpu_layers") {
        machine.gpu_layers = *gpu_layers;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::args::{Args, Command as Parsed};

    fn pairs(typed: &[&str], text: &str) -> Result<Vec<FurtherPairArgs>, String> {
        let arguments: Vec<_> = ["tandem", "serve"].iter().chain(typed).collect();
        let matches = Args::command().try_get_matches_from(arguments).unwrap();
        let Parsed::Serve(own) = Args::from_arg_matches(&matches).unwrap().command else {
            panic!("not a server")
        };
        let table: Table = text.parse().unwrap();
        further_pairs(&table["serve"][PAIRS], &own)
    }

    #[test]
    fn a_table_is_a_pair_with_the_machine_of_the_server() {
        let text = "[serve.pairs.maths]\npair = \"qwen\"\nbudget = \"10%\"\nstrict = true\n\
                    stop = [\"a\", \"b\"]\nthreads = 1\n[serve.pairs.plain]\nparallel = 2";
        let typed = ["--context", "512", "--threads", "3", "--budget", "5%", "--stop", "c"];
        let pairs = pairs(&typed, text).unwrap();
        let names: Vec<_> = pairs.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["maths", "plain"]);
        let [maths, plain] = pairs.as_slice() else { panic!("{names:?}") };
        let generate = &maths.options.generate;
        let pair = generate.pair.edge.pair.as_ref().unwrap();
        assert_eq!((pair.name.as_str(), pair.is_typed), ("qwen", true));
        assert!(generate.strict && generate.stop == ["a", "b"]);
        assert!((generate.budget.unwrap().value() - 0.1).abs() < 1e-6);
        let machine = &generate.pair.machine;
        assert_eq!((machine.context, machine.threads), (512, Some(1)));
        // Neither the budget nor the stop strings of the server's own pair.
        let generate = &plain.options.generate;
        assert!(generate.budget.is_none() && generate.stop.is_empty());
        let machine = &generate.pair.machine;
        assert_eq!((machine.context, machine.threads), (512, Some(3)));
        assert_eq!((plain.options.parallel, maths.options.parallel), (Some(2), None));
    }

    #[test]
    fn mistakes_are_told_with_their_table() {
        for (text, said) in [
            ("[serve.pairs.a]\nfrobnicate = 1", "[serve.pairs.a]: a pair has no option"),
            ("[serve.pairs.a]\nlisten = \"[::1]:1\"", "no option \"listen\""),
            ("[serve.pairs.a]\nhelp = true", "no option \"help\""),
            ("[serve.pairs.a]\nmode = \"large\"", "the name of a model says it"),
            ("[serve.pairs.a]\nbudget = \"lots\"", "lots"),
            ("[serve.pairs.a]\nbudget = \"5%\"\nthreshold = 0.1", "[serve.pairs.a]: "),
            ("[serve.pairs.a]\nstrict = \"yes\"", "strict must be true or false"),
            ("[serve.pairs.a]\nstop = []", "stop is an empty list"),
            ("[serve.pairs.tandem]", "the server's own pair"),
            ("[serve.pairs.A]", "is no name for a pair"),
            ("[serve]\npairs = 7", "a table for each pair"),
            ("[serve.pairs]\na = 7", "[serve.pairs.a]: it must be a table"),
        ] {
            let error = pairs(&[], text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
