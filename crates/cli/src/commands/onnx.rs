//! `tandem onnx`: models as ONNX Runtime wants them.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use onnx::{File, Hidden, hidden};

use crate::{
    args::{ExposeArgs, OnnxCommand},
    show::say,
};

pub fn onnx(command: OnnxCommand) -> anyhow::Result<ExitCode> {
    match command {
        OnnxCommand::Expose(args) if args.list => list(&args)?,
        OnnxCommand::Expose(args) => expose(&args)?,
        #[cfg(feature = "lab")]
        OnnxCommand::Export(args) => super::export::export(&args)?,
        #[cfg(not(feature = "lab"))]
        OnnxCommand::Export(args) => return args.refuse("onnx export"),
    }
    Ok(ExitCode::SUCCESS)
}

fn expose(args: &ExposeArgs) -> anyhow::Result<()> {
    let output = args.output.as_deref().context("--output is missing")?;
    let name = onnx::expose(&args.input, output, args.tensor.as_deref())?;
    say(&format!("{} has its hidden state as the output {name:?}", output.display()));
    Ok(())
}

fn list(args: &ExposeArgs) -> anyhow::Result<()> {
    let file = File::read(&args.input)?;
    let graph = file.graph()?;
    let mut out = std::io::stdout().lock();
    match Hidden::find(&file, &graph) {
        Ok(hidden) if hidden.output(&graph).is_some() => {
            writeln!(out, "already an output: {}", hidden.tensor)?;
        }
        Ok(hidden) if !hidden.branches.is_empty() => {
            let inside: Vec<_> = hidden.branches.iter().map(|b| &*b.hidden.tensor).collect();
            writeln!(out, "would be chosen: {} in the two branches", inside.join(" and "))?;
        }
        Ok(hidden) => writeln!(out, "would be chosen: {}", hidden.tensor)?,
        Err(onnx::OnnxError::Hidden { reason, .. }) => writeln!(out, "none is certain: {reason}")?,
        Err(error) => return Err(error.into()),
    }
    for candidate in hidden::list(&file, &graph) {
        writeln!(out, "  {candidate}")?;
    }
    Ok(())
}
