//! `tandem serve`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args as ClapArgs;

use super::GenerateArgs;
use crate::config::{count, time};

#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    #[command(flatten)]
    pub listening: ListenArgs,

    /// Texts made at once; each keeps its conversation in memory
    #[arg(long, value_name = "N", default_value = "4", value_parser = count, help_heading = "Server")]
    pub parallel: usize,

    /// Requests that may wait; those beyond get status 503
    #[arg(long, value_name = "N", default_value = "32", help_heading = "Server")]
    pub queue: usize,

    /// How long one answer may take
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = time, help_heading = "Server")]
    pub time_limit: Duration,

    /// How long what runs may take to finish when the server is to stop
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Server")]
    pub shutdown_limit: Duration,

    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// Where to listen, and to whom.
#[derive(Debug, ClapArgs)]
pub struct ListenArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", help_heading = "Server")]
    pub listen: SocketAddr,

    /// A key that opens the API; may be given several times, or with commas between
    #[arg(
        long,
        value_name = "KEY",
        env = "TANDEM_API_KEYS",
        hide_env_values = true,
        value_delimiter = ',',
        help_heading = "Server"
    )]
    pub api_key: Vec<String>,

    /// Keys besides, one a line
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub api_key_file: Option<PathBuf>,

    /// Let pages of this origin use the API; "*" for all; may be given several times
    #[arg(long, value_name = "ORIGIN", help_heading = "Server")]
    pub cors: Vec<String>,
}
