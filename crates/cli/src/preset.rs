//! Adapters and routers that come with the program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::ValueEnum;
use engine::onnx::Folder;
use models::{Environment, Home};
use router::RouterFile;

use crate::{
    args::{CloudModelArgs, EdgeArgs},
    config::AdapterArg,
    judge::RouterArg,
};

/// The router that is used where nothing else is said.
const GENERAL: &[u8] = include_bytes!("../../../presets/general/router.safetensors");

/// What belongs together for one kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Multiple-choice questions of common sense, answered with reasons
    Commonsenseqa,
}

/// A preset's files, in memory or on disk.
struct Files<T> {
    /// The small model's adapter.
    edge: T,
    /// The large model's.
    cloud: T,
    /// The router for the small model with its adapter.
    router: T,
    /// The router for the two merged and exported as ONNX with int8 weights.
    router_onnx: T,
}

/// One file of a preset.
struct Part {
    name: &'static str,
    bytes: &'static [u8],
}

impl Preset {
    fn parts(self) -> Files<Part> {
        macro_rules! part {
            ($folder:literal, $name:literal) => {
                Part {
                    name: $name,
                    bytes: include_bytes!(concat!("../../../presets/", $folder, "/", $name)),
                }
            };
        }
        match self {
            Self::Commonsenseqa => Files {
                edge: part!("commonsenseqa", "edge.gguf"),
                cloud: part!("commonsenseqa", "cloud.gguf"),
                router: part!("commonsenseqa", "router.safetensors"),
                router_onnx: part!("commonsenseqa", "router-onnx-int8.safetensors"),
            },
        }
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commonsenseqa => "commonsenseqa",
        }
    }

    /// Fills in what the user left out: adapters and router. An ONNX edge has its adapter merged in
    /// when it is exported, and a router of its own.
    pub fn apply(
        self,
        edge: Option<&mut EdgeArgs>,
        cloud: Option<&mut CloudModelArgs>,
        router: Option<&mut Option<RouterArg>>,
    ) -> anyhow::Result<()> {
        let files = self.unpack()?;
        let onnx = edge.as_ref().is_some_and(|args| is_onnx(args));
        if let Some(edge) = edge.filter(|args| args.edge_adapter.is_empty() && !onnx) {
            edge.edge_adapter.push(AdapterArg::whole(files.edge));
        }
        // A cloud elsewhere has its own adapters.
        if let Some(cloud) = cloud.filter(|c| c.cloud_adapter.is_empty() && c.place.cloud.is_none())
        {
            cloud.cloud_adapter.push(AdapterArg::whole(files.cloud));
        }
        if let Some(router) = router {
            let fitting = if onnx { files.router_onnx } else { files.router };
            router.get_or_insert(RouterArg::File(fitting));
        }
        Ok(())
    }

    /// The adapter of the large model alone.
    pub fn cloud_adapter(self) -> anyhow::Result<AdapterArg> {
        Ok(AdapterArg::whole(self.unpack()?.cloud))
    }

    /// The adapter of the small model alone.
    pub fn edge_adapter(self) -> anyhow::Result<AdapterArg> {
        Ok(AdapterArg::whole(self.unpack()?.edge))
    }

    /// Writes the files where the engine can load them, unless they are there.
    fn unpack(self) -> anyhow::Result<Files<PathBuf>> {
        let folder = Home::find(Environment::read())?.file("presets").join(self.name());
        let write = |part: &Part| -> anyhow::Result<PathBuf> {
            let path = folder.join(part.name);
            if fs::read(&path).is_ok_and(|there| there == part.bytes) {
                return Ok(path);
            }
            fs::create_dir_all(&folder)?;
            let partial = folder.join(format!("{}.{}", part.name, std::process::id()));
            fs::write(&partial, part.bytes)?;
            fs::rename(&partial, &path)?;
            Ok(path)
        };
        let unpacked = |part: Part| {
            let failed = || format!("the preset cannot be unpacked into {}", folder.display());
            write(&part).with_context(failed)
        };
        let parts = self.parts();
        Ok(Files {
            edge: unpacked(parts.edge)?,
            cloud: unpacked(parts.cloud)?,
            router: unpacked(parts.router)?,
            router_onnx: unpacked(parts.router_onnx)?,
        })
    }
}

/// Whether the user's edge is an ONNX model; what is wrong with one is said when it is loaded.
fn is_onnx(args: &EdgeArgs) -> bool {
    let found = args.edge_model.as_ref().map(|model| Folder::find(Path::new(model)));
    found.is_some_and(|found| found.is_ok_and(|folder| folder.is_some()))
}

/// The router that is used where nothing else is said and the edge is the one it was made for.
pub fn general_router() -> anyhow::Result<RouterFile> {
    RouterFile::from_bytes(GENERAL).context("the built-in router")
}
