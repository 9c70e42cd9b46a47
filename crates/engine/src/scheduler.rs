//! Batches the jobs of one model's sequences into calls of its context, on the compute thread.

use std::{mem, time::Instant};

use decode::{Reading, Token, sampling};

use crate::{
    context::{Context, DecodeError, Entry},
    error::EngineError,
    job::{Job, JobKind, Output, Scored, Scores},
};

pub(crate) struct BatchScheduler {
    context: Box<dyn Context>,
    /// Tokens prefilled in one call.
    chunk: usize,
    /// How many tokens each sequence holds; `None` when it is free.
    lengths: Vec<Option<usize>>,
    /// With which other it shares the cells of how many of them, if it was forked.
    shared: Vec<Option<Shared>>,
    jobs: Vec<Job>,
}

impl BatchScheduler {
    pub fn new(context: Box<dyn Context>, chunk: usize) -> Self {
        let sizes = context.sizes();
        let chunk = chunk.clamp(1, sizes.batch);
        let (lengths, shared) = (vec![None; sizes.sequences], vec![None; sizes.sequences]);
        Self { context, chunk, lengths, shared, jobs: vec![] }
    }

    pub fn queued(&self) -> usize {
        self.jobs.len()
    }

    pub fn open(&mut self) -> Result<usize, EngineError> {
        let sequences = self.lengths.len();
        let free = self.lengths.iter().position(Option::is_none);
        let sequence = free.ok_or(EngineError::NoSequence { sequences })?;
        self.lengths[sequence] = Some(0);
        Ok(sequence)
    }

    pub fn close(&mut self, sequence: usize) {
        // Emptying a sequence never fails.
        let _forgotten = self.context.truncate(sequence, 0);
        self.shorten(sequence, 0);
        if let Some(length) = self.lengths.get_mut(sequence) {
            *length = None;
        }
    }

    /// Opens a sequence that begins with the first `keep` tokens of another and shares their cells;
    /// `None` where there is no free one, or the engine cannot.
    pub fn fork(&mut self, from: usize, keep: usize) -> Option<usize> {
        let length = self.lengths.get(from).copied().flatten()?;
        let to = self.lengths.iter().position(Option::is_none)?;
        if keep == 0 || keep > length || !self.context.share(from, to, keep) {
            return None;
        }
        self.lengths[to] = Some(keep);
        self.shared[to] = Some(Shared { with: from, tokens: keep });
        Some(to)
    }

    /// Notes that a sequence holds only so many tokens now, which bounds what it shares.
    fn shorten(&mut self, sequence: usize, keep: usize) {
        if let Some(length) = self.lengths.get_mut(sequence) {
            *length = length.map(|length| length.min(keep));
        }
        for (other, shared) in self.shared.iter_mut().enumerate() {
            if let Some(shared) =
                shared.as_mut().filter(|s| other == sequence || s.with == sequence)
            {
                shared.tokens = shared.tokens.min(keep);
            }
            *shared = shared.filter(|shared| shared.tokens > 0);
        }
    }

    /// How many cells hold tokens: those that sequences share count once.
    fn used(&self) -> usize {
        let shared: usize = self.shared.iter().flatten().map(|shared| shared.tokens).sum();
        self.lengths.iter().flatten().sum::<usize>().saturating_sub(shared)
    }

    /// Queues a job, after truncating its sequence to where the job begins and checking that there
    /// is room for it.
    pub fn submit(&mut self, mut job: Job) {
        match self.prepare(&job) {
            Ok(()) => {
                job.passed_before = self.context.passed(job.sequence);
                self.jobs.push(job);
            }
            Err(error) => job.fail(error),
        }
    }

    fn prepare(&mut self, job: &Job) -> Result<(), EngineError> {
        let length = self.lengths.get(job.sequence).copied().flatten();
        let length = length.ok_or(EngineError::Stopped)?;
        if job.tokens.is_empty() || job.keep > length {
            return Err(EngineError::NothingToRead);
        }
        if job.keep < length {
            if !self.context.truncate(job.sequence, job.keep) {
                return Err(EngineError::CannotTruncate);
            }
            self.shorten(job.sequence, job.keep);
        }
        // Room that queued jobs will need counts as used.
        let queued = self.jobs.iter().filter(|job| !job.is_abandoned());
        let reserved: usize = queued.map(Job::left).sum();
        let used = self.used() + reserved;
        let (wanted, cells) = (job.tokens.len(), self.context.sizes().cells);
        if used + wanted > cells {
            return Err(EngineError::Full { used, cells, wanted });
        }
        Ok(())
    }

    /// One chunk of tokens, then the last token of every sequence whose hidden state is wanted.
    /// Returns how many sequences got an answer.
    pub fn round(&mut self) -> usize {
        self.jobs.retain(|job| !job.is_abandoned());
        self.read_chunk()
            + self.read_each(|kind| matches!(kind, JobKind::Score { .. }))
            + self.read_each(|kind| matches!(kind, JobKind::Steps { .. }))
            + self.read_hidden()
    }

    /// Reads a chunk from as many sequences as fit into it. Where hidden states can only be switched
    /// on for a whole batch, the last token of the sequences that want one is left for
    /// [`read_hidden`](Self::read_hidden), because computing one for every token is expensive.
    fn read_chunk(&mut self) -> usize {
        let own_call = self.context.hidden_needs_own_call();
        let mut entries = vec![];
        let mut parts = vec![];
        for job in &self.jobs {
            let readable = match job.kind {
                JobKind::Step { hidden, .. } => job.left() - usize::from(hidden && own_call),
                JobKind::Steps { .. } | JobKind::Score { .. } => 0,
            };
            let take = readable.min(self.chunk.saturating_sub(entries.len()));
            entries.extend(self.entries(job, take, false));
            let finishes = take > 0 && take == job.left();
            if let Some(last) = entries.last_mut().filter(|_| finishes) {
                last.output = true;
            }
            let output = finishes.then(|| entries.len() - 1);
            parts.push(BatchPart { take, output });
        }
        let answered = self.read(&entries, false, parts);
        // The next round begins with another sequence, so that none starves the others.
        let turn = usize::from(self.jobs.len() > 1);
        self.jobs.rotate_left(turn);
        answered
    }

    /// Reads the last token of every sequence that wants its hidden state, in one call. The entries
    /// are in the order of the sequences, because llama.cpp computes neighbours together.
    fn read_hidden(&mut self) -> usize {
        let mut entries = vec![];
        let mut parts = vec![BatchPart::default(); self.jobs.len()];
        let mut ordered: Vec<_> = self.jobs.iter().zip(&mut parts).collect();
        ordered.sort_by_key(|(job, _)| job.sequence);
        for (job, part) in ordered {
            let ready = matches!(job.kind, JobKind::Step { hidden: true, .. }) && job.left() == 1;
            let take = usize::from(ready && entries.len() < self.context.sizes().batch);
            entries.extend(self.entries(job, take, true));
            let output = (take > 0).then(|| entries.len() - 1);
            *part = BatchPart { take, output };
        }
        self.read(&entries, true, parts)
    }

    /// Passes a batch to the model, updates the jobs that had a part in it and answers those that
    /// are done.
    fn read(&mut self, entries: &[Entry], hidden: bool, parts: Vec<BatchPart>) -> usize {
        if entries.is_empty() {
            return 0;
        }
        let started = Instant::now();
        let result = self.context.decode(entries, hidden);
        let took = started.elapsed();
        let mut answered = 0;
        for (mut job, part) in mem::take(&mut self.jobs).into_iter().zip(parts) {
            if part.take == 0 {
                self.jobs.push(job);
                continue;
            }
            if let Err(error) = &result {
                self.fail(job, error);
                continue;
            }
            job.done += part.take;
            self.lengths[job.sequence] = Some(job.keep + job.done);
            if part.take == 1 && part.output.is_some() {
                job.decode += took;
            } else {
                job.prefill += took;
            }
            match part.output {
                Some(output) => {
                    self.answer_step(output, job);
                    answered += 1;
                }
                None => self.jobs.push(job),
            }
        }
        answered
    }

    fn answer_step(&self, i: usize, job: Job) {
        let reading = self.reading(&job);
        let JobKind::Step { hidden, reply } = job.kind else { return };
        let logits = self.context.logits(i);
        let state = if hidden { self.context.hidden(i) } else { Some(&[][..]) };
        let output = match (logits, state) {
            (Some(logits), Some(state)) => Ok(Output {
                position: job.keep + job.tokens.len(),
                logits: logits.to_vec(),
                hidden: state.to_vec(),
                reading,
            }),
            _ => Err(EngineError::Decode { reason: "no output for a token that was read".into() }),
        };
        // A caller that has gone away needs no answer.
        drop(reply.send(output));
    }

    /// Reads a chunk of the first job of this kind, which wants something of every token; answers it
    /// at its end.
    fn read_each(&mut self, kind: fn(&JobKind) -> bool) -> usize {
        let Some(at) = self.jobs.iter().position(|job| kind(&job.kind)) else { return 0 };
        let mut job = self.jobs.swap_remove(at);
        // The last token of a continuation is only scored, never read.
        let scores = matches!(job.kind, JobKind::Score { .. });
        let unread = usize::from(scores);
        let take = job.left().saturating_sub(unread).min(self.chunk);
        if take > 0 {
            let entries: Vec<_> = self.entries(&job, take, true).collect();
            let started = Instant::now();
            if let Err(error) = self.context.decode(&entries, !scores) {
                self.fail(job, &error);
                return 0;
            }
            job.prefill += started.elapsed();
            self.collect(&mut job, &entries);
            job.done += take;
            self.lengths[job.sequence] = Some(job.keep + job.done);
        }
        if job.left() > unread {
            self.jobs.push(job);
            return 0;
        }
        let reading = self.reading(&job);
        match job.kind {
            JobKind::Score { scored, reply } => {
                drop(reply.send(Ok(Scores { tokens: scored, reading })));
            }
            JobKind::Steps { outputs, reply } => {
                let whole = outputs.len() == job.tokens.len();
                let missing =
                    || EngineError::Decode { reason: "a token without its output".into() };
                drop(reply.send(whole.then_some(outputs).ok_or_else(missing)));
            }
            JobKind::Step { .. } => {}
        }
        1
    }

    /// Keeps what the batch gave for each of a job's tokens.
    fn collect(&self, job: &mut Job, entries: &[Entry]) {
        match &mut job.kind {
            JobKind::Score { scored, .. } => {
                let given = job.tokens[job.done + 1..].iter().take(entries.len());
                scored.extend(given.enumerate().filter_map(|(i, &token)| {
                    self.context.logits(i).map(|logits| score_token(logits, token))
                }));
            }
            JobKind::Steps { outputs, .. } => {
                outputs.extend(entries.iter().enumerate().filter_map(|(i, entry)| {
                    Some(Output {
                        position: entry.position + 1,
                        logits: self.context.logits(i)?.to_vec(),
                        hidden: self.context.hidden(i)?.to_vec(),
                        reading: Reading { tokens: 1, ..Reading::default() },
                    })
                }));
            }
            JobKind::Step { .. } => {}
        }
    }

    /// The next tokens of a job as entries of a batch.
    fn entries(&self, job: &Job, take: usize, output: bool) -> impl Iterator<Item = Entry> + use<> {
        let (sequence, begin) = (job.sequence, job.keep + job.done);
        let tokens = job.tokens[job.done..job.done + take].to_vec();
        (begin..).zip(tokens).map(move |(position, token)| Entry {
            token,
            position,
            sequence,
            output,
        })
    }

    fn fail(&mut self, job: Job, error: &DecodeError) {
        let error = match error {
            // Nothing was read.
            DecodeError::NoRoom => {
                let used = self.used();
                let (wanted, cells) = (job.left(), self.context.sizes().cells);
                EngineError::Full { used, cells, wanted }
            }
            // What the cache holds now is unknown, so the sequence is emptied.
            DecodeError::Failed(reason) => {
                let _forgotten = self.context.truncate(job.sequence, 0);
                self.shorten(job.sequence, 0);
                EngineError::Decode { reason: reason.clone() }
            }
        };
        job.fail(error);
    }

    /// Counts tokens where they enter the engine, not where somebody meant to send them.
    fn reading(&self, job: &Job) -> Reading {
        let tokens = self.context.passed(job.sequence) - job.passed_before;
        let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
        Reading { tokens, prefill: job.prefill, decode: job.decode }
    }
}

/// What a forked sequence shares with another.
#[derive(Clone, Copy)]
struct Shared {
    with: usize,
    /// How many tokens, from the first.
    tokens: usize,
}

/// A job's part of a batch.
#[derive(Clone, Default)]
struct BatchPart {
    /// How many of the job's tokens are in the batch.
    take: usize,
    /// The entry that gives the job's answer.
    output: Option<usize>,
}

fn score_token(logits: &[f32], token: Token) -> Scored {
    let greedy = sampling::argmax(logits).unwrap_or(Token(0));
    let logprob = |t: Token| sampling::logprob(logits, t);
    Scored { greedy, greedy_logprob: logprob(greedy), logprob: logprob(token) }
}
