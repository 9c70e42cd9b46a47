//! The `tandem` program: arguments become a validated configuration, which builds the objects that
//! do the work. Everything about models is in the library `tandem`.
//!
//! - [`args`]: what users may write; [`settings`]: the configuration file; [`config`]: what it means;
//!   [`keys`]: the keys of a server
//! - [`answer`]: one text, printed from its first token to its last line
//! - [`show`]: how it looks; [`report`]: its figures, for people
//! - [`commands`]: one file a command; with the feature `otel`, `traces`: where the time of requests went, for
//!   a collector

mod answer;
mod args;
mod commands;
mod config;
mod interrupt;
mod keys;
#[cfg(feature = "lab")]
mod progress;
mod report;
mod settings;
mod show;
#[cfg(feature = "otel")]
mod traces;

use std::process::ExitCode;

use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::LevelFilter, fmt::format::FmtSpan, layer::SubscriberExt,
    util::SubscriberInitExt,
};

use args::{Args, Command, LogFormat};
use config::UsageError;
use tandem::error::describe;

fn main() -> ExitCode {
    engine::tune();
    let args = match settings::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            show::say(&format!("error: {error}"));
            return ExitCode::from(2);
        }
    };
    #[cfg(feature = "otel")]
    let traces = match traces(&args) {
        Ok(traces) => traces,
        Err(error) => return failed(&error),
    };
    #[cfg(feature = "otel")]
    let spans = traces.as_ref().map(traces::Traces::layer);
    #[cfg(not(feature = "otel"))]
    let spans = None::<tracing_subscriber::layer::Identity>;
    start_log(args.verbose, args.log_format, spans);
    match run(args) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    show::say(&format!("error: {}", describe(error.as_ref())));
    ExitCode::from(code_of(error))
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Demo(args) => block_on(commands::demo::demo(args)),
        Command::Run(args) => block_on(commands::run::run(args)),
        Command::Chat(args) => block_on(commands::chat::chat(args)),
        Command::Serve(args) => block_on(commands::serve::serve(args)),
        Command::Cloud(args) => block_on(commands::cloud::cloud(args)),
        Command::Pull(args) => commands::pull::pull(&args),
        Command::Rm(args) => commands::rm::rm(&args),
        Command::Doctor(args) => block_on(commands::doctor::doctor(args)),
        Command::Preset(command) => commands::preset::preset(&command),
        #[cfg(feature = "lab")]
        Command::Router(args) => block_on(commands::router::router(args)),
        #[cfg(feature = "lab")]
        Command::Eval(args) => block_on(commands::eval::eval(args)),
        #[cfg(feature = "lab")]
        Command::Report(args) => commands::report::report(args),
        #[cfg(feature = "lab")]
        Command::Tune(args) => block_on(commands::tune::tune(*args)),
        #[cfg(not(feature = "lab"))]
        Command::Router(args) => args.refuse("router"),
        #[cfg(not(feature = "lab"))]
        Command::Eval(args) => args.refuse("eval"),
        #[cfg(not(feature = "lab"))]
        Command::Report(args) => args.refuse("report"),
        #[cfg(not(feature = "lab"))]
        Command::Tune(args) => (*args).refuse("tune"),
        Command::Onnx(command) => commands::onnx::onnx(command),
        Command::Bench(command) => block_on(commands::bench::bench(command)),
        Command::Config(command) => commands::config::config(&command, args.config.as_ref()),
        Command::Completions { shell } => commands::completions::completions(shell),
        Command::Manual { folder } => commands::manual::manual(&folder),
    }
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // The models have threads of their own, on every core: what is left to do is little, and more
    // threads for it would only get in their way.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads((cores / 2).clamp(1, 2)).enable_all().build()?.block_on(future)
}

/// 2 where the user has to write something else, 1 for whatever else went wrong.
fn code_of(error: &anyhow::Error) -> u8 {
    if is_usage(error) { 2 } else { 1 }
}

/// Whether the user has to write something else, rather than mend something.
fn is_usage(error: &anyhow::Error) -> bool {
    #[cfg(feature = "lab")]
    if error.downcast_ref::<lab::Error>().is_some_and(lab::Error::is_usage) {
        return true;
    }
    let library = error.downcast_ref::<tandem::Error>();
    error.is::<UsageError>()
        || matches!(library, Some(tandem::Error::Usage(_) | tandem::Error::Grammar(_)))
}

/// Whoever read our output has gone: `tandem run … | head` is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Traces of the requests to a server, if there is a collector for them.
#[cfg(feature = "otel")]
fn traces(args: &Args) -> anyhow::Result<Option<traces::Traces>> {
    let service = match args.command {
        Command::Serve(_) => "tandem-serve",
        Command::Cloud(_) => "tandem-cloud",
        _ => return Ok(None),
    };
    let endpoint = args.otel_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
    endpoint.map(|endpoint| traces::Traces::to(endpoint, service)).transpose()
}

/// Writes the log, and has `spans` notice what it wants to, whatever is logged.
fn start_log(
    verbose: u8,
    format: LogFormat,
    spans: Option<impl Layer<Registry> + Send + Sync + 'static>,
) {
    let default = match verbose {
        0 => "warn,llama=error",
        1 => "info,llama=error",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("TANDEM_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // Where details are listened to, a span tells how long it took.
    let timed = filter.max_level_hint().is_none_or(|level| level >= LevelFilter::DEBUG);
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_span_events(if timed { FmtSpan::CLOSE } else { FmtSpan::NONE });
    let all = tracing_subscriber::registry().with(spans);
    match format {
        LogFormat::Text => all.with(log.with_filter(filter)).init(),
        LogFormat::Json => all.with(log.json().flatten_event(true).with_filter(filter)).init(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn who_watches_a_server_is_told_that_its_models_failed() {
        let failed = Some("index out of bounds".to_owned());
        let ended = commands::ended(Ok(()), failed);
        assert!(ended.is_err_and(|error| code_of(&error) == 1 && !is_broken_pipe(&error)));
        let broken = commands::ended(Err(io::Error::other("no more connections")), None);
        assert!(broken.is_err_and(|error| code_of(&error) == 1));
        // Stopped by a signal, it did what it should.
        assert!(commands::ended(Ok(()), None).is_ok());
        let mistake = anyhow::Error::new(UsageError("--key: a key must not be empty".into()));
        assert_eq!(code_of(&mistake), 2);
    }
}
