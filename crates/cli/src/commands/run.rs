//! `tandem run`: one prompt, one answer.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::Context;

use crate::{
    answer::{AnswerPrinter, End},
    args::RunArgs,
    config::{UsageError, note_fallback},
};

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;

pub async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let prompt = read_prompt(&args.prompt)?;
    let tandem = args.generate.builder()?.build()?;
    note_fallback(&tandem);
    let mut printer = AnswerPrinter::new(&args.output)?;
    let mut generation = tandem.generate(prompt).await?;
    let end = printer.print(&mut generation).await?;
    drop(generation);
    tandem.close().await;
    match end {
        End::Whole => Ok(ExitCode::SUCCESS),
        End::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        End::Failed(error) => Err(error.into()),
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
