//! llama.cpp's context: the caches of a model's sequences, and computing with them.

use std::{ptr::NonNull, slice, sync::Arc};

use llama_cpp_sys_2 as sys;

use super::{LOGGED_ERRORS, Model, guard, logged_error, start};
use crate::{
    context::{self, DecodeError, Entry, Sizes},
    vocabulary::Tokenizer as _,
};

pub struct Context {
    context: NonNull<sys::llama_context>,
    model: Arc<Model>,
    batch: sys::llama_batch,
    sizes: Sizes,
    /// Tokens passed to `llama_decode` for each sequence since the context was made.
    passed: Vec<u64>,
    /// Which entries of the last batch have outputs, and whether hidden states were read.
    outputs: Vec<bool>,
    hidden: bool,
}

// SAFETY: a context may move between threads, and is used by one at a time.
unsafe impl Send for Context {}

impl Context {
    /// Allocates caches of these sizes.
    pub fn new(model: Arc<Model>, sizes: Sizes) -> Result<Self, String> {
        start()?;
        let number = |n: usize| u32::try_from(n).map_err(|_| format!("{n} is too large"));
        let threads = i32::try_from(sizes.threads).map_err(|_| "too many threads".to_owned())?;
        let batch = sizes.batch.max(sizes.sequences);
        // SAFETY: the model is alive and stays so: its `Arc` is kept beside the context.
        let context = unsafe {
            let mut params = sys::llama_context_default_params();
            params.n_ctx = number(sizes.cells)?;
            params.n_batch = number(batch)?;
            params.n_ubatch = number(batch)?;
            params.n_seq_max = number(sizes.sequences)?;
            params.n_threads = threads;
            params.n_threads_batch = threads;
            params.pooling_type = sys::LLAMA_POOLING_TYPE_NONE;
            params.kv_unified = !sizes.separate;
            params.no_perf = true;
            NonNull::new(sys::llama_init_from_model(model.pointer(), params))
                .ok_or_else(logged_error)?
        };
        let tokens = i32::try_from(batch).map_err(|_| "the batch is too large".to_owned())?;
        let context = Self {
            context,
            // SAFETY: plain allocation of arrays for that many tokens of one sequence each.
            batch: unsafe { sys::llama_batch_init(tokens, 0, 1) },
            sizes: Sizes { batch, ..sizes },
            passed: vec![0; sizes.sequences],
            outputs: vec![],
            hidden: false,
            model,
        };
        context.use_adapters()?;
        Ok(context)
    }

    fn use_adapters(&self) -> Result<(), String> {
        if self.model.adapters.is_empty() {
            return Ok(());
        }
        let (mut adapters, mut scales): (Vec<_>, Vec<_>) =
            self.model.adapters.iter().map(|&(a, scale)| (a.as_ptr(), scale)).unzip();
        // SAFETY: both arrays have this length; adapters live as long as the model.
        let result = unsafe {
            sys::llama_set_adapters_lora(
                self.context.as_ptr(),
                adapters.as_mut_ptr(),
                adapters.len(),
                scales.as_mut_ptr(),
            )
        };
        if result == 0 { Ok(()) } else { Err(logged_error()) }
    }

    fn set(&mut self, i: usize, entry: &Entry, output: bool) -> Result<(), DecodeError> {
        let failed = |what: String| DecodeError::Failed(what);
        let id = self.model.id(entry.token);
        let id =
            id.ok_or_else(|| failed(format!("token {} is not in the vocabulary", entry.token.0)))?;
        let position = i32::try_from(entry.position).map_err(|e| failed(e.to_string()))?;
        if entry.sequence >= self.sizes.sequences {
            return Err(failed(format!("there is no sequence {}", entry.sequence)));
        }
        let sequence = i32::try_from(entry.sequence).map_err(|e| failed(e.to_string()))?;
        // SAFETY: `i` is below the batch's size, which is what the arrays were allocated for, each
        // with room for one sequence id.
        unsafe {
            *self.batch.token.add(i) = id;
            *self.batch.pos.add(i) = position;
            *self.batch.n_seq_id.add(i) = 1;
            **self.batch.seq_id.add(i) = sequence;
            *self.batch.logits.add(i) = i8::from(output);
        }
        Ok(())
    }

    fn output(&self, i: usize) -> Option<i32> {
        self.outputs.get(i).filter(|&&output| output)?;
        i32::try_from(i).ok()
    }
}

impl context::Context for Context {
    fn hidden_needs_own_call(&self) -> bool {
        true
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn passed(&self, sequence: usize) -> u64 {
        self.passed.get(sequence).copied().unwrap_or(0)
    }

    fn decode(&mut self, entries: &[Entry], hidden: bool) -> Result<(), DecodeError> {
        if entries.is_empty() || entries.len() > self.sizes.batch {
            let (given, most) = (entries.len(), self.sizes.batch);
            let reason = format!("a batch has 1 to {most} tokens, not {given}");
            return Err(DecodeError::Failed(reason));
        }
        for (i, entry) in entries.iter().enumerate() {
            self.set(i, entry, hidden || entry.output)?;
        }
        self.batch.n_tokens = i32::try_from(entries.len()).unwrap_or(0);
        LOGGED_ERRORS.take();
        // SAFETY: the first `n_tokens` entries were just written.
        let result = unsafe {
            if hidden != self.hidden {
                sys::llama_set_embeddings(self.context.as_ptr(), hidden);
            }
            guard::decode(self.context.as_ptr(), self.batch).map_err(DecodeError::Failed)?
        };
        self.hidden = hidden;
        self.outputs = entries.iter().map(|e| hidden || e.output).collect();
        match result {
            0 => {
                entries.iter().for_each(|e| self.passed[e.sequence] += 1);
                Ok(())
            }
            1 => Err(DecodeError::NoRoom),
            _ => Err(DecodeError::Failed(logged_error())),
        }
    }

    fn logits(&self, i: usize) -> Option<&[f32]> {
        let index = self.output(i)?;
        // SAFETY: the entry has an output; llama.cpp keeps one logit a token until the next call,
        // which needs `&mut self`.
        unsafe {
            let logits = sys::llama_get_logits_ith(self.context.as_ptr(), index);
            (!logits.is_null()).then(|| slice::from_raw_parts(logits, self.model.vocabulary_len()))
        }
    }

    fn hidden(&self, i: usize) -> Option<&[f32]> {
        let index = self.output(i).filter(|_| self.hidden)?;
        // SAFETY: as for the logits.
        unsafe {
            let hidden = sys::llama_get_embeddings_ith(self.context.as_ptr(), index);
            (!hidden.is_null()).then(|| slice::from_raw_parts(hidden, self.model.hidden_len()))
        }
    }

    fn share(&mut self, from: usize, to: usize, keep: usize) -> bool {
        let exist = from.max(to) < self.sizes.sequences && from != to;
        // Sequences with cells of their own would have to copy them.
        if !exist || self.sizes.separate {
            return false;
        }
        let (Ok(from), Ok(to), Ok(keep)) =
            (i32::try_from(from), i32::try_from(to), i32::try_from(keep))
        else {
            return false;
        };
        // SAFETY: the context and its memory are alive, both sequences exist.
        unsafe {
            let memory = sys::llama_get_memory(self.context.as_ptr());
            sys::llama_memory_seq_cp(memory, from, to, 0, keep);
            // A memory that is not made of cells knows its last state only.
            let shared = sys::llama_memory_seq_pos_max(memory, to) + 1 == keep;
            if !shared {
                sys::llama_memory_seq_rm(memory, to, -1, -1);
            }
            shared
        }
    }

    fn truncate(&mut self, sequence: usize, keep: usize) -> bool {
        let (Ok(id), Ok(keep)) = (i32::try_from(sequence), i32::try_from(keep)) else {
            return false;
        };
        if sequence >= self.sizes.sequences {
            return false;
        }
        // SAFETY: the context and its memory are alive, the sequence exists.
        unsafe {
            let memory = sys::llama_get_memory(self.context.as_ptr());
            sys::llama_memory_seq_rm(memory, id, keep, -1)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: both were made by `new` and are freed once.
        unsafe {
            sys::llama_batch_free(self.batch);
            sys::llama_free(self.context.as_ptr());
        }
    }
}
