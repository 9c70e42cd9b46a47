//! `tandem onnx export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::Adapter;

use crate::config::adapter;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The GGUF file, or a name `tandem pull --list` shows; without it, the default small model
    pub model: Option<String>,

    /// The folder to write
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// How weights are written
    #[arg(long, value_enum, default_value_t = WeightsArg::Int8)]
    pub weights: WeightsArg,

    /// A LoRA adapter to merge into the model, with a scale if not 1
    #[arg(long, value_name = "FILE[:SCALE]", value_parser = adapter)]
    pub adapter: Vec<Adapter>,

    /// Merge the small model's adapter of a preset
    #[arg(long, value_name = "NAME|FOLDER", conflicts_with = "adapter")]
    pub preset: Option<String>,

    /// Write 4 bits even from weights that were rounded before
    #[arg(long)]
    pub force: bool,
}

/// How weights are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WeightsArg {
    /// Bytes, with a scale for every 32
    Int8,
    /// Half bytes; from full-precision weights only
    Int4,
    /// 16-bit floats
    Fp16,
    /// 32-bit floats
    Fp32,
}
