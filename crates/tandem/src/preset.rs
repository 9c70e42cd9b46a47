//! Fills in the options that a preset provides and the user left open.

use std::path::{Path, PathBuf};

use decode::Threshold;
use engine::{Adapter, onnx::Folder};
use models::{
    Preset, PresetError,
    preset::{Defaults, EdgeKind, ModelPart, RouterPart},
};
use onnx::precision::Precision;

use crate::{CloudConfig, EdgeConfig, Error, LocalCloud, RouterSpec, Share, Store};

/// The folder of a preset, given by name or by path. A name is first that of a preset for the pair.
pub fn find(store: &Store, given: &str) -> Result<PathBuf, Error> {
    store.presets().find_for(given, &store.pair.name).map_err(|error| match error {
        PresetError::Unknown { .. } => Error::Usage(format!("--preset: {error}")),
        other => other.into(),
    })
}

/// Reads a preset and checks all its files.
pub fn load(store: &Store, given: &str) -> Result<Preset, Error> {
    Ok(Preset::load(&find(store, given)?)?)
}

/// Fills in what was left out: models, adapters and router. An ONNX edge has its adapter merged in
/// when it is exported, and a router of its own.
pub fn apply(
    store: &Store,
    preset: &Preset,
    edge: &mut EdgeConfig,
    cloud: Option<&mut CloudConfig>,
    router: &mut Option<RouterSpec>,
) -> Result<(), Error> {
    let manifest = preset.manifest();
    fill_model(store, preset, &manifest.edge, &mut edge.model, "--edge-model")?;
    let kind = edge_kind(Path::new(edge.model.as_deref().unwrap_or_default()))?;
    if edge.adapters.is_empty() && kind == EdgeKind::Gguf {
        edge.adapters.extend(adapter(preset, &manifest.edge));
    }
    // A cloud elsewhere has its own model and adapters, and offline there is none.
    if let (Some(CloudConfig::Local(cloud)), Some(side)) = (cloud, &manifest.cloud) {
        fill_model(store, preset, side, &mut cloud.model, "--cloud-model")?;
        if cloud.adapters.is_empty() {
            cloud.adapters.extend(adapter(preset, side));
        }
    }
    if router.is_none() && !manifest.routers.is_empty() {
        let part = fitting_router(preset, kind)?;
        *router = Some(RouterSpec::File(preset.path(&part.file)));
    }
    Ok(())
}

/// The preset's default threshold or budget.
pub fn defaults(preset: &Preset) -> Result<(Option<Threshold>, Option<Share>), Error> {
    let Defaults { budget, threshold } = preset.manifest().defaults;
    Ok((threshold.map(Threshold::new).transpose()?, budget.and_then(Share::new)))
}

/// The adapter of the small model; fills in the model it is for if none is given.
pub fn edge_adapter(
    store: &Store,
    given: &str,
    model: &mut Option<String>,
) -> Result<Adapter, Error> {
    let preset = load(store, given)?;
    let side = &preset.manifest().edge;
    fill_model(store, &preset, side, model, "the model")?;
    let missing = || Error::Mismatch(format!("the preset {given} has no edge adapter"));
    adapter(&preset, side).ok_or_else(missing)
}

/// The adapter with which the small model of the pair works where nobody names another model or
/// adapter: its preset's, if that is here. Like a router, a damaged one is refused.
pub fn pair_adapter(store: &Store) -> Result<Option<Adapter>, Error> {
    let name = store.pair.router.as_deref();
    let Some(folder) = name.and_then(|name| store.presets().named(name)) else { return Ok(None) };
    let preset = Preset::open(&folder)?;
    let side = &preset.manifest().edge;
    // Adapters work with no other weights, whatever a catalog calls them.
    let entry = store.catalog.find(&store.pair.edge).filter(|entry| entry.name == side.model);
    let fits = entry.is_some_and(|entry| entry.sha256.eq_ignore_ascii_case(&side.sha256));
    let Some(part) = side.adapter.as_ref().filter(|_| fits) else { return Ok(None) };
    preset.check(&part.file, &part.sha256)?;
    Ok(adapter(&preset, side))
}

/// Fills in the large model of a preset and its adapter.
pub fn cloud_model(store: &Store, given: &str, cloud: &mut LocalCloud) -> Result<(), Error> {
    let preset = load(store, given)?;
    let missing = || Error::Mismatch(format!("the preset {given} has no cloud adapter"));
    let side = preset.manifest().cloud.as_ref().ok_or_else(missing)?;
    fill_model(store, &preset, side, &mut cloud.model, "--cloud-model")?;
    cloud.adapters.push(adapter(&preset, side).ok_or_else(missing)?);
    Ok(())
}

fn adapter(preset: &Preset, side: &ModelPart) -> Option<Adapter> {
    let part = side.adapter.as_ref()?;
    Some(Adapter { path: preset.path(&part.file), scale: part.scale })
}

/// Uses the preset's model if the user named none. Its hash must match, because adapters and routers
/// work with no other model.
fn fill_model(
    store: &Store,
    preset: &Preset,
    side: &ModelPart,
    model: &mut Option<String>,
    option: &str,
) -> Result<(), Error> {
    if model.is_some() {
        return Ok(());
    }
    let (name, wanted) = (&preset.manifest().name, &side.model);
    let catalogued = store.catalog.find(wanted);
    let same = |entry: &&models::Entry| entry.sha256.eq_ignore_ascii_case(&side.sha256);
    // The router's fingerprint still says whether it is the right one.
    if let (None, Some(path)) = (catalogued.filter(same), side.path.as_ref().filter(|p| p.exists()))
    {
        *model = Some(path.display().to_string());
        return Ok(());
    }
    match catalogued {
        None => Err(Error::Mismatch(format!(
            "the preset {name} is for the model {wanted}, which is not in the catalog: name its \
             file with {option}"
        ))),
        Some(entry) if !entry.sha256.eq_ignore_ascii_case(&side.sha256) => {
            Err(Error::Mismatch(format!(
                "the preset {name} is for another {wanted} than the catalog's: name the file whose \
                 sha256 is {} with {option}",
                side.sha256
            )))
        }
        Some(_) => {
            *model = Some(wanted.clone());
            Ok(())
        }
    }
}

fn fitting_router(preset: &Preset, kind: EdgeKind) -> Result<&RouterPart, Error> {
    let manifest = preset.manifest();
    manifest.router(kind).ok_or_else(|| {
        let kinds: Vec<_> = manifest.routers.iter().map(|part| part.edge.to_string()).collect();
        Error::Mismatch(format!(
            "the preset {} has no router for an edge of kind {kind}, only for {}: train one, or \
             choose --router top1, which needs no training",
            manifest.name,
            kinds.join(", ")
        ))
    })
}

/// The format of the model at a path; anything that is not an ONNX model counts as GGUF.
pub fn edge_kind(model: &Path) -> Result<EdgeKind, Error> {
    let Some(folder) = Folder::find(model)? else { return Ok(EdgeKind::Gguf) };
    Ok(match folder.precision()? {
        Precision::Fp32 => EdgeKind::OnnxFp32,
        Precision::Fp16 => EdgeKind::OnnxFp16,
        Precision::Bf16 => EdgeKind::OnnxBf16,
        Precision::Int8 => EdgeKind::OnnxInt8,
        Precision::Int4 => EdgeKind::OnnxInt4,
    })
}
