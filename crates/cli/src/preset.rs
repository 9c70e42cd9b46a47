//! Adapters and routers that come with the program.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::ValueEnum;
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

/// One file of a preset.
struct Part {
    name: &'static str,
    bytes: &'static [u8],
}

impl Preset {
    fn parts(self) -> [Part; 3] {
        macro_rules! part {
            ($folder:literal, $name:literal) => {
                Part {
                    name: $name,
                    bytes: include_bytes!(concat!("../../../presets/", $folder, "/", $name)),
                }
            };
        }
        match self {
            Self::Commonsenseqa => [
                part!("commonsenseqa", "edge.gguf"),
                part!("commonsenseqa", "cloud.gguf"),
                part!("commonsenseqa", "router.safetensors"),
            ],
        }
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commonsenseqa => "commonsenseqa",
        }
    }

    /// Fills in what the user left out: adapters and router.
    pub fn apply(
        self,
        edge: Option<&mut EdgeArgs>,
        cloud: Option<&mut CloudModelArgs>,
        router: Option<&mut Option<RouterArg>>,
    ) -> anyhow::Result<()> {
        let [edge_file, cloud_file, router_file] = self.unpack()?;
        if let Some(edge) = edge.filter(|args| args.edge_adapter.is_empty()) {
            edge.edge_adapter.push(AdapterArg::whole(edge_file));
        }
        // A cloud elsewhere has its own adapters.
        if let Some(cloud) = cloud.filter(|c| c.cloud_adapter.is_empty() && c.place.cloud.is_none())
        {
            cloud.cloud_adapter.push(AdapterArg::whole(cloud_file));
        }
        if let Some(router) = router {
            router.get_or_insert(RouterArg::File(router_file));
        }
        Ok(())
    }

    /// The adapter of the large model alone.
    pub fn cloud_adapter(self) -> anyhow::Result<AdapterArg> {
        let [_, cloud, _] = self.unpack()?;
        Ok(AdapterArg::whole(cloud))
    }

    /// Writes the files where the engine can load them, unless they are there.
    fn unpack(self) -> anyhow::Result<[PathBuf; 3]> {
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
        let [edge, cloud, router] = self.parts();
        let unpacked = [write(&edge), write(&cloud), write(&router)];
        let failed = || format!("the preset cannot be unpacked into {}", folder.display());
        let [edge, cloud, router] = unpacked;
        Ok([edge.with_context(failed)?, cloud.with_context(failed)?, router.with_context(failed)?])
    }
}

/// The router that is used where nothing else is said and the edge is the one it was made for.
pub fn general_router() -> anyhow::Result<RouterFile> {
    RouterFile::from_bytes(GENERAL).context("the built-in router")
}
