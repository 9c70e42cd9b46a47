//! `tandem run`: one prompt, one answer.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::Context;
use decode::Message;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::RunArgs,
    config::{Generate, UsageError},
    generation::Generation,
    pair::Pair,
    report::{self, Report},
    show::Screen,
};

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;

pub async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let generate = Generate::new(&args.generate)?;
    let prompt = read_prompt(&args.prompt)?;
    let trace = args.trace.as_deref().map(create).transpose()?;
    let messages = [Message::system(&generate.system), Message::user(prompt)];
    let mut pair = Pair::new(&args.generate)?;
    let mut generation = pair.begin(&generate, &messages).await?;

    let screen = (!args.json).then(Screen::new);
    let end = follow(&mut generation, screen.as_ref()).await;
    let result = match &end {
        Ok(_) | Err(Stop::Interrupted) => Ok(()),
        Err(Stop::Failed(error)) => Err(error.to_string()),
        Err(Stop::Output(_)) => Ok(()),
    };
    if let Some(screen) = &screen
        && !matches!(end, Err(Stop::Output(_)))
    {
        screen.end()?;
    }
    if args.json {
        let report = Report::new(&generate, &generation, result.clone().err());
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    }
    if let Some(file) = trace {
        write_trace(file, &generation)?;
    }
    if let Some(warning) = report::warning(&generation) {
        eprintln!("warning: {warning}");
    }
    eprintln!("{}", report::summary(&generation));
    drop(generation);
    pair.close().await;
    match end {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Stop::Interrupted) => Ok(ExitCode::from(INTERRUPTED)),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Output(error)) => Err(error.into()),
    }
}

/// Why a text ended before its end.
pub enum Stop {
    /// Ctrl-C.
    Interrupted,
    /// A model failed.
    Failed(anyhow::Error),
    /// Nobody reads our output.
    Output(io::Error),
}

/// Makes the text to its end, or until Ctrl-C, and shows it on the way.
pub async fn follow(generation: &mut Generation<'_>, screen: Option<&Screen>) -> Result<(), Stop> {
    let show = |span| match screen {
        Some(screen) => screen.show(&span).map_err(Stop::Output),
        None => Ok(()),
    };
    let mut interrupts =
        signal(SignalKind::interrupt()).map_err(|e| Stop::Failed(anyhow::Error::new(e)))?;
    loop {
        let next = tokio::select! {
            next = generation.next() => next,
            _ = interrupts.recv() => {
                show(generation.cancel())?;
                return Err(Stop::Interrupted);
            }
        };
        match next {
            Ok(Some(span)) => show(span)?,
            Ok(None) => return Ok(()),
            Err(error) => return Err(Stop::Failed(error.into())),
        }
    }
}

fn read_prompt(given: &str) -> anyhow::Result<String> {
    let prompt = if given == "-" {
        let mut bytes = vec![];
        io::stdin().read_to_end(&mut bytes).context("stdin cannot be read")?;
        let text = String::from_utf8(bytes);
        text.map_err(|_| UsageError("the prompt on stdin is not UTF-8".into()))?
    } else {
        given.to_owned()
    };
    if prompt.trim().is_empty() {
        return Err(UsageError("the prompt is empty".into()).into());
    }
    Ok(prompt)
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("no trace at {}", path.display()))?;
    Ok(BufWriter::new(file))
}

fn write_trace(mut file: BufWriter<File>, generation: &Generation<'_>) -> anyhow::Result<()> {
    for token in generation.transcript().shown() {
        serde_json::to_writer(&mut file, token)?;
        writeln!(file)?;
    }
    file.flush().context("the trace could not be written")
}
