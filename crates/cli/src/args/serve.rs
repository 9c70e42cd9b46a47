//! `tandem serve`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args as ClapArgs;

use super::GenerateArgs;
use crate::config::{count, time};

#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    #[command(flatten)]
    pub listening: ListenArgs,

    /// Texts generated at the same time; each keeps its conversation in memory
    #[arg(long, value_name = "N", default_value = "4", value_parser = count, help_heading = "Server")]
    pub parallel: usize,

    /// Requests that may wait; further ones get status 503
    #[arg(long, value_name = "N", default_value = "32", help_heading = "Server")]
    pub queue: usize,

    /// How long one answer may take
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = time, help_heading = "Server")]
    pub time_limit: Duration,

    /// How long generations under way may take to finish when the server stops
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Server")]
    pub shutdown_limit: Duration,

    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// Where to listen, and who may use the API.
#[derive(Debug, ClapArgs)]
pub struct ListenArgs {
    /// The address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", help_heading = "Server")]
    pub listen: SocketAddr,

    /// A key for the API; may be given several times, or with commas between
    #[arg(
        long,
        value_name = "KEY",
        env = "TANDEM_API_KEYS",
        hide_env_values = true,
        value_delimiter = ',',
        help_heading = "Server"
    )]
    pub api_key: Vec<String>,

    /// A file with more keys, one on each line
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub api_key_file: Option<PathBuf>,

    /// Allow pages of this origin to use the API; "*" for all; may be given several times
    #[arg(long, value_name = "ORIGIN", help_heading = "Server")]
    pub cors: Vec<String>,
}
