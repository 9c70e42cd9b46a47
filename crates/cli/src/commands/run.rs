//! `tandem run`: one prompt, one answer.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::Context;
use decode::Message;

use crate::{
    answer::{AnswerPrinter, End},
    args::RunArgs,
    config::{Generate, UsageError},
    pair::Pair,
};

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;

pub async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let prompt = read_prompt(&args.prompt)?;
    let wanted = args.generate.with_preset()?;
    let generate = Generate::new(&wanted)?;
    let mut teller = AnswerPrinter::new(&args.output)?;
    let messages = [Message::system(&generate.system), Message::user(prompt)];
    let pair = Pair::new(&wanted.edge, &wanted.cloud, &wanted.machine)?;
    let mut pair = pair.sharing(wanted.share_states);
    let mut generation = pair.begin(&generate, &messages).await?;
    let end = teller.tell(&generate, &mut generation).await?;
    drop(generation);
    pair.close().await;
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
