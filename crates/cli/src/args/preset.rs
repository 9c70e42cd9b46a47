//! `tandem preset`.

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
pub struct PresetArgs {
    #[command(subcommand)]
    pub command: PresetCommand,
}

#[derive(Debug, Subcommand)]
pub enum PresetCommand {
    /// Show the presets on this machine, and what each is for
    List(ListPresetsArgs),
    /// Check every file of a preset, and print its sha256 for the manifest
    Check(CheckPresetArgs),
}

#[derive(Debug, ClapArgs)]
pub struct ListPresetsArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct CheckPresetArgs {
    /// A name from `tandem preset list`, or a folder
    #[arg(value_name = "NAME|FOLDER")]
    pub preset: String,
}
