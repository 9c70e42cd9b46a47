//! The compute thread: it owns every model of the process and batches their sequences.
//!
//! One thread for all, because two OpenMP teams on the same cores fight. Work comes over a channel
//! and is done in rounds: in each, a model reads one chunk of what is to be prefilled and then one
//! token for every sequence that is down to its last. A caller that has gone away is noticed
//! between rounds, so a cancelled prefill stops within a chunk.
//!
//! A mistake of ours that ends the thread is told to whoever waits for [`Compute::failure`]: a server
//! without its models must not look alive.

use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};

use crate::{
    error::EngineError,
    job::Job,
    model::{Engine, LoadOptions, LoadedModel},
    scheduler::BatchScheduler,
    weights::LoadedWeights,
};

/// How long a round waits for sequences that took part in the last one: long enough for a caller to
/// choose its token, and short compared with any step.
const BATCH_WAIT: Duration = Duration::from_micros(800);

pub(crate) type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

/// What the thread is asked to do. The channel needs no bound: a sequence has at most one job under
/// way, so it never holds more than the sequences can send.
pub(crate) enum Command {
    Load {
        options: LoadOptions,
        owner: Compute,
        reply: Reply<LoadedModel>,
    },
    Open {
        model: usize,
        owner: Compute,
        reply: Reply<SequenceSlot>,
    },
    Fork {
        model: usize,
        sequence: usize,
        keep: usize,
        owner: Compute,
        reply: Reply<Option<SequenceSlot>>,
    },
    Run {
        model: usize,
        job: Job,
    },
    Close {
        model: usize,
        sequence: usize,
    },
    Unload {
        model: usize,
    },
    Work(Box<dyn FnOnce() + Send>),
}

/// A handle to the compute thread, which ends when the last handle is gone.
#[derive(Clone)]
pub struct Compute {
    thread: Arc<ComputeThread>,
}

struct ComputeThread {
    /// `None` once the thread is being stopped.
    commands: Option<Sender<Command>>,
    handle: Option<JoinHandle<()>>,
    /// Why the thread ended before its time.
    failure: watch::Receiver<Option<String>>,
}

impl Drop for ComputeThread {
    /// Waits for the round under way: a process must not end while an engine computes.
    fn drop(&mut self) {
        self.commands = None;
        // The last handle may be dropped on the thread itself, which cannot wait for its own end.
        if let Some(handle) = self.handle.take()
            && handle.thread().id() != thread::current().id()
        {
            drop(handle.join());
        }
    }
}

impl Compute {
    pub fn start() -> std::io::Result<Self> {
        Self::start_with(HashMap::new())
    }

    fn start_with(schedulers: HashMap<usize, BatchScheduler>) -> std::io::Result<Self> {
        let (commands, inbox) = channel();
        let (failed, failure) = watch::channel(None);
        let next_model = schedulers.len();
        let weights = LoadedWeights::default();
        let worker = Worker { inbox, schedulers, weights, next_model, batched: 0 };
        let handle = thread::Builder::new().name("compute".into()).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker.run())) {
                let reason = words(panic.as_ref());
                tracing::error!(reason, "the compute thread failed");
                failed.send_replace(Some(reason));
            }
        })?;
        let thread = ComputeThread { commands: Some(commands), handle: Some(handle), failure };
        Ok(Self { thread: Arc::new(thread) })
    }

    /// Waits until the thread has failed, and says why: from then on no model can be used.
    pub async fn failure(&self) -> String {
        let mut failure = self.thread.failure.clone();
        let failed = failure.wait_for(Option::is_some).await;
        match failed.ok().and_then(|reason| reason.clone()) {
            Some(reason) => reason,
            // It ended because nobody needs it any more.
            None => std::future::pending().await,
        }
    }

    /// Whether the thread has failed.
    pub fn has_failed(&self) -> bool {
        self.thread.failure.borrow().is_some()
    }

    /// Runs other work on the thread, between rounds. Everything that computes with llama.cpp
    /// belongs there: a second OpenMP team in the process would slow both to a third.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.ask(|reply| Command::Work(Box::new(move || drop(reply.send(Ok(work())))))).await
    }

    /// Sends a command; one sent to a thread that has stopped is dropped, and so is its reply.
    pub(crate) fn send(&self, command: Command) {
        if let Some(commands) = &self.thread.commands {
            drop(commands.send(command));
        }
    }

    /// Sends a command that carries a reply channel, and waits for the reply.
    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply));
        answer.await.unwrap_or(Err(EngineError::Stopped))
    }
}

/// Keeps a model loaded: dropping it unloads the model.
pub(crate) struct ModelHandle {
    pub compute: Compute,
    pub model: usize,
}

impl Drop for ModelHandle {
    fn drop(&mut self) {
        self.compute.send(Command::Unload { model: self.model });
    }
}

/// Keeps a sequence of a model's cache reserved: dropping it frees the sequence.
pub(crate) struct SequenceSlot {
    pub compute: Compute,
    pub model: usize,
    pub sequence: usize,
}

impl Drop for SequenceSlot {
    fn drop(&mut self) {
        let (model, sequence) = (self.model, self.sequence);
        self.compute.send(Command::Close { model, sequence });
    }
}

struct Worker {
    inbox: Receiver<Command>,
    schedulers: HashMap<usize, BatchScheduler>,
    /// Models with the same file share what is read from it.
    weights: LoadedWeights,
    next_model: usize,
    /// How many sequences were answered in the last round.
    batched: usize,
}

impl Worker {
    fn run(mut self) {
        while self.receive() {
            self.batched = self.schedulers.values_mut().map(BatchScheduler::round).sum();
        }
    }

    /// Handles commands until there is work; `false` when no sender is left.
    fn receive(&mut self) -> bool {
        if self.queued() == 0 {
            match self.inbox.recv() {
                Ok(command) => self.handle(command),
                Err(_) => return false,
            }
        }
        while let Ok(command) = self.inbox.try_recv() {
            self.handle(command);
        }
        self.wait_for_batch();
        true
    }

    /// Sequences that decode side by side come back one after the other; a batch of all of them
    /// is worth a short wait.
    fn wait_for_batch(&mut self) {
        let until = Instant::now() + BATCH_WAIT;
        while self.batched > 1 && self.queued() > 0 && self.queued() < self.batched {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(command) => self.handle(command),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn queued(&self) -> usize {
        self.schedulers.values().map(BatchScheduler::queued).sum()
    }

    fn handle(&mut self, command: Command) {
        match command {
            // If the caller has gone away, dropping the reply also frees what it owns.
            Command::Load { options, owner, reply } => {
                drop(reply.send(self.load(&options, owner)));
            }
            Command::Open { model, owner, reply } => {
                let opened = match self.schedulers.get_mut(&model) {
                    Some(scheduler) => scheduler.open(),
                    None => Err(EngineError::Stopped),
                };
                let slot = |sequence| SequenceSlot { compute: owner, model, sequence };
                drop(reply.send(opened.map(slot)));
            }
            Command::Fork { model, sequence, keep, owner, reply } => {
                let scheduler = self.schedulers.get_mut(&model);
                let forked = scheduler.and_then(|scheduler| scheduler.fork(sequence, keep));
                let slot = |sequence| SequenceSlot { compute: owner, model, sequence };
                drop(reply.send(Ok(forked.map(slot))));
            }
            Command::Run { model, job } => match self.schedulers.get_mut(&model) {
                Some(scheduler) => scheduler.submit(job),
                None => job.fail(EngineError::Stopped),
            },
            Command::Close { model, sequence } => {
                if let Some(scheduler) = self.schedulers.get_mut(&model) {
                    scheduler.close(sequence);
                }
            }
            Command::Unload { model } => drop(self.schedulers.remove(&model)),
            // The mistake of one caller is not the end of the others: its reply is dropped.
            Command::Work(work) => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                    tracing::error!(reason = words(panic.as_ref()), "work failed");
                }
            }
        }
    }

    fn load(&mut self, options: &LoadOptions, owner: Compute) -> Result<LoadedModel, EngineError> {
        let Engine { context, vocabulary, info } = options.load(&mut self.weights)?;
        let id = self.next_model;
        self.next_model += 1;
        self.schedulers.insert(id, BatchScheduler::new(context, options.chunk));
        let handle = ModelHandle { compute: owner, model: id };
        Ok(LoadedModel { handle, vocabulary: Arc::new(vocabulary), info })
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use decode::Token;

    use super::*;
    use crate::{
        context::{Context, DecodeError, Entry, Sizes},
        job::JobKind,
    };

    /// A model with a mistake in it.
    struct Broken;

    impl Context for Broken {
        fn sizes(&self) -> Sizes {
            Sizes { cells: 8, sequences: 1, separate: true, batch: 8, threads: 1 }
        }

        fn passed(&self, _: usize) -> u64 {
            0
        }

        fn decode(&mut self, _: &[Entry], _: bool) -> Result<(), DecodeError> {
            panic!("index out of bounds")
        }

        fn hidden_needs_own_call(&self) -> bool {
            false
        }

        fn logits(&self, _: usize) -> Option<&[f32]> {
            None
        }

        fn hidden(&self, _: usize) -> Option<&[f32]> {
            None
        }

        fn truncate(&mut self, _: usize, _: usize) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_thread_that_fails_says_so() {
        let schedulers = HashMap::from([(0, BatchScheduler::new(Box::new(Broken), 4))]);
        let compute = Compute::start_with(schedulers).unwrap();
        assert!(!compute.has_failed());
        let owner = compute.clone();
        let open = compute.ask(|reply| Command::Open { model: 0, owner, reply }).await;
        let slot = open.unwrap();
        let step = |reply| {
            let kind = JobKind::Step { hidden: false, reply };
            Command::Run { model: 0, job: Job::new(slot.sequence, 0, vec![Token(1)], kind) }
        };
        assert!(matches!(compute.ask(step).await, Err(EngineError::Stopped)));
        assert_eq!(compute.failure().await, "index out of bounds");
        assert!(compute.has_failed());
        // Nobody waits for an answer that cannot come.
        assert!(matches!(compute.ask(step).await, Err(EngineError::Stopped)));
    }

    #[tokio::test]
    async fn work_that_fails_ends_nothing_but_itself() {
        let compute = Compute::start().unwrap();
        let failed = compute.work(|| panic!("a mistake")).await;
        assert!(matches!(failed, Err::<(), _>(EngineError::Stopped)));
        assert_eq!(compute.work(|| 7).await.unwrap(), 7);
        assert!(!compute.has_failed());
    }
}
