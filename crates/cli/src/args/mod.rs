//! The command line: one file for each family of commands, and here what they share.

mod bench;
#[cfg(feature = "lab")]
mod eval;
#[cfg(feature = "lab")]
mod export;
#[cfg(not(feature = "lab"))]
mod no_lab;
mod onnx;
mod pair;
mod preset;
mod pull;
#[cfg(test)]
mod ranges;
#[cfg(feature = "lab")]
mod report;
#[cfg(feature = "lab")]
mod router;
mod sampling;
mod serve;
#[cfg(feature = "lab")]
mod tune;
mod words;

#[cfg(not(feature = "lab"))]
pub use self::no_lab::{
    NoLabArgs as EvalArgs, NoLabArgs as ExportArgs, NoLabArgs as ReportArgs,
    NoLabArgs as RouterArgs, NoLabArgs as TuneArgs, no_lab,
};
pub use self::{bench::*, onnx::*, pair::*, preset::*, pull::*, sampling::*, serve::*};
#[cfg(feature = "lab")]
pub use self::{eval::*, export::*, report::*, router::*, tune::*};

use std::{net::SocketAddr, path::PathBuf, sync::LazyLock, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand};
use cloud::{Delay, Engine};
use decode::{OnCloudError, Threshold};
use engine::{Adapter, onnx::Provider};
pub use tandem::{Mode, builder::SYSTEM};
use tandem::{RouterSpec, Share};

use crate::config::{adapter, between, count, time, up_to};

/// Version, commit, and the llama.cpp inside.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("TANDEM_COMMIT"));
    format!("{version} ({commit}, llama.cpp {})", engine::llama_version())
});

/// Two models write one text: a small one on this device writes almost all of it, and a large one in
/// the cloud writes the few words where the small one cannot be trusted.
#[derive(Debug, Parser)]
#[command(name = "tandem", version = BUILD.as_str(), propagate_version = true)]
pub struct Args {
    /// Log more to stderr; give it twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// How the log on stderr is written
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,

    /// A file with values of options; without it, ~/.config/tandem/tandem.toml if that exists
    #[arg(long, global = true, value_name = "FILE", env = "TANDEM_CONFIG")]
    pub config: Option<PathBuf>,

    /// Send traces of requests to this collector of OpenTelemetry (OTLP over HTTP)
    #[cfg(feature = "otel")]
    #[arg(long, global = true, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otel_endpoint: Option<String>,

    #[command(subcommand)]
    pub command: Command,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// See what routing does: questions answered by the small model, by both, and by the large one
    Demo(PairArgs),
    /// Answer one prompt
    Run(RunArgs),
    /// Chat in the terminal, with history; Ctrl-C stops an answer, /help lists commands
    Chat(ChatArgs),
    /// Serve both models with OpenAI's API and a chat page
    Serve(ServeArgs),
    /// Serve the large model to edges on other machines
    Cloud(CloudArgs),
    /// Download the default models, a model of the Hugging Face hub, or a library; list models
    Pull(PullArgs),
    /// Remove a model that was pulled
    Rm(RmArgs),
    /// Check models and cloud, and say how to fix what does not work
    Doctor(DoctorArgs),
    /// List presets, or check the files of one
    #[command(subcommand)]
    Preset(PresetCommand),
    /// Make a preset for your own prompts: the large model answers them, and a router learns where the
    /// small one needs it
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Tune(Box<TuneArgs>),
    /// Train, calibrate and inspect routers
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Router(RouterArgs),
    /// Measure the accuracy of the pair, by router and budget
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Eval(EvalArgs),
    /// Make a page with plots, and a summary, from the results of eval
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Report(ReportArgs),
    /// ONNX models: make the hidden state an output, or export a GGUF model
    #[command(subcommand)]
    Onnx(OnnxCommand),
    /// Measure this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show the values of options, and where each came from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for your shell
    Completions {
        /// The shell to print it for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Manual {
        /// The folder to write tandem.1, tandem-run.1, … into
        folder: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Every option of a command with its value, and whether it is from the environment, the file or
    /// a default
    Show {
        /// The command
        #[arg(default_value = "serve")]
        command: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// The prompt; "-" reads it from stdin
    pub prompt: String,

    /// Hold the answer to the JSON schema in this file
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,

    #[command(flatten)]
    pub generate: GenerateArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
pub struct ChatArgs {
    #[command(flatten)]
    pub generate: GenerateArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
pub struct OutputArgs {
    /// Print one JSON object for each answer instead of text: text, finish_reason, tokens, stats
    #[arg(long)]
    pub json: bool,

    /// Write one JSON line for each token to this file
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// The options of a generation, shared by `run`, `chat`, `serve` and `bench joint`.
#[derive(Clone, Debug, ClapArgs)]
pub struct GenerateArgs {
    /// Which models write
    #[arg(long, value_name = "MODE", default_value = "joint", value_parser = words::mode())]
    pub mode: Mode,

    /// Adapters and router for one kind of question: a name from `tandem preset list`, or a folder
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    /// Ask the cloud where the router's score is below this: 0 never asks, 1 always
    #[arg(long, value_name = "0..1", conflicts_with = "budget", allow_negative_numbers = true)]
    pub threshold: Option<Threshold>,

    /// Keep the share of tokens from the cloud near this, over a long run, by moving the threshold.
    /// Without a budget or a threshold: that of the preset, else 7% with a trained router, else a
    /// threshold of 0.2
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub budget: Option<Share>,

    /// Aim at this mean time between tokens by moving the threshold: where the network is slow, less is
    /// asked. A budget stays the limit
    #[arg(long, value_name = "TIME", conflicts_with = "threshold", value_parser = time)]
    pub pace: Option<Duration>,

    /// With a pace, take at least this share of tokens from the cloud, however long its answers take
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "1%",
        requires = "pace",
        allow_negative_numbers = true
    )]
    pub min_share: Share,

    /// Keep the budget at every moment: while more than its share has come from the cloud, do not
    /// ask. The share is then never passed by more than one ask
    #[arg(long, conflicts_with = "threshold")]
    pub strict: bool,

    /// The router: a file, or top1, margin, entropy, random, random:SHARE, never or always. Without
    /// it, the preset's, or the general one of the pair; for other models, top1
    #[arg(long, value_name = "NAME|FILE")]
    pub router: Option<RouterSpec>,

    /// Stop after this many tokens
    #[arg(long, value_name = "N", default_value = "256", value_parser = count)]
    pub max_tokens: usize,

    /// Stop before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,

    /// The system message, given to both models
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// Send the hidden state and the proposed token with every ask, so that a cloud with --collect
    /// can store them as training samples
    #[arg(long, requires = "cloud", help_heading = "Cloud")]
    pub share_states: bool,

    #[command(flatten)]
    pub sampling: SamplingArgs,

    #[command(flatten)]
    pub pair: PairArgs,
}

/// Both models, and the machine they run on.
#[derive(Clone, Debug, ClapArgs)]
pub struct PairArgs {
    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub cloud: CloudModelArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct EdgeArgs {
    /// The pair of models that are used where none are named: a name from `tandem pull --list`. The
    /// default is the catalog's
    #[arg(long, value_name = "NAME", value_parser = PairNameParser, env = "TANDEM_PAIR", help_heading = "Models")]
    pub pair: Option<PairName>,

    /// The small model: a GGUF file, an ONNX file or folder, a name from `tandem pull --list`, or
    /// hf:OWNER/REPO[:FILE or QUANT] once it is pulled
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub edge_model: Option<String>,

    /// A LoRA adapter for the small model, with a scale if not 1
    #[arg(long, value_name = "FILE[:SCALE]", value_parser = adapter, help_heading = "Models")]
    pub edge_adapter: Vec<Adapter>,

    /// Execution providers for ONNX models, in order of preference: cpu, cuda, coreml, …
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Models")]
    pub onnx_provider: Vec<Provider>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct CloudModelArgs {
    /// The large model: a GGUF file, a name from `tandem pull --list`, or hf:OWNER/REPO[:FILE or
    /// QUANT] once it is pulled; with --cloud, its name on that server
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub cloud_model: Option<String>,

    /// A LoRA adapter for the large model, with a scale if not 1
    #[arg(
        long,
        value_name = "FILE[:SCALE]",
        value_parser = adapter,
        conflicts_with = "cloud",
        help_heading = "Models"
    )]
    pub cloud_adapter: Vec<Adapter>,

    #[command(flatten)]
    pub location: CloudLocationArgs,
}

/// Where the cloud is, and what happens when it fails.
#[derive(Clone, Debug, ClapArgs)]
pub struct CloudLocationArgs {
    /// A remote cloud: `tandem cloud`, SGLang, vLLM, llama-server or anything with OpenAI's
    /// /v1/completions. Without it the large model runs in this process. Given several times: servers of
    /// the same model, each of which takes over where those before it fail
    // Read as plain text and parsed later: a mistake must not print a password.
    #[arg(long, value_name = "URL", help_heading = "Cloud")]
    pub cloud: Vec<String>,

    /// The engine of that cloud, if it is not recognised: tandem, sglang, vllm, llama-server, openai
    #[arg(long, value_name = "ENGINE", requires = "cloud", help_heading = "Cloud")]
    pub cloud_engine: Option<Engine>,

    /// The key for that cloud. With several clouds, one for all or one for each, in their order
    #[arg(
        long,
        value_name = "KEY",
        env = "TANDEM_CLOUD_KEY",
        hide_env_values = true,
        help_heading = "Cloud"
    )]
    pub cloud_key: Vec<String>,

    /// Certificates (PEM) of your own authority, trusted in addition to the system's
    #[arg(long, value_name = "FILE", help_heading = "Cloud")]
    pub cloud_ca: Option<PathBuf>,

    /// The cloud's chat template, if the cloud does not apply its own: chatml, or a Jinja file
    #[arg(long, value_name = "NAME|FILE", requires = "cloud", help_heading = "Cloud")]
    pub cloud_template: Option<String>,

    /// What to do if the cloud fails: keep the small model's own token, wait, or fail
    #[arg(long, value_name = "POLICY", default_value = "keep", value_parser = words::on_cloud_error(), help_heading = "Cloud")]
    pub on_cloud_error: OnCloudError,

    /// How long one ask may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = time, help_heading = "Cloud")]
    pub ask_deadline: Duration,

    /// How many asks may be on their way while the small model goes on behind its own words; 0 waits
    /// for every answer. The text is the same. A cloud in this process is waited for, unless a network
    /// is simulated
    #[arg(long, value_name = "N", default_value = "3", value_parser = between::<0, 16>, help_heading = "Cloud")]
    pub asks_in_flight: usize,

    /// Behind how many of its other choices the small model may go on too while it waits: as many as are
    /// worth the time on this machine. Only where one text is made at a time, and not with ONNX; choices
    /// that are almost equal may be decided differently
    #[arg(long, value_name = "N", default_value = "0", value_parser = between::<0, 3>, help_heading = "Cloud")]
    pub branches: usize,

    /// How many tokens an ask brings, where both models have one vocabulary and nothing is drawn: those
    /// behind the first answer later asks, for as long as the text is the cloud's own
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<16>, help_heading = "Cloud")]
    pub ask_tokens: usize,

    /// Where --asks-in-flight requests are on their way, go on past doubtful tokens, and let a cloud that can
    /// judge several of them with one request: with --asks-in-flight 1 the fewest requests, where they are
    /// close together. Only where both models have one vocabulary and nothing is drawn, with tandem cloud
    /// and SGLang
    #[arg(long, help_heading = "Cloud")]
    pub judge_asks: bool,

    /// Open a cloud elsewhere and let it read the prompt while the small model does: the first ask is
    /// answered sooner, and the prompt is sent even if nothing is asked later
    #[arg(long, help_heading = "Cloud")]
    pub warm: bool,

    /// Simulate a network with this round trip, jitter and loss: 170ms, 170ms:20ms or
    /// 170ms:20ms:1%; 20ms/5s,400ms/5s changes after that time, again and again. Nothing gets through
    /// while it is dead, as in 170ms/30s,dead/60s. @FILE has recorded round trips, one a line: a request
    /// takes the next one, or each lasts as long as in @FILE/1s. `eval` takes several that do not change
    #[arg(long, value_name = "RTT", value_delimiter = ',', help_heading = "Cloud")]
    pub simulate_rtt: Vec<Delay>,

    /// Do not ask the cloud, and open no socket
    #[arg(long, conflicts_with = "cloud", help_heading = "Cloud")]
    pub offline: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct MachineArgs {
    /// The longest conversation in tokens, prompt and answer together
    #[arg(long, value_name = "N", default_value = "4096", value_parser = up_to::<1_048_576>, help_heading = "Machine")]
    pub context: usize,

    /// Computing threads; use one less than the cores if something else is busy
    #[arg(long, value_name = "N", value_parser = up_to::<1024>, help_heading = "Machine")]
    pub threads: Option<usize>,

    /// Layers of each GGUF model on the GPU; without it, as many as fit. 0 uses the CPU only
    #[arg(long, value_name = "N", value_parser = between::<0, 10_000>, help_heading = "Machine")]
    pub gpu_layers: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub struct CloudArgs {
    /// The address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,

    /// The key that every request must have
    #[arg(long, value_name = "KEY", env = "TANDEM_CLOUD_KEY", hide_env_values = true)]
    pub key: Option<String>,

    /// A file with the key, or with several, one on each line
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// The large model: a GGUF file, a name from `tandem pull --list`, or hf:OWNER/REPO[:FILE or
    /// QUANT] once it is pulled. Without it, that of the pair
    #[arg(long, visible_alias = "model", value_name = "MODEL")]
    pub cloud_model: Option<String>,

    /// The pair whose large model is used where none is named
    #[arg(long, value_name = "NAME", env = "TANDEM_PAIR")]
    pub pair: Option<String>,

    /// A LoRA adapter for it, with a scale if not 1
    #[arg(long, visible_alias = "adapter", value_name = "FILE[:SCALE]", value_parser = adapter)]
    pub cloud_adapter: Vec<Adapter>,

    /// The adapter of a preset
    #[arg(long, value_name = "NAME|FOLDER", conflicts_with = "cloud_adapter")]
    pub preset: Option<String>,

    /// The most sessions at once; a new one replaces the least recently used
    // As many as llama.cpp batches.
    #[arg(long, value_name = "N", default_value = "8", value_parser = up_to::<256>)]
    pub sessions: usize,

    /// Cached tokens of all sessions together: memory for them is allocated, and when it is full the
    /// least recently used session is evicted
    #[arg(long, value_name = "N", default_value = "16384", value_parser = up_to::<16_777_216>)]
    pub cache_tokens: usize,

    /// How long asks under way may take to finish when the server stops
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub shutdown_limit: Duration,

    /// Store the samples that edges with --share-states send in this folder, for `tandem router
    /// train --objective agree`; an existing collection is continued
    #[arg(long, value_name = "FOLDER")]
    pub collect: Option<PathBuf>,

    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    /// Adapters and router of a preset
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    /// Check whether this router fits: a file or a name
    #[arg(long, value_name = "NAME|FILE")]
    pub router: Option<RouterSpec>,

    #[command(flatten)]
    pub pair: PairArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}
