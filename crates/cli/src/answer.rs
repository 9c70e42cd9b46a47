//! One answer, from its first token to its last line: shown, traced, summed up.

use std::{
    fs::File,
    io::{BufWriter, Write},
};

use anyhow::Context;
use decode::FinishReason;
use tandem::{Answer, Generation};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::OutputArgs,
    report,
    show::{Screen, print_json, say},
};

pub enum End {
    Whole,
    Interrupted,
    /// A model failed; what came before stands.
    Failed(tandem::Error),
}

/// Prints answers: as text or JSON on stdout, each token in the trace, the figures on stderr.
pub struct AnswerPrinter {
    screen: Option<Screen>,
    trace: Option<BufWriter<File>>,
}

impl AnswerPrinter {
    pub fn new(args: &OutputArgs) -> anyhow::Result<Self> {
        let create = |path| File::create(path).map(BufWriter::new);
        let trace = args.trace.as_ref().map(|path| {
            create(path).with_context(|| format!("the trace {} cannot be written", path.display()))
        });
        let screen = (!args.json).then(Screen::new);
        Ok(Self { screen, trace: trace.transpose()? })
    }

    /// Makes an answer to its end and prints it. An error means that nobody reads it.
    pub async fn print(&mut self, generation: &mut Generation) -> anyhow::Result<End> {
        let end = self.follow(generation).await;
        self.write_trace(generation)?;
        let end = end?;
        match &self.screen {
            Some(screen) => screen.end()?,
            None => {
                let mut answer = Answer::new(generation);
                if let (End::Failed(error), None) = (&end, &answer.summary.cloud_error) {
                    answer.summary.cloud_error = Some(error.to_string());
                }
                print_json(&answer)?;
            }
        }
        if let Some(warning) = report::warning(generation) {
            say(&format!("warning: {warning}"));
        }
        say(&report::summary(generation));
        Ok(end)
    }

    /// Shows an answer while it is made, until its end or Ctrl-C.
    async fn follow(&self, generation: &mut Generation) -> anyhow::Result<End> {
        let show = |span| self.screen.as_ref().map_or(Ok(()), |screen| screen.show(&span));
        let mut interrupts = signal(SignalKind::interrupt()).context("Ctrl-C cannot be caught")?;
        loop {
            let next = tokio::select! {
                next = generation.next() => next,
                _ = interrupts.recv() => {
                    show(generation.end(FinishReason::Cancelled))?;
                    return Ok(End::Interrupted);
                }
            };
            match next {
                Ok(Some(span)) => show(span)?,
                Ok(None) => return Ok(End::Whole),
                Err(error) => {
                    show(generation.end(FinishReason::Error))?;
                    return Ok(End::Failed(error));
                }
            }
        }
    }

    fn write_trace(&mut self, generation: &Generation) -> anyhow::Result<()> {
        let Some(file) = &mut self.trace else { return Ok(()) };
        for token in generation.transcript().shown() {
            writeln!(file, "{}", serde_json::to_string(token)?)?;
        }
        file.flush().context("the trace could not be written")
    }
}
