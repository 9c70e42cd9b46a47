//! `tandem run`: one prompt, one answer.

use std::{
    fs,
    io::{self, Read},
    path::Path,
    process::ExitCode,
};

use anyhow::Context;
use tandem::{Grammar, Request};

use crate::{
    answer::{AnswerPrinter, End},
    args::RunArgs,
    config::{UsageError, note_fallback},
};

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;

pub async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let mut request = Request::user(read_prompt(&args.prompt)?);
    if let Some(path) = &args.json_schema {
        request = request.grammar(read_schema(path)?);
    }
    let tandem = args.generate.builder()?.build()?;
    note_fallback(&tandem);
    let mut printer = AnswerPrinter::new(&args.output)?;
    let mut generation = tandem.generate(request).await?;
    let end = printer.print(&mut generation).await?;
    drop(generation);
    tandem.close().await;
    match end {
        End::Whole => Ok(ExitCode::SUCCESS),
        End::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        End::Failed(error) => Err(error.into()),
    }
}

fn read_schema(path: &Path) -> anyhow::Result<Grammar> {
    let wrong =
        |e: &dyn std::fmt::Display| UsageError(format!("--json-schema {}: {e}", path.display()));
    let text = fs::read(path).map_err(|e| wrong(&e))?;
    Ok(Grammar::JsonSchema(serde_json::from_slice(&text).map_err(|e| wrong(&e))?))
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
