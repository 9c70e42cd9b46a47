//! `tandem preset`: which presets are here, and whether one is whole.

use std::{io::Write, process::ExitCode};

use anyhow::bail;
use models::{
    Preset,
    preset::{EdgeKind, MANIFEST, Manifest, RouterPart},
};
use router::RouterFile;
use serde_json::json;

use tandem::Store;

use crate::{args::PresetCommand, show::print_json};

pub fn preset(command: &PresetCommand) -> anyhow::Result<ExitCode> {
    match command {
        PresetCommand::List { json } => list(*json),
        PresetCommand::Check { preset } => check(preset),
    }
}

fn list(as_json: bool) -> anyhow::Result<ExitCode> {
    let places = Store::open()?.presets();
    let found = places.list()?;
    let mut out = std::io::stdout().lock();
    if as_json {
        let presets: Vec<_> = found
            .iter()
            .map(|found| {
                let preset = Preset::open(&found.folder);
                let error = preset.as_ref().err().map(ToString::to_string);
                let manifest = preset.ok().map(|preset| preset.manifest().clone());
                json!({
                    "name": found.name,
                    "folder": found.folder,
                    "shadowed": found.shadowed,
                    "description": manifest.as_ref().map(|m| &m.description),
                    "license": manifest.as_ref().map(|m| &m.license),
                    "edge": manifest.as_ref().map(|m| &m.edge.model),
                    "cloud": manifest.as_ref().and_then(|m| m.cloud.as_ref()).map(|c| &c.model),
                    "error": error,
                })
            })
            .collect();
        print_json(&json!({ "presets": presets }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        writeln!(out, "no presets in {places}")?;
    }
    for found in found {
        let text = match Preset::open(&found.folder) {
            Ok(preset) => preset.manifest().description.clone(),
            Err(error) => format!("cannot be used: {error}"),
        };
        let shadowed = if found.shadowed { "  (another of this name comes first)" } else { "" };
        writeln!(out, "{:16} {text}\n{:16} {}{shadowed}", found.name, "", found.folder.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks at every file, so that a maker has all hashes at once.
fn check(given: &str) -> anyhow::Result<ExitCode> {
    let preset = Preset::open(&tandem::preset::find(&Store::open()?, given)?)?;
    let manifest = preset.manifest();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {}", preset.path(MANIFEST).display(), manifest.description)?;
    let mut whole = true;
    for (file, wanted) in manifest.files() {
        let mut flaws = vec![];
        flaws.extend(preset.check(file, wanted).err().map(anyhow::Error::from));
        if let Some(part) = manifest.routers.iter().find(|part| part.file == file) {
            flaws.extend(fits(&preset, part).err());
        }
        match flaws.is_empty() {
            true => writeln!(out, "ok    {file}  sha256 = \"{wanted}\"")?,
            false => whole = false,
        }
        for flaw in flaws {
            writeln!(out, "FAIL  {flaw:#}")?;
        }
    }
    writeln!(out, "{}", if whole { "the preset is whole" } else { "the preset cannot be used" })?;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a router was trained for the edge the manifest names.
fn fits(preset: &Preset, part: &RouterPart) -> anyhow::Result<()> {
    let path = preset.path(&part.file);
    let file = RouterFile::read(&path)?;
    let (trained, expected) = (&file.metadata().model, fingerprint(preset.manifest(), part.edge));
    // Of an exported model the manifest knows no more than how its weights are stored.
    let fits = match part.edge {
        EdgeKind::Gguf => *trained == expected,
        _ => trained.starts_with(&expected),
    };
    if !fits {
        bail!(
            "{} was trained for {} (fingerprint {trained}), and the manifest's edge is {expected}",
            path.display(),
            file.metadata().model_name
        );
    }
    Ok(())
}

/// What the engine will call the manifest's edge, as far as the manifest tells.
fn fingerprint(manifest: &Manifest, kind: EdgeKind) -> String {
    let digest = |sha256: &str| sha256.to_ascii_lowercase().chars().take(16).collect::<String>();
    match (kind, &manifest.edge.adapter) {
        (EdgeKind::Gguf, None) => digest(&manifest.edge.sha256),
        (EdgeKind::Gguf, Some(adapter)) => format!(
            "{}+{}*{}",
            digest(&manifest.edge.sha256),
            digest(&adapter.sha256),
            adapter.scale
        ),
        (kind, _) => format!("{kind}:"),
    }
}
