//! `tandem preset`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum PresetCommand {
    /// Show the presets on this machine, and what each is for
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Check every file of a preset, and print its sha256 for the manifest
    Check {
        /// A name from `tandem preset list`, or a folder
        #[arg(value_name = "NAME|FOLDER")]
        preset: String,
    },
}
