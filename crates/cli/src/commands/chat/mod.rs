//! `tandem chat`: a conversation in the terminal.
//!
//! - `line`: what a line of the user means; `file`: conversations in files

mod file;
mod line;

use std::{io::IsTerminal, process::ExitCode};

use decode::{Message, Role};
use models::{Environment, Home};
use rustyline::{DefaultEditor, error::ReadlineError};
use tandem::{Mode, Pair, Request, RoutingOverrides, Tandem};

use self::{
    file::Saved,
    line::{ChatLine, HELP, Lines},
};

use crate::{
    answer::{AnswerPrinter, End},
    args::ChatArgs,
    config::note_fallback,
    show::say,
};

struct Chat {
    tandem: Tandem,
    mode: Mode,
    routing: RoutingOverrides,
    /// The system message, where it is not the usual one.
    system: Option<String>,
    messages: Vec<Message>,
    printer: AnswerPrinter,
}

pub async fn chat(args: ChatArgs) -> anyhow::Result<ExitCode> {
    let tandem = args.generate.builder()?.any_mode().build()?;
    note_fallback(&tandem);
    let mut chat = Chat {
        mode: args.generate.mode,
        routing: RoutingOverrides::default(),
        system: None,
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
    let terminal = std::io::stdin().is_terminal();
    let mut lines = Lines::default();
    loop {
        let prompt = match (terminal, lines.is_open()) {
            (false, _) => "",
            (true, false) => "> ",
            (true, true) => "… ",
        };
        // Reading blocks, and nothing else has to run meanwhile.
        match tokio::task::block_in_place(|| editor.readline(prompt)) {
            Ok(line) => {
                editor.add_history_entry(&line)?;
                let Some(text) = lines.push(&line) else { continue };
                if !chat.handle(ChatLine::parse(&text)).await? {
                    break;
                }
            }
            // At the prompt, Ctrl-C clears the line.
            Err(ReadlineError::Interrupted) => lines.clear(),
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
    async fn handle(&mut self, line: ChatLine) -> anyhow::Result<bool> {
        match line {
            ChatLine::Say(text) => self.answer(text).await?,
            ChatLine::Mode(mode) => {
                if let Err(error) = self.switch(mode).await {
                    say(&format!("error: {error:#}"));
                }
            }
            ChatLine::Threshold(threshold) => {
                let threshold = Some(threshold);
                self.routing = RoutingOverrides { threshold, ..RoutingOverrides::default() };
            }
            ChatLine::Budget(share) => {
                let budget = Some(share.value());
                self.routing = RoutingOverrides { budget, ..RoutingOverrides::default() };
            }
            ChatLine::System(system) => self.system = system,
            ChatLine::Save(path) => {
                let (system, messages) = (self.system.clone(), self.messages.clone());
                match (Saved { system, messages }).write(&path) {
                    Ok(()) => say(&format!("saved to {}", path.display())),
                    Err(error) => say(&format!("error: {error:#}")),
                }
            }
            ChatLine::Load(path) => match Saved::read(&path) {
                Ok(saved) => {
                    say(&format!("{} messages from {}", saved.messages.len(), path.display()));
                    Saved { system: self.system, messages: self.messages } = saved;
                }
                Err(error) => say(&format!("error: {error:#}")),
            },
            ChatLine::Undo => {
                let question = self.messages.iter().rposition(|m| m.role == Role::User);
                self.messages.truncate(question.unwrap_or(0));
            }
            ChatLine::Reset => self.messages.clear(),
            ChatLine::Help => say(HELP),
            ChatLine::Quit => return Ok(false),
            ChatLine::Nothing => {}
            ChatLine::Wrong(reason) => say(&reason),
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
        let system = self.system.iter().map(Message::system);
        let messages: Vec<_> = system.chain(self.messages.iter().cloned()).collect();
        let request = Request::chat(messages).mode(self.mode);
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
