//! What users may write. One file a family of commands; what they share is here.

mod bench;
#[cfg(feature = "lab")]
mod eval;
#[cfg(feature = "lab")]
mod export;
#[cfg(not(feature = "lab"))]
mod no_lab;
mod onnx;
mod preset;
mod pull;
#[cfg(feature = "lab")]
mod report;
#[cfg(feature = "lab")]
mod router;
mod serve;
mod words;

pub use self::bench::{
    BenchArgs, BenchAskArgs, BenchCommand, BenchEdgeArgs, BenchJointArgs, BenchServeArgs,
};
#[cfg(not(feature = "lab"))]
pub use self::no_lab::{
    NoLabArgs as EvalArgs, NoLabArgs as ExportArgs, NoLabArgs as ReportArgs,
    NoLabArgs as RouterArgs, no_lab,
};
pub use self::onnx::{ExposeArgs, OnnxArgs, OnnxCommand};
pub use self::preset::{CheckPresetArgs, ListPresetsArgs, PresetArgs, PresetCommand};
pub use self::pull::{PullArgs, Pullable, RmArgs};
pub use self::serve::{ListenArgs, ServeArgs};
#[cfg(feature = "lab")]
pub use self::{
    bench::{BenchAgreeArgs, BenchOriginalArgs},
    eval::{Baseline, EvalArgs},
    export::{ExportArgs, WeightsArg},
    report::ReportArgs,
    router::{CalibrateArgs, CollectArgs, InspectArgs, RouterArgs, RouterCommand, TrainArgs},
};

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand};
use cloud::{Delay, Engine};
use decode::{OnCloudError, Threshold};
use engine::onnx::Provider;
pub use tandem::{Mode, builder::SYSTEM};
use tandem::{RouterSpec, Share};

use crate::config::{AdapterArg, count, time};

/// Two models write one text: a small one on this device almost all of it, a large one in the
/// cloud the few words where the small one cannot be trusted.
#[derive(Debug, Parser)]
#[command(name = "tandem", version = crate::commands::version::BUILD.as_str(), propagate_version = true)]
pub struct Args {
    /// Say more on stderr; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// See what it is about: one question answered by small, by both and by large
    Demo(DemoArgs),
    /// Answer one prompt
    Run(RunArgs),
    /// Talk, with history; Ctrl-C stops an answer, /help lists commands
    Chat(ChatArgs),
    /// Serve both models: OpenAI's API and a page to chat on
    Serve(ServeArgs),
    /// Serve the large model to edges on other machines
    Cloud(CloudArgs),
    /// Fetch the default models, a model of the Hugging Face hub, or a library; list what is here
    Pull(PullArgs),
    /// Remove a model that was pulled
    Rm(RmArgs),
    /// Check models and cloud before it matters, and say what to do
    Doctor(DoctorArgs),
    /// List presets, or check one before it is handed on
    Preset(PresetArgs),
    /// Make, calibrate and look at routers
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Router(RouterArgs),
    /// Measure how good the pair's answers are, by router and budget
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Eval(EvalArgs),
    /// Results of eval as a page with plots, and as a summary
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Report(ReportArgs),
    /// ONNX models: give out the hidden state, or write a GGUF model as one
    Onnx(OnnxArgs),
    /// Measure this machine
    Bench(BenchArgs),
    /// Print a completion script for your shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Manual {
        /// Where to; tandem.1, tandem-run.1, …
        folder: PathBuf,
    },
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// The prompt; "-" reads it from stdin
    pub prompt: String,

    #[command(flatten)]
    pub generate: GenerateArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, ClapArgs)]
pub struct DemoArgs {
    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub cloud: CloudModelArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
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
    /// Print one JSON object an answer instead of text: text, finish_reason, tokens, stats
    #[arg(long)]
    pub json: bool,

    /// Write one JSON line a token to this file
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// How a text is made: shared by `run`, `chat`, `serve` and `bench joint`.
#[derive(Clone, Debug, ClapArgs)]
pub struct GenerateArgs {
    /// Who writes
    #[arg(long, value_name = "MODE", default_value = "joint", value_parser = words::mode())]
    pub mode: Mode,

    /// Adapters and router for one kind of question: a name `tandem preset list` shows, or a folder
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    /// Ask the cloud where the router's trust is below this: 0 never, 1 always
    #[arg(long, value_name = "0..1", conflicts_with = "budget", allow_negative_numbers = true)]
    pub threshold: Option<Threshold>,

    /// Near this share of tokens from the cloud, over a long run; the threshold follows. Without it
    /// and without a threshold: 7% with a trained router, else a threshold of 0.2
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub budget: Option<Share>,

    /// Who judges: a router file, or top1, margin, entropy, random, random:SHARE, never or always.
    /// Without it, the preset's, or a general one made for the default edge; with another edge, top1
    #[arg(long, value_name = "NAME|FILE")]
    pub router: Option<RouterSpec>,

    /// Stop after this many tokens
    #[arg(long, value_name = "N", default_value = "256", value_parser = count)]
    pub max_tokens: usize,

    /// Stop where this text would appear; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,

    /// The system message, given to both models
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// Send the hidden state and the proposal with every ask, so that a cloud that collects can
    /// learn from them
    #[arg(long, requires = "cloud", help_heading = "Cloud")]
    pub share_states: bool,

    #[command(flatten)]
    pub sampling: SamplingArgs,

    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub cloud: CloudModelArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct SamplingArgs {
    /// 0 always takes the most likely token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub temperature: f32,

    /// Only the most likely tokens that together reach this probability
    #[arg(
        long,
        value_name = "P",
        default_value_t = 1.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub top_p: f32,

    /// Only the K most likely tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Sampling")]
    pub top_k: usize,

    /// Only tokens at least this likely, relative to the most likely
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub min_p: f32,

    /// Above 1, tokens of the last 64 are made less likely
    #[arg(
        long,
        value_name = "R",
        default_value_t = 1.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub repetition_penalty: f32,

    /// The same seed gives the same text; without one, each run draws its own
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub seed: Option<u64>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct EdgeArgs {
    /// The small model: a GGUF file, an ONNX file or folder, a name `tandem pull --list` shows, or
    /// hf:OWNER/REPO[:FILE or QUANT] once it is pulled
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub edge_model: Option<String>,

    /// A LoRA adapter for the small model, with a scale if not 1
    #[arg(long, value_name = "FILE[:SCALE]", help_heading = "Models")]
    pub edge_adapter: Vec<AdapterArg>,

    /// What computes an ONNX model, in order of preference: cpu, cuda, coreml, …
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Models")]
    pub onnx_provider: Vec<Provider>,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct CloudModelArgs {
    /// The large model: a GGUF file, a name `tandem pull --list` shows, or hf:OWNER/REPO[:FILE or
    /// QUANT] once it is pulled; with --cloud, the name that server knows it by
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub cloud_model: Option<String>,

    /// A LoRA adapter for the large model, with a scale if not 1
    #[arg(long, value_name = "FILE[:SCALE]", conflicts_with = "cloud", help_heading = "Models")]
    pub cloud_adapter: Vec<AdapterArg>,

    #[command(flatten)]
    pub place: CloudPlaceArgs,
}

/// Where the cloud is, and what happens when it is not there.
#[derive(Clone, Debug, ClapArgs)]
pub struct CloudPlaceArgs {
    /// A cloud elsewhere: `tandem cloud`, SGLang, vLLM, llama-server or anything with OpenAI's
    /// /v1/completions. Without it the large model runs in this process
    // Read as plain text and parsed later: a mistake must not print a password.
    #[arg(long, value_name = "URL", help_heading = "Cloud")]
    pub cloud: Option<String>,

    /// Who answers there, if finding out fails: tandem, sglang, vllm, llama-server, openai
    #[arg(long, value_name = "ENGINE", requires = "cloud", help_heading = "Cloud")]
    pub cloud_engine: Option<Engine>,

    /// The key that cloud wants
    #[arg(
        long,
        value_name = "KEY",
        env = "TANDEM_CLOUD_KEY",
        hide_env_values = true,
        help_heading = "Cloud"
    )]
    pub cloud_key: Option<String>,

    /// Certificates (PEM) of an authority of your own, trusted besides the system's
    #[arg(long, value_name = "FILE", help_heading = "Cloud")]
    pub cloud_ca: Option<PathBuf>,

    /// The cloud's chat template, where the cloud does not apply its own: chatml, or a Jinja file
    #[arg(long, value_name = "NAME|FILE", requires = "cloud", help_heading = "Cloud")]
    pub cloud_template: Option<String>,

    /// Where the cloud fails: keep the edge's own token, wait for the cloud, or fail
    #[arg(long, value_name = "POLICY", default_value = "keep", value_parser = words::on_cloud_error(), help_heading = "Cloud")]
    pub on_cloud_error: OnCloudError,

    /// How long one ask may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = time, help_heading = "Cloud")]
    pub ask_deadline: Duration,

    /// Pretend a network: round trip, jitter and loss, as in 170ms, 170ms:20ms or 170ms:20ms:1%;
    /// `eval` takes several
    #[arg(long, value_name = "RTT", value_delimiter = ',', help_heading = "Cloud")]
    pub simulate_rtt: Vec<Delay>,

    /// Ask no cloud at all, and open no socket
    #[arg(long, conflicts_with = "cloud", help_heading = "Cloud")]
    pub offline: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub struct MachineArgs {
    /// Tokens a conversation may have, prompt and answer together
    #[arg(long, value_name = "N", default_value = "4096", value_parser = count, help_heading = "Machine")]
    pub context: usize,

    /// Threads that compute; one less than the cores if something else is busy
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Machine")]
    pub threads: Option<usize>,

    /// Layers of each GGUF model that go onto the GPU; without it, all that fit. 0 keeps to the CPU
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub gpu_layers: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub struct CloudArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,

    /// The key every edge must bring
    #[arg(long, value_name = "KEY", env = "TANDEM_CLOUD_KEY", hide_env_values = true)]
    pub key: Option<String>,

    /// The large model: a GGUF file, a name `tandem pull --list` shows, or hf:OWNER/REPO[:FILE or
    /// QUANT] once it is pulled
    #[arg(long, visible_alias = "model", value_name = "MODEL")]
    pub cloud_model: Option<String>,

    /// A LoRA adapter for it, with a scale if not 1
    #[arg(long, visible_alias = "adapter", value_name = "FILE[:SCALE]")]
    pub cloud_adapter: Vec<AdapterArg>,

    /// The adapter of a preset
    #[arg(long, value_name = "NAME|FOLDER", conflicts_with = "cloud_adapter")]
    pub preset: Option<String>,

    /// Sessions held at once; the least recently used leaves when one more comes
    #[arg(long, value_name = "N", default_value = "8", value_parser = count)]
    pub sessions: usize,

    /// Tokens held by all sessions together: this much memory is taken, and the least recently
    /// used session leaves when it is full
    #[arg(long, value_name = "N", default_value = "16384", value_parser = count)]
    pub cache_tokens: usize,

    /// Keep what edges with --share-states send in this folder, for `tandem router train
    /// --objective agree`; one that was begun is gone on with
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

    /// Whether this router fits: a file or a name
    #[arg(long, value_name = "NAME|FILE")]
    pub router: Option<RouterSpec>,

    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub cloud: CloudModelArgs,

    #[command(flatten)]
    pub machine: MachineArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}
