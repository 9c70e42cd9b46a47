//! `tandem chat`: a conversation in the terminal.

use std::{io::IsTerminal, process::ExitCode, str::FromStr};

use decode::{Message, Role, Threshold};
use models::{Environment, Home};
use rustyline::{DefaultEditor, error::ReadlineError};
use tandem::{Mode, Pair, Request, RoutingOverrides, Share, Tandem};

use crate::{
    answer::{AnswerPrinter, End},
    args::ChatArgs,
    config::note_fallback,
    show::say,
};

const HELP: &str = "/mode small|joint|large   who writes
/threshold 0..1           ask the cloud where trust is below this
/budget SHARE             at most this share of tokens from the cloud, as in 7%
/reset                    begin a new conversation
/help                     this list
/quit                     leave (Ctrl-D too); Ctrl-C stops an answer";

#[derive(Debug, PartialEq)]
enum Line {
    Say(String),
    Mode(Mode),
    Threshold(Threshold),
    Budget(Share),
    Reset,
    Help,
    Quit,
    Nothing,
    Wrong(String),
}

impl Line {
    fn parse(line: &str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() { Self::Nothing } else { Self::Say(line.into()) };
        };
        let (name, value) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, value.trim()) {
            ("mode", value) => Self::parse_value(value, Self::Mode),
            ("threshold", value) => Self::parse_value(value, Self::Threshold),
            ("budget", value) => Self::parse_value(value, Self::Budget),
            ("reset", "") => Self::Reset,
            ("help", "") => Self::Help,
            ("quit" | "exit", "") => Self::Quit,
            _ => Self::Wrong(format!("there is no command /{command}; /help lists them")),
        }
    }

    fn parse_value<T: FromStr<Err: ToString>>(value: &str, command: fn(T) -> Self) -> Self {
        value.parse().map_or_else(|error: T::Err| Self::Wrong(error.to_string()), command)
    }
}

struct Chat {
    tandem: Tandem,
    mode: Mode,
    routing: RoutingOverrides,
    messages: Vec<Message>,
    printer: AnswerPrinter,
}

pub async fn chat(args: ChatArgs) -> anyhow::Result<ExitCode> {
    let tandem = args.generate.builder()?.any_mode().build()?;
    note_fallback(&tandem);
    let mut chat = Chat {
        mode: args.generate.mode,
        routing: RoutingOverrides::default(),
        messages: vec![],
        printer: AnswerPrinter::new(&args.output)?,
        tandem,
    };
    chat.switch(chat.mode).await?;
    let mut editor = DefaultEditor::new()?;
    let history = Home::find(Environment::read())?.file("history");
    if history.exists() {
        editor.load_history(&history)?;
    }
    // A script has no use for a prompt.
    let prompt = if std::io::stdin().is_terminal() { "> " } else { "" };
    loop {
        // Reading blocks, and nothing else has to run meanwhile.
        match tokio::task::block_in_place(|| editor.readline(prompt)) {
            Ok(line) => {
                editor.add_history_entry(&line)?;
                if !chat.handle(Line::parse(&line)).await? {
                    break;
                }
            }
            // At the prompt, Ctrl-C clears the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Err(error) = editor.save_history(&history) {
        tracing::warn!(%error, "the history was not saved");
    }
    chat.tandem.close().await;
    Ok(ExitCode::SUCCESS)
}

impl Chat {
    /// `false` when the user leaves.
    async fn handle(&mut self, line: Line) -> anyhow::Result<bool> {
        match line {
            Line::Say(text) => self.answer(text).await?,
            Line::Mode(mode) => {
                if let Err(error) = self.switch(mode).await {
                    say(&format!("error: {error:#}"));
                }
            }
            Line::Threshold(threshold) => {
                let threshold = Some(threshold);
                self.routing = RoutingOverrides { threshold, ..RoutingOverrides::default() };
            }
            Line::Budget(share) => {
                let budget = Some(share.value());
                self.routing = RoutingOverrides { budget, ..RoutingOverrides::default() };
            }
            Line::Reset => self.messages.clear(),
            Line::Help => say(HELP),
            Line::Quit => return Ok(false),
            Line::Nothing => {}
            Line::Wrong(reason) => say(&reason),
        }
        Ok(true)
    }

    /// Loads what a mode needs, before it is typed for.
    async fn switch(&mut self, mode: Mode) -> anyhow::Result<()> {
        let pair = self.tandem.pair();
        if mode != Mode::Large {
            pair.load_edge().await?;
        }
        if mode != Mode::Small {
            drop(pair.open_cloud().await?);
        }
        self.mode = mode;
        Ok(())
    }

    /// An answer that is stopped or fails half-way stays in the conversation as far as it came.
    async fn answer(&mut self, text: String) -> anyhow::Result<()> {
        self.messages.push(Message::user(text));
        let request = Request::chat(self.messages.clone()).mode(self.mode);
        let mut failed = None;
        match self.tandem.generate(request.routing(self.routing.clone())).await {
            Ok(mut generation) => {
                if let End::Failed(error) = self.printer.print(&mut generation).await? {
                    failed = Some(error);
                }
                let answer = generation.transcript().text();
                if failed.is_none() || !answer.is_empty() {
                    self.messages.push(Message::assistant(answer));
                }
            }
            Err(error) => failed = Some(error),
        }
        if let Some(error) = failed {
            say(&format!("error: {error}; /reset starts a new conversation"));
        }
        // A question without an answer is as if it had not been asked.
        self.messages.pop_if(|last| last.role == Role::User);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_and_commands() {
        assert_eq!(Line::parse(" hi there "), Line::Say("hi there".into()));
        assert_eq!(Line::parse("  "), Line::Nothing);
        assert_eq!(Line::parse("/mode small"), Line::Mode(Mode::Small));
        assert_eq!(Line::parse("/threshold 0.5"), Line::Threshold(Threshold::new(0.5).unwrap()));
        assert_eq!(Line::parse("/reset"), Line::Reset);
        assert_eq!(Line::parse("/quit"), Line::Quit);
        for wrong in [
            "/mode",
            "/mode tiny",
            "/threshold 2",
            "/threshold",
            "/budget much",
            "/frobnicate",
            "/reset now",
        ] {
            assert!(matches!(Line::parse(wrong), Line::Wrong(_)), "{wrong}");
        }
    }
}
