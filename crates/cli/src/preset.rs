//! What a preset adds to what the user wrote.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use decode::Threshold;
use engine::onnx::Folder;
use models::{
    Environment, Home, Preset, PresetError,
    preset::{Defaults, EdgeKind, ModelPart, RouterPart, SearchPath},
};
use onnx::precision::Precision;

use crate::{
    args::{CloudModelArgs, EdgeArgs},
    config::{AdapterArg, Store, UsageError},
    judge::{RouterArg, Share},
};

/// Where presets are looked for by name.
pub fn search_path() -> anyhow::Result<SearchPath> {
    // Links are followed: what came with the program lies beside its file.
    let program = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    Ok(SearchPath::new(&Home::find(Environment::read())?, program.as_deref()))
}

/// The folder of a preset, given by name or by path.
pub fn find(given: &str) -> anyhow::Result<PathBuf> {
    search_path()?.find(given).map_err(|error| match error {
        PresetError::Unknown { .. } => UsageError(format!("--preset: {error}")).into(),
        other => other.into(),
    })
}

/// The whole preset, every file of it checked.
fn load(given: &str) -> anyhow::Result<Preset> {
    Ok(Preset::load(&find(given)?)?)
}

/// Fills in what the user left out: models, adapters and router. An ONNX edge has its adapter merged
/// in when it is exported, and a router of its own.
pub fn apply(
    given: &str,
    edge: &mut EdgeArgs,
    cloud: Option<&mut CloudModelArgs>,
    router: Option<&mut Option<RouterArg>>,
) -> anyhow::Result<Preset> {
    let preset = load(given)?;
    let manifest = preset.manifest();
    fill_model(&preset, &manifest.edge, &mut edge.edge_model, "--edge-model")?;
    let model = edge.edge_model.as_deref().unwrap_or_default();
    let kind = edge_kind(Path::new(model))?;
    if edge.edge_adapter.is_empty() && kind == EdgeKind::Gguf {
        edge.edge_adapter.extend(adapter(&preset, &manifest.edge));
    }
    // A cloud elsewhere has its own model and adapters, and offline there is none.
    let here = cloud.filter(|cloud| cloud.place.cloud.is_none() && !cloud.place.offline);
    if let (Some(cloud), Some(side)) = (here, &manifest.cloud) {
        fill_model(&preset, side, &mut cloud.cloud_model, "--cloud-model")?;
        if cloud.cloud_adapter.is_empty() {
            cloud.cloud_adapter.extend(adapter(&preset, side));
        }
    }
    if let Some(router) = router.filter(|router| router.is_none() && !manifest.routers.is_empty()) {
        let part = fitting_router(&preset, kind)?;
        *router = Some(RouterArg::File(preset.path(&part.file)));
    }
    Ok(preset)
}

/// How strictly its router judges where the user does not say.
pub fn defaults(preset: &Preset) -> anyhow::Result<(Option<Threshold>, Option<Share>)> {
    let Defaults { budget, threshold } = preset.manifest().defaults;
    Ok((threshold.map(Threshold::new).transpose()?, budget.map(Share)))
}

/// The adapter of the small model alone, and the model it is for where none is named.
pub fn edge_adapter(given: &str, model: &mut Option<String>) -> anyhow::Result<AdapterArg> {
    let preset = load(given)?;
    let side = &preset.manifest().edge;
    fill_model(&preset, side, model, "the model")?;
    adapter(&preset, side).with_context(|| format!("the preset {given} has no edge adapter"))
}

/// The adapter of the large model alone, and the model it is for where none is named.
pub fn cloud_adapter(given: &str, model: &mut Option<String>) -> anyhow::Result<AdapterArg> {
    let preset = load(given)?;
    let missing = || format!("the preset {given} has no cloud adapter");
    let side = preset.manifest().cloud.as_ref().with_context(missing)?;
    fill_model(&preset, side, model, "--cloud-model")?;
    adapter(&preset, side).with_context(missing)
}

fn adapter(preset: &Preset, side: &ModelPart) -> Option<AdapterArg> {
    let part = side.adapter.as_ref()?;
    Some(AdapterArg::new(preset.path(&part.file), part.scale))
}

/// Takes the preset's model where the user named none. It must be the very one: its adapters and
/// routers hold for no other.
fn fill_model(
    preset: &Preset,
    side: &ModelPart,
    model: &mut Option<String>,
    option: &str,
) -> anyhow::Result<()> {
    if model.is_some() {
        return Ok(());
    }
    let (name, wanted) = (&preset.manifest().name, &side.model);
    match Store::open(None)?.catalog.find(wanted) {
        None => bail!(
            "the preset {name} is for the model {wanted}, which is not in the catalog: name its \
             file with {option}"
        ),
        Some(entry) if !entry.sha256.eq_ignore_ascii_case(&side.sha256) => bail!(
            "the preset {name} is for another {wanted} than the catalog's: name the file whose \
             sha256 is {} with {option}",
            side.sha256
        ),
        Some(_) => *model = Some(wanted.clone()),
    }
    Ok(())
}

fn fitting_router(preset: &Preset, kind: EdgeKind) -> anyhow::Result<&RouterPart> {
    let manifest = preset.manifest();
    manifest.router(kind).with_context(|| {
        let kinds: Vec<_> = manifest.routers.iter().map(|part| part.edge.to_string()).collect();
        format!(
            "the preset {} has no router for an edge of kind {kind}, only for {}: train one, or \
             choose --router top1, which needs no training",
            manifest.name,
            kinds.join(", ")
        )
    })
}

/// How the model at a path is stored; what is no ONNX model is taken for GGUF.
pub fn edge_kind(model: &Path) -> anyhow::Result<EdgeKind> {
    let Some(folder) = Folder::find(model)? else { return Ok(EdgeKind::Gguf) };
    Ok(match folder.precision()? {
        Precision::Fp32 => EdgeKind::OnnxFp32,
        Precision::Fp16 => EdgeKind::OnnxFp16,
        Precision::Bf16 => EdgeKind::OnnxBf16,
        Precision::Int8 => EdgeKind::OnnxInt8,
        Precision::Int4 => EdgeKind::OnnxInt4,
    })
}
