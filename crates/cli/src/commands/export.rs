//! `tandem onnx export`: a GGUF model as an ONNX folder.

use lab::export::{Export, Lora, Weights};
use models::Role;
use tandem::{Store, preset};

use crate::{
    args::{ExportArgs, WeightsArg},
    show::say,
};

pub fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let store = Store::open()?;
    let mut merged = args.adapter.clone();
    let mut model = args.model.clone();
    if let Some(preset) = &args.preset {
        merged.push(preset::edge_adapter(&store, preset, &mut model)?);
    }
    let model = store.resolve(model.as_deref(), Role::Edge)?;
    let lora = |a: engine::Adapter| Lora { path: a.path, scale: a.scale };
    let weights = match args.weights {
        WeightsArg::Int8 => Weights::Int8,
        WeightsArg::Int4 => Weights::Int4,
        WeightsArg::Fp16 => Weights::Fp16,
        WeightsArg::Fp32 => Weights::Fp32,
    };
    let adapters = merged.into_iter().map(lora).collect();
    let options = Export { model, adapters, weights, force: args.force };
    let written = lab::export::export(&options, &args.output)?;
    let (path, megabytes) = (written.model.display(), written.bytes / 1_000_000);
    say(&format!("{path}: {megabytes} MB; run it with --edge-model {}", args.output.display()));
    Ok(())
}
