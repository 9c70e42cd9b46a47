//! Models and libraries on this machine: `pull` and `rm`.

use std::{path::PathBuf, str::FromStr};

use clap::Args as ClapArgs;
use models::hub::Name;

#[derive(Clone, Debug)]
pub enum Pullable {
    /// The models of the pair.
    Models,
    Onnxruntime,
    Hub(Name),
}

impl FromStr for Pullable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "models" => Ok(Self::Models),
            "onnxruntime" => Ok(Self::Onnxruntime),
            _ if Name::is_hub_name(text) => {
                text.parse().map(Self::Hub).map_err(|e: models::HubError| e.to_string())
            }
            _ => Err("write models, onnxruntime, or hf:OWNER/REPO with a file, a folder or a \
                quantisation after a colon"
                .into()),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub struct PullArgs {
    /// What to download: models (those of the pair), onnxruntime (runs ONNX models), or a GGUF or
    /// ONNX model of the Hugging Face hub: hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M or
    /// hf:OWNER/REPO:FILE; without it, models
    #[arg(value_name = "WHAT", conflicts_with = "list")]
    pub what: Option<Pullable>,

    /// The pair whose models to download, or `all`; without it TANDEM_PAIR, else the default
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    pub pair: Option<String>,

    /// List the models on this machine instead, and the pairs
    #[arg(long)]
    pub list: bool,

    /// With --list: as JSON
    #[arg(long, requires = "list")]
    pub json: bool,

    /// Use this catalog instead of the built-in one: a TOML file of models, packages and hashes
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct RmArgs {
    /// A model from `tandem pull --list`, or onnxruntime
    pub name: String,

    /// Use this catalog instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
}
