//! A model on the compute thread: its context, its sequences and their jobs.

use std::{mem, time::Instant};

use decode::{Reading, Token, sampling};

use crate::{
    error::EngineError,
    job::{Job, Output, Scored, Scores, Want},
    llama::{Context, DecodeError, Entry},
};

pub(crate) struct Resident {
    context: Context,
    /// Tokens prefilled in one call.
    chunk: usize,
    /// How many tokens each sequence holds; `None` when it is free.
    lengths: Vec<Option<usize>>,
    jobs: Vec<Job>,
}

impl Resident {
    pub fn new(context: Context, chunk: usize) -> Self {
        let sizes = context.sizes();
        let chunk = chunk.clamp(1, sizes.batch);
        Self { context, chunk, lengths: vec![None; sizes.sequences], jobs: vec![] }
    }

    pub fn waiting(&self) -> usize {
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
        // Whole sequences can always be forgotten.
        let _forgotten = self.context.truncate(sequence, 0);
        if let Some(length) = self.lengths.get_mut(sequence) {
            *length = None;
        }
    }

    /// Accepts a job once its sequence is cut back to where it begins and there is room for it.
    pub fn take(&mut self, mut job: Job) {
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
            self.lengths[job.sequence] = Some(job.keep);
        }
        let (used, cells) = (self.lengths.iter().flatten().sum(), self.context.sizes().cells);
        let wanted = job.tokens.len();
        if used + wanted > cells {
            return Err(EngineError::Full { used, cells, wanted });
        }
        Ok(())
    }

    /// One chunk of prefill, then one token for every sequence that is down to its last. Returns
    /// how many sequences got an answer.
    pub fn round(&mut self) -> usize {
        self.jobs.retain(|job| !job.is_abandoned());
        self.prefill();
        self.score() + self.step()
    }

    /// Reads a chunk of tokens whose logits nobody wants, of as many sequences as it holds.
    fn prefill(&mut self) {
        let mut entries = vec![];
        let mut takes = vec![0; self.jobs.len()];
        for (job, take) in self.jobs.iter().zip(&mut takes) {
            if matches!(job.want, Want::Step { .. }) {
                *take = (job.left() - 1).min(self.chunk - entries.len());
                entries.extend(self.entries(job, *take, false));
            }
        }
        if entries.is_empty() {
            return;
        }
        let started = Instant::now();
        let result = self.context.decode(&entries, false);
        let took = started.elapsed();
        // The next round begins with another sequence.
        let mut taken = takes.into_iter();
        self.settle(result, |job| {
            let take = taken.next().unwrap_or(0);
            if take > 0 {
                job.prefill += took;
            }
            take
        });
        let turn = usize::from(self.jobs.len() > 1);
        self.jobs.rotate_left(turn);
    }

    /// Reads the last token of every step that is down to it, in one call, and answers.
    fn step(&mut self) -> usize {
        let wants_hidden = |job: &Job| matches!(job.want, Want::Step { hidden: true, .. });
        let is_ready = |job: &Job| matches!(job.want, Want::Step { .. }) && job.left() == 1;
        let (ready, rest) = mem::take(&mut self.jobs).into_iter().partition(is_ready);
        self.jobs = ready;
        let entries: Vec<_> = self.jobs.iter().flat_map(|job| self.entries(job, 1, true)).collect();
        if entries.is_empty() {
            self.jobs = rest;
            return 0;
        }
        let hidden = self.jobs.iter().any(wants_hidden);
        let started = Instant::now();
        let result = self.context.decode(&entries, hidden);
        let took = started.elapsed();
        self.settle(result, |job| {
            job.decode += took;
            1
        });
        let answered = mem::replace(&mut self.jobs, rest);
        let count = answered.len();
        for (i, job) in answered.into_iter().enumerate() {
            self.answer_step(i, job);
        }
        count
    }

    fn answer_step(&self, i: usize, job: Job) {
        let reading = self.reading(&job);
        let Want::Step { hidden, reply } = job.want else { return };
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

    /// Reads a chunk of the first continuation that is to be scored; answers it at its end.
    fn score(&mut self) -> usize {
        let Some(at) = self.jobs.iter().position(|j| matches!(j.want, Want::Score { .. })) else {
            return 0;
        };
        let rest = {
            let job = self.jobs.swap_remove(at);
            mem::replace(&mut self.jobs, vec![job])
        };
        // The last token is only judged, never read.
        let take = self.jobs[0].left().saturating_sub(1).min(self.chunk);
        let entries: Vec<_> = self.entries(&self.jobs[0], take, true).collect();
        let started = Instant::now();
        let result = if entries.is_empty() { Ok(()) } else { self.context.decode(&entries, false) };
        let took = started.elapsed();
        let first = self.jobs[0].done;
        self.settle(result, |job| {
            job.prefill += took;
            take
        });
        let Some(mut job) = self.jobs.pop() else {
            self.jobs = rest;
            return 0;
        };
        self.jobs = rest;
        if let Want::Score { scored, .. } = &mut job.want {
            let given = &job.tokens[first + 1..first + 1 + take];
            scored.extend(given.iter().enumerate().filter_map(|(i, &token)| {
                self.context.logits(i).map(|logits| judge(logits, token))
            }));
        }
        if job.left() > 1 {
            self.jobs.push(job);
            return 0;
        }
        let reading = self.reading(&job);
        if let Want::Score { scored, reply } = job.want {
            drop(reply.send(Ok(Scores { tokens: scored, reading })));
        }
        1
    }

    /// The next tokens of a job, as a batch takes them.
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

    /// Books what a call read, or fails every job that took part in it.
    fn settle(&mut self, result: Result<(), DecodeError>, mut took: impl FnMut(&mut Job) -> usize) {
        let mut failed = vec![];
        let jobs = mem::take(&mut self.jobs);
        for mut job in jobs {
            let take = took(&mut job);
            if take > 0 && result.is_err() {
                failed.push(job);
                continue;
            }
            job.done += take;
            self.lengths[job.sequence] = Some(job.keep + job.done);
            self.jobs.push(job);
        }
        if let Err(error) = result {
            for job in failed {
                self.fail(job, &error);
            }
        }
    }

    fn fail(&mut self, job: Job, error: &DecodeError) {
        // What a failed call left behind is unknown: the sequence starts again.
        let _forgotten = self.context.truncate(job.sequence, 0);
        self.lengths[job.sequence] = Some(0);
        let cells = self.context.sizes().cells;
        let error = match error {
            DecodeError::NoRoom => {
                let used = self.lengths.iter().flatten().sum();
                EngineError::Full { used, cells, wanted: job.tokens.len() }
            }
            DecodeError::Failed(reason) => EngineError::Decode { reason: reason.clone() },
        };
        job.fail(error);
    }

    /// Counted where tokens enter llama.cpp, not where we meant to send them.
    fn reading(&self, job: &Job) -> Reading {
        let tokens = self.context.passed(job.sequence) - job.passed_before;
        let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
        Reading { tokens, prefill: job.prefill, decode: job.decode }
    }
}

/// How likely a token was, and what would have been chosen.
fn judge(logits: &[f32], token: Token) -> Scored {
    let greedy = sampling::argmax(logits).unwrap_or(Token(0));
    let logprob = |t: Token| sampling::logprob(logits, t);
    Scored { greedy, greedy_logprob: logprob(greedy), logprob: logprob(token) }
}
