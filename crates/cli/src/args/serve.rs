//! `tandem serve`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser};

use tandem::{Mode, Share};
use toml::Table;

use super::{GenerateArgs, words};
use crate::config::{between, count, time, up_to};

#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    #[command(flatten)]
    pub listening: ListenArgs,

    /// Texts generated at the same time; each keeps its conversation in memory
    #[arg(long, value_name = "N", default_value = "4", value_parser = up_to::<256>, help_heading = "Server")]
    pub parallel: usize,

    /// Requests that may wait; further ones get status 503
    #[arg(long, value_name = "N", default_value = "32", value_parser = between::<0, 100_000>, help_heading = "Server")]
    pub queue: usize,

    /// How long one answer may take
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = time, help_heading = "Server")]
    pub time_limit: Duration,

    /// How long generations under way may take to finish when the server stops
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Server")]
    pub shutdown_limit: Duration,

    #[command(flatten)]
    pub allowed: AllowedArgs,

    #[command(flatten)]
    pub generate: GenerateArgs,

    /// Further pairs, which only the configuration file can name.
    #[arg(skip)]
    pub pairs: Vec<FurtherPairArgs>,
}

/// A further pair: a table `[serve.pairs.NAME]` of the configuration file.
#[derive(Debug)]
pub struct FurtherPairArgs {
    pub name: String,
    /// As it stands in the file.
    pub table: Table,
    pub options: PairTableArgs,
}

/// What such a table may hold, by the long names of options. `None` is as for the server's own pair.
#[derive(Debug, Parser)]
#[command(name = "pair", no_binary_name = true)]
pub struct PairTableArgs {
    /// Texts generated at the same time by this pair
    #[arg(long, value_parser = up_to::<256>)]
    pub parallel: Option<usize>,

    /// Requests to this pair that may wait
    #[arg(long, value_parser = between::<0, 100_000>)]
    pub queue: Option<usize>,

    /// The largest share of tokens from this pair's cloud
    #[arg(long)]
    pub max_share: Option<Share>,

    /// The longest that a text waits for this pair's cloud
    #[arg(long, value_parser = time)]
    pub max_wait: Option<Duration>,

    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// What the operator allows, whatever requests ask for.
#[derive(Debug, ClapArgs)]
pub struct AllowedArgs {
    /// The modes that requests may have, with commas between; all without it
    #[arg(
        long,
        value_name = "MODES",
        value_delimiter = ',',
        value_parser = words::mode(),
        help_heading = "Limits"
    )]
    pub modes: Vec<Mode>,

    /// The largest share of tokens from the cloud, over all requests and at every moment, whatever
    /// they ask for
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, help_heading = "Limits")]
    pub max_share: Option<Share>,

    /// The longest that a text waits for a cloud that fails, with "wait" as its policy
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time, help_heading = "Limits")]
    pub max_wait: Duration,

    /// Requests that each key may make in a minute
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Limits")]
    pub key_requests: Option<usize>,

    /// Tokens that each key may have from the cloud in a minute
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Limits")]
    pub key_cloud_tokens: Option<usize>,
}

/// A certificate to encrypt with.
#[derive(Debug, ClapArgs)]
pub struct TlsArgs {
    // Neither requires the other for clap, which would not see one that the configuration file gives.
    /// Encrypt with this certificate (PEM), with those of its authorities behind it; with --tls-key
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's key (PEM); with --tls-cert
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub tls_key: Option<PathBuf>,
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

    #[command(flatten)]
    pub tls: TlsArgs,

    /// Allow pages of this origin to use the API; "*" for all; may be given several times
    #[arg(long, value_name = "ORIGIN", help_heading = "Server")]
    pub cors: Vec<String>,
}
