//! `tandem onnx`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ExportArgs;

#[derive(Debug, Subcommand)]
pub enum OnnxCommand {
    /// Write an ONNX model with its hidden state as an output; everything else stays as it is
    Expose(ExposeArgs),
    /// Write a GGUF model (llama and qwen2 families) as an ONNX folder
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub struct ExposeArgs {
    /// The ONNX file
    pub input: PathBuf,

    /// The file to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "list")]
    pub output: Option<PathBuf>,

    /// Show which tensors could be the hidden state, and which would be chosen
    #[arg(long, conflicts_with_all = ["output", "tensor"])]
    pub list: bool,

    /// Use this tensor
    #[arg(long, value_name = "NAME")]
    pub tensor: Option<String>,
}
