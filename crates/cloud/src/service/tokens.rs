//! From texts to tokens: short ones at once, long ones on a thread of their own.
//!
//! A server has one or two threads for all its connections. A long text on one of them would keep
//! everybody waiting, and many at once would take all memory: only so many are tokenized at the same
//! time, only so many wait, and what cannot fit the context is refused by its length.

use std::sync::Arc;

use decode::Token;
use engine::Model;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    Service, ServiceError,
    conversation::{Conversation, known},
    sessions::Session,
};
use crate::protocol::{Piece, Prefix, Prompt};

/// Texts up to this many bytes take less time than handing them to another thread is worth.
const SHORT_TEXT: usize = 4 << 10;

/// Long texts that are tokenized, and grammars that are compiled, at the same time; and those that may
/// wait for it.
const MOST_AT_ONCE: usize = 2;
const MOST_WAITING: usize = 32;

/// Who may tokenize a long text. Who may compile a grammar is known in the same way.
pub(crate) struct Tokenizing {
    waiting: Semaphore,
    running: Arc<Semaphore>,
}

impl Default for Tokenizing {
    fn default() -> Self {
        let running = Arc::new(Semaphore::new(MOST_AT_ONCE));
        Self { waiting: Semaphore::new(MOST_AT_ONCE + MOST_WAITING), running }
    }
}

impl Tokenizing {
    /// Does what takes long, on a thread of its own, when it is its turn. Whoever goes away while it
    /// waits costs nothing more.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let _place = self.waiting.try_acquire().map_err(|_| ServiceError::Busy)?;
        let turn = self.running.clone().acquire_owned().await;
        let turn = turn.map_err(|e| ServiceError::internal(&e))?;
        let done = spawn_blocking(move || {
            let result = work();
            drop(turn);
            result
        });
        done.await.map_err(|e| ServiceError::internal(&e))?
    }
}

impl Service {
    /// The tokens of a prompt.
    pub(super) async fn prompt(
        &self,
        model: &Model,
        prompt: Prompt,
    ) -> Result<Vec<Token>, ServiceError> {
        let bytes = check_size(model, &prompt)?;
        if bytes <= SHORT_TEXT {
            return tokens(model, &prompt);
        }
        let model = model.clone();
        self.tokenizing.run(move || tokens(&model, &prompt)).await
    }

    /// Brings a session to where its caller is.
    pub(super) async fn advance(
        &self,
        session: &mut Session,
        prefix: &Prefix,
        append: &Piece,
    ) -> Result<(), ServiceError> {
        let model = session.sequence.model();
        let (vocabulary, limit) = (model.vocabulary().clone(), model.context());
        if length(append) <= SHORT_TEXT {
            return session.conversation.advance(vocabulary.as_ref(), prefix, append, limit);
        }
        // On a copy: a caller that goes away must leave the session as it was.
        let mut conversation = session.conversation.clone();
        let (prefix, append) = (prefix.clone(), append.clone());
        let advance = move || {
            conversation.advance(vocabulary.as_ref(), &prefix, &append, limit)?;
            Ok(conversation)
        };
        session.conversation = self.tokenizing.run(advance).await?;
        Ok(())
    }

    /// A continuation's tokens, without accepting it.
    pub(super) async fn continuation(
        &self,
        model: &Model,
        conversation: &Conversation,
        piece: Piece,
    ) -> Result<Vec<Token>, ServiceError> {
        let vocabulary = model.vocabulary().clone();
        if length(&piece) <= SHORT_TEXT {
            return conversation.encode(vocabulary.as_ref(), &piece);
        }
        let empty = Conversation::new(conversation.exchange, vec![]);
        self.tokenizing.run(move || empty.encode(vocabulary.as_ref(), &piece)).await
    }
}

/// The bytes of text in a piece; ids are not tokenized.
fn length(piece: &Piece) -> usize {
    match piece {
        Piece::Ids(_) => 0,
        Piece::Text(text) => text.len(),
    }
}

/// Refuses a piece that cannot fit, whatever its tokens are. That takes no session, so none is waited
/// for with it.
pub(super) fn check_piece(model: &Model, piece: &Piece) -> Result<(), ServiceError> {
    let context = model.context();
    match piece {
        Piece::Ids(ids) => fits(ids.len(), context),
        Piece::Text(text) if text.len() <= context => Ok(()),
        Piece::Text(text) => fits(text.len().div_ceil(model.vocabulary().longest_token()), context),
    }
}

/// Refuses a prompt that cannot fit, whatever its tokens are; otherwise the bytes of its text.
fn check_size(model: &Model, prompt: &Prompt) -> Result<usize, ServiceError> {
    let (parts, bytes) = match prompt {
        Prompt::Messages(messages) => {
            (messages.len(), messages.iter().map(|m| m.content.len()).sum())
        }
        Prompt::Text(text) => (1, text.len()),
        Prompt::Tokens(ids) => (ids.len(), 0),
    };
    let context = model.context();
    let longest = if bytes > context { model.vocabulary().longest_token() } else { usize::MAX };
    fits(parts.max(bytes.div_ceil(longest)), context)?;
    Ok(bytes)
}

fn fits(tokens: usize, context: usize) -> Result<(), ServiceError> {
    match tokens > context {
        true => Err(ServiceError::ContextFull { tokens, context }),
        false => Ok(()),
    }
}

fn tokens(model: &Model, prompt: &Prompt) -> Result<Vec<Token>, ServiceError> {
    let vocabulary = model.vocabulary();
    match prompt {
        Prompt::Messages(messages) if messages.is_empty() => Ok(vec![]),
        Prompt::Messages(messages) => Ok(vocabulary.prompt(messages)?),
        Prompt::Text(text) => Ok(vocabulary.raw_prompt(text)?),
        Prompt::Tokens(ids) => known(vocabulary.as_ref(), ids).map(|()| ids.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn few_at_once_few_wait_and_whoever_goes_is_not_served() {
        let tokenizing = Arc::new(Tokenizing::default());
        let (running, most, done) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
        );
        let start = || {
            let (running, most, done) = (running.clone(), most.clone(), done.clone());
            let tokenizing = tokenizing.clone();
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(100));
                    running.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                tokenizing.run(work).await
            })
        };
        let tasks: Vec<_> = (0..MOST_AT_ONCE + MOST_WAITING + 5).map(|_| start()).collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        // All but those that run now go away.
        for task in &tasks[MOST_AT_ONCE..] {
            task.abort();
        }
        let mut busy = 0;
        for task in tasks {
            busy += usize::from(matches!(task.await, Ok(Err(ServiceError::Busy))));
        }
        assert_eq!(busy, 5);
        assert_eq!(most.load(Ordering::SeqCst), MOST_AT_ONCE);
        assert_eq!(done.load(Ordering::SeqCst), MOST_AT_ONCE);
    }
}
