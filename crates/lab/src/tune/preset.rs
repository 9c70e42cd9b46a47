//! The folder that comes out: router, adapters, manifest, and a page about it.

use std::{fs, path::Path};

use engine::{Adapter, LoadOptions, onnx::Folder};
use models::{
    digest,
    preset::{AdapterPart, MANIFEST, Manifest, ModelPart, RouterPart},
};
use router::RouterFile;
use tandem::preset::edge_kind;

use super::{Tuned, Tuning, write as write_file};
use crate::{
    Error,
    eval::{Record, Table},
    report::{Report, RouterSection},
};

const ROUTER: &str = "router.safetensors";
const PAGE: &str = "report.html";

/// Nobody but its maker can say under which licence a preset is.
const LICENSE: &str = "unspecified";

pub(super) fn write(
    tuning: &Tuning,
    router: &Path,
    rounds: usize,
    judged: Option<Record>,
) -> Result<Tuned, Error> {
    let folder = &tuning.config.output;
    let pair = tuning.tandem.pair();
    let (edge, cloud) = (pair.edge_options()?, pair.local_cloud()?);
    let file = RouterFile::read(router)?;
    file.write(&folder.join(ROUTER))?;

    let description = format!(
        "Tuned on {} prompts for {} with {}",
        tuning.config.prompts.examples.len(),
        edge.name(),
        pair.cloud_name()?
    );
    let part = model_part(tuning, &edge, "edge.gguf")?;
    let mut manifest = Manifest::new(&tuning.name(), description, LICENSE.into(), part);
    manifest.cloud = match &cloud {
        Some(cloud) => Some(model_part(tuning, cloud, "cloud.gguf")?),
        None => None,
    };
    let sha256 = hash(&folder.join(ROUTER))?;
    manifest.routers.push(RouterPart { edge: edge_kind(&edge.path)?, file: ROUTER.into(), sha256 });
    manifest.defaults.budget = Some(tuning.config.budget.value());

    let curves = tuning.folder(rounds).join("router.svg");
    let curves = fs::read_to_string(&curves)
        .map_err(|source| Error::Write { path: curves.clone(), source })?;
    let section = RouterSection::new(file.metadata(), rounds, curves);
    let records: Vec<Record> = judged.into_iter().collect();
    let page = folder.join(PAGE);
    let report = Report::of(&records)?.with_router(tuning.name(), section);
    write_file(&page, report.html()?.as_bytes())?;

    // The manifest comes last: where it is, the folder is a preset.
    let path = folder.join(MANIFEST);
    let toml = manifest.to_toml();
    let toml = toml.map_err(|reason| Error::internal(format!("{} {reason}", path.display())))?;
    write_file(&path, toml.as_bytes())?;
    let table = records.first().map(Table::of);
    Ok(Tuned { folder: folder.clone(), router: file, table, page })
}

/// A model by its name in the catalog, or by where it is; its adapter is copied into the folder.
fn model_part(tuning: &Tuning, model: &LoadOptions, copy: &str) -> Result<ModelPart, Error> {
    let file = match Folder::find(&model.path)? {
        Some(folder) => folder.model().to_owned(),
        None => model.path.clone(),
    };
    let sha256 = hash(&file)?;
    let catalog = &tuning.tandem.pair().store().catalog;
    let named = catalog.models.iter().find(|entry| entry.sha256.eq_ignore_ascii_case(&sha256));
    let (name, path) = match named {
        Some(entry) => (entry.name.clone(), None),
        None => {
            let whole = std::path::absolute(&model.path);
            let stem = model.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (stem, Some(whole.unwrap_or_else(|_| model.path.clone())))
        }
    };
    let adapter = match model.adapters.as_slice() {
        [] => None,
        [adapter] => Some(adapter_part(tuning, adapter, copy)?),
        _ => {
            return Err(Error::usage(
                "a preset holds one adapter for each model: merge them first",
            ));
        }
    };
    Ok(ModelPart { model: name, sha256, path, adapter })
}

fn adapter_part(tuning: &Tuning, adapter: &Adapter, copy: &str) -> Result<AdapterPart, Error> {
    let path = tuning.config.output.join(copy);
    let failed = |source| Error::Write { path: path.clone(), source };
    let bytes = fs::read(&adapter.path).map_err(failed)?;
    write_file(&path, &bytes)?;
    Ok(AdapterPart { file: copy.into(), sha256: hash(&path)?, scale: adapter.scale })
}

fn hash(path: &Path) -> Result<String, Error> {
    digest::of_file(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}
