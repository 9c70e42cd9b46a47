//! Answers to learn from: the large model's own in the first round, then those of both models, as the
//! last router has it. Each is on disk before the next is begun.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use decode::{CloudError, FinishReason, SessionError, Threshold};
use serde::{Deserialize, Serialize};
use tandem::{Mode, NamedRouter};

use super::Tuning;
use crate::{
    Error,
    collect::{
        CollectionError,
        collection::{io_error, json_line, read_lines, repair},
    },
    eval::{Compare, Example, Task, conclusion},
    worker::{Decoding, Worker, share_work},
};

/// An answer to one of the prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Text {
    pub prompt: usize,
    pub text: String,
    /// Whether it was cut at the limit of tokens.
    pub cut: bool,
    pub tokens: usize,
    /// Of them, from the cloud.
    pub routed: usize,
}

#[derive(Clone, Debug)]
pub enum Writer {
    Large,
    Joint(NamedRouter, Threshold),
}

pub struct Texts {
    path: PathBuf,
    /// Lines of several workers must not mix.
    writing: Mutex<()>,
}

impl Texts {
    /// Opens a file, or begins one. A last line that a kill cut short is cut off.
    pub fn open(path: PathBuf) -> Result<Self, CollectionError> {
        repair(&path).map_err(|source| io_error(&path, source))?;
        Ok(Self { path, writing: Mutex::default() })
    }

    /// What is there, by prompt.
    pub fn read(&self) -> Result<BTreeMap<usize, Text>, CollectionError> {
        let lines: Vec<Text> = read_lines(&self.path)?;
        Ok(lines.into_iter().map(|text| (text.prompt, text)).collect())
    }

    pub fn add(&self, text: &Text) -> Result<(), CollectionError> {
        let line = json_line(&self.path, text)?;
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(&line));
        written.map_err(|source| io_error(&self.path, source))
    }
}

/// Has every prompt answered that has no answer yet.
pub(super) async fn write_all(
    tuning: &Arc<Tuning>,
    path: PathBuf,
    writer: Writer,
) -> Result<BTreeMap<usize, Text>, Error> {
    let texts = Arc::new(Texts::open(path)?);
    let there = texts.read()?;
    let count = tuning.config.prompts.examples.len();
    let left: Vec<usize> = (0..count).filter(|prompt| !there.contains_key(prompt)).collect();
    if left.is_empty() {
        return Ok(there);
    }
    let what = match writer {
        Writer::Large => "the large model answers",
        Writer::Joint(..) => "both models answer",
    };
    tuning.progress.begin(what, left.len());
    let mut workers = vec![];
    for _ in 0..tuning.config.parallel.min(left.len()) {
        workers.push(Worker::new(&tuning.tandem).await?);
    }
    let (shared, to) = (tuning.clone(), texts.clone());
    let act = move |mut worker: Worker, prompt: usize| {
        let (tuning, texts, writer) = (shared.clone(), to.clone(), writer.clone());
        async move {
            let text = answer(&tuning, &mut worker, prompt, &writer).await?;
            texts.add(&text)?;
            tuning.progress.step();
            Ok::<_, Error>(worker)
        }
    };
    for mut worker in share_work(workers, left, act).await? {
        worker.close().await?;
    }
    tuning.progress.end();
    Ok(texts.read()?)
}

/// One answer. Both models begin with nothing read, so that a run that resumes writes the same.
async fn answer(
    tuning: &Tuning,
    worker: &mut Worker,
    prompt: usize,
    writer: &Writer,
) -> Result<Text, Error> {
    let messages = tuning.messages(prompt)?;
    let max_tokens = tuning.config.max_tokens;
    worker.close().await?;
    let decoding = match writer {
        Writer::Large => {
            let (router, policy) = (Arc::new(router::Constant::Always), Threshold::ALWAYS.into());
            Decoding { mode: Mode::Large, router, policy, max_tokens }
        }
        Writer::Joint(router, threshold) => {
            let tokens = worker.tokens(&messages).await?;
            worker.read_alone(&tokens[..tokens.len().saturating_sub(1)]).await?;
            let (router, policy) = (Arc::from(router.build(0)), (*threshold).into());
            Decoding { mode: Mode::Joint, router, policy, max_tokens }
        }
    };
    match worker.decode(&messages, vec![], decoding).await {
        Ok(written) => {
            let stats = written.stats();
            let cut = written.finish_reason() == Some(FinishReason::Length);
            let (tokens, routed) = (stats.tokens, stats.cloud_tokens);
            Ok(Text { prompt, text: written.text(), cut, tokens, routed })
        }
        // There is nothing to learn from a prompt that the cloud cannot read, and no reason to stop.
        Err(error) if is_too_long(&error) => {
            Ok(Text { prompt, text: String::new(), cut: true, tokens: 0, routed: 0 })
        }
        Err(error) => Err(error),
    }
}

fn is_too_long(error: &Error) -> bool {
    use tandem::Error::{Cloud, Session};
    matches!(
        error,
        Error::Pair(
            Session(SessionError::Cloud(CloudError::ContextFull)) | Cloud(CloudError::ContextFull)
        ) | Error::Cloud(CloudError::ContextFull)
    )
}

/// An example to learn from. Roll-outs are judged by the right answer where one is known and the large
/// model found it, else by what the large model itself concludes with; where it concludes with
/// nothing, there are none.
pub fn reference(example: &Example, written: &Text) -> Example {
    let plain = || Task::Plain { prompt: example.prompt() };
    let task = match example.is_right(&written.text) {
        _ if written.cut => plain(),
        Some(true) => example.task.clone(),
        Some(false) => plain(),
        None => match conclusion::number(&written.text) {
            Some(number) => {
                let compare = Compare::Number(vec![number]);
                Task::Judged { prompt: example.prompt(), compare }
            }
            None => plain(),
        },
    };
    Example { id: example.id.clone(), task, worked: Some(written.text.clone()) }
}

/// An example of a text that both models wrote. What became of it is known already.
pub fn joint_text(example: &Example, written: &Text) -> Example {
    let task = Task::Plain { prompt: example.prompt() };
    Example { id: example.id.clone(), task, worked: Some(written.text.clone()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn text(prompt: usize, text: &str) -> Text {
        Text { prompt, text: text.into(), cut: false, tokens: 3, routed: 3 }
    }

    #[test]
    fn a_line_that_a_kill_cut_short_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.jsonl");
        let texts = Texts::open(path.clone()).unwrap();
        texts.add(&text(1, "one\ntwo")).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [whole.as_slice(), b"{\"prompt\": 0, \"te"].concat()).unwrap();
        let texts = Texts::open(path).unwrap();
        assert_eq!(texts.read().unwrap().keys().copied().collect::<Vec<_>>(), [1]);
        texts.add(&text(0, "zero")).unwrap();
        assert_eq!(texts.read().unwrap()[&1].text, "one\ntwo");
        assert_eq!(texts.read().unwrap()[&0], text(0, "zero"));
    }

    #[test]
    fn roll_outs_are_judged_by_what_is_known() {
        let plain =
            Example { id: "x".into(), task: Task::Plain { prompt: "Count.".into() }, worked: None };
        let maths = |answer: &str| Example {
            task: Task::Maths { problem: "Count.".into(), answer: answer.into() },
            ..plain.clone()
        };
        let written = text(0, "So the answer is \\boxed{7}.");
        // The large model found the right answer, or another one.
        assert_eq!(reference(&maths("7"), &written).is_right("\\boxed{7}"), Some(true));
        assert_eq!(reference(&maths("8"), &written).is_right("\\boxed{7}"), None);
        // Nobody said what is right: its own ending counts.
        assert_eq!(reference(&plain, &written).is_right("\\boxed{7}"), Some(true));
        assert_eq!(reference(&plain, &written).is_right("\\boxed{9}"), Some(false));
        assert_eq!(reference(&plain, &text(0, "A poem.")).is_right("x"), None);
        let cut = Text { cut: true, ..written };
        assert_eq!(reference(&maths("7"), &cut).is_right("\\boxed{7}"), None);
        // The prompt stays the same whatever it is judged by.
        assert_eq!(reference(&maths("8"), &cut).prompt(), maths("8").prompt());
    }
}
