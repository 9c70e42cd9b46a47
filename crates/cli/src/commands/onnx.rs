//! `tandem onnx`: models as ONNX Runtime wants them.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use models::catalog;
use onnx::{Export, File, Hidden, Lora, Weights, hidden};
use tandem::{Store, preset};

use crate::{
    args::{ExportArgs, ExposeArgs, OnnxArgs, OnnxCommand, WeightsArg},
    config::adapters,
    show::say,
};

pub fn onnx(args: OnnxArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        OnnxCommand::Expose(args) if args.list => list(&args)?,
        OnnxCommand::Expose(args) => expose(&args)?,
        OnnxCommand::Export(args) => export(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn expose(args: &ExposeArgs) -> anyhow::Result<()> {
    let output = args.output.as_deref().context("--output is missing")?;
    let name = onnx::expose(&args.input, output, args.tensor.as_deref())?;
    say(&format!("{} gives out its hidden state as {name:?}", output.display()));
    Ok(())
}

fn list(args: &ExposeArgs) -> anyhow::Result<()> {
    let file = File::read(&args.input)?;
    let graph = file.graph()?;
    let mut out = std::io::stdout().lock();
    match Hidden::find(&file, &graph) {
        Ok(hidden) if hidden.output(&graph).is_some() => {
            writeln!(out, "given out already: {}", hidden.tensor)?;
        }
        Ok(hidden) if !hidden.branches.is_empty() => {
            let inside: Vec<_> = hidden.branches.iter().map(|b| &*b.hidden.tensor).collect();
            writeln!(out, "would be taken: {} in the two branches", inside.join(" and "))?;
        }
        Ok(hidden) => writeln!(out, "would be taken: {}", hidden.tensor)?,
        Err(onnx::OnnxError::Hidden { reason, .. }) => writeln!(out, "none is certain: {reason}")?,
        Err(error) => return Err(error.into()),
    }
    for candidate in hidden::list(&graph) {
        writeln!(out, "  {candidate}")?;
    }
    Ok(())
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let store = Store::open()?;
    let mut merged = adapters(&args.adapter);
    let mut model = args.model.clone();
    if let Some(preset) = &args.preset {
        merged.push(preset::edge_adapter(&store, preset, &mut model)?);
    }
    let model = store.resolve(model.as_deref(), catalog::Default::Edge)?;
    let lora = |a: engine::Adapter| Lora { path: a.path, scale: a.scale };
    let weights = match args.weights {
        WeightsArg::Int8 => Weights::Int8,
        WeightsArg::Int4 => Weights::Int4,
        WeightsArg::Fp16 => Weights::Fp16,
        WeightsArg::Fp32 => Weights::Fp32,
    };
    let adapters = merged.into_iter().map(lora).collect();
    let options = Export { model, adapters, weights, force: args.force };
    let written = onnx::export(&options, &args.output)?;
    let (path, megabytes) = (written.model.display(), written.bytes / 1_000_000);
    say(&format!("{path}: {megabytes} MB; run it with --edge-model {}", args.output.display()));
    Ok(())
}
