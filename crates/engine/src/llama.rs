//! llama.cpp, made safe. All `unsafe` of the project is in this file: ONNX Runtime needs none of ours.
//!
//! A [`Model`] is read-only once loaded and may be shared between threads; a [`Context`] belongs to
//! one. Every index and id is checked before it crosses into C++, where a wrong one would abort.
#![expect(unsafe_code, reason = "the one place where llama.cpp is called")]

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_void},
    path::Path,
    ptr::{self, NonNull},
    slice,
    sync::{Arc, Once},
};

use decode::Token;
use llama_cpp_sys_2 as sys;

use crate::{
    context::{self, DecodeError, Entry, Sizes},
    vocabulary::Tokenizer,
};

thread_local! {
    /// What llama.cpp complained about on this thread since it was last asked.
    static COMPLAINTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a NUL-terminated string that lives for this call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    if level == sys::GGML_LOG_LEVEL_ERROR {
        COMPLAINTS.with_borrow_mut(|lines| lines.push(text.to_owned()));
    }
    if text.len() > 1 {
        tracing::debug!(target: "llama", "{text}");
    }
}

/// The first complaint since the last call: the later ones only pass it on.
fn complaint() -> String {
    let lines = COMPLAINTS.take();
    let first = lines.into_iter().next().unwrap_or_else(|| "llama.cpp gave no reason".into());
    match first.split_once("error loading model: ") {
        Some((_, reason)) => reason.to_owned(),
        None => first,
    }
}

fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        // SAFETY: called once, before anything else of llama.cpp.
        unsafe {
            sys::llama_log_set(Some(log), ptr::null_mut());
            sys::llama_backend_init();
        }
    });
    COMPLAINTS.take();
}

/// Chooses how llama.cpp multiplies; call it before the process starts a second thread, later it does
/// nothing. What the environment already says stays.
///
/// Its tiled kernels unpack the weights before they multiply, which pays only for long batches: an
/// ask's 8 to 12 tokens take a sixth longer with them, and our chunks of 32 are no quicker.
pub fn tune() {
    const TILED: &str = "GGML_CPU_TILED_MM";
    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if alone && std::env::var_os(TILED).is_none() {
        // SAFETY: no other thread exists that could read the environment meanwhile.
        unsafe { std::env::set_var(TILED, "0") };
    }
}

/// Which llama.cpp this is.
pub fn version() -> String {
    // SAFETY: a static string.
    unsafe { CStr::from_ptr(sys::llama_version()) }.to_string_lossy().into_owned()
}

/// A model's weights and vocabulary.
pub struct Model {
    model: NonNull<sys::llama_model>,
    vocab: *const sys::llama_vocab,
    adapters: Vec<(NonNull<sys::llama_adapter_lora>, f32)>,
}

// SAFETY: after loading, the model is only read.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    /// Loads a GGUF file; on failure gives llama.cpp's reason.
    pub fn load(path: &Path) -> Result<Self, String> {
        start();
        let path = c_path(path)?;
        // SAFETY: the path outlives the call; the parameters are llama.cpp's own.
        let model = unsafe {
            sys::llama_model_load_from_file(path.as_ptr(), sys::llama_model_default_params())
        };
        let model = NonNull::new(model).ok_or_else(complaint)?;
        // SAFETY: the model is alive, and its vocabulary lives as long.
        let vocab = unsafe { sys::llama_model_get_vocab(model.as_ptr()) };
        let loaded = Self { model, vocab, adapters: vec![] };
        // SAFETY: the vocabulary is alive. One without tokens would abort at the first use.
        if unsafe { sys::llama_vocab_type(vocab) } == sys::LLAMA_VOCAB_TYPE_NONE {
            return Err("it has no vocabulary".into());
        }
        Ok(loaded)
    }

    /// Loads a LoRA adapter, to be used by every context at this scale.
    pub fn add_adapter(&mut self, path: &Path, scale: f32) -> Result<(), String> {
        start();
        let path = c_path(path)?;
        // SAFETY: the model is alive and borrowed mutably; the adapter is freed with it.
        let adapter = unsafe { sys::llama_adapter_lora_init(self.model.as_ptr(), path.as_ptr()) };
        self.adapters.push((NonNull::new(adapter).ok_or_else(complaint)?, scale));
        Ok(())
    }

    /// The size of a hidden state.
    pub fn hidden_len(&self) -> usize {
        // SAFETY: the model is alive.
        usize::try_from(unsafe { sys::llama_model_n_embd_out(self.model.as_ptr()) }).unwrap_or(0)
    }

    /// The bytes of its weights, and of its cache for each token of context, in half precision.
    pub fn footprint(&self) -> (u64, u64) {
        let count = |n: i32| u64::try_from(n).unwrap_or(0);
        // SAFETY: the model is alive.
        unsafe {
            let model = self.model.as_ptr();
            let (heads, caches) =
                (sys::llama_model_n_head(model), sys::llama_model_n_head_kv(model));
            let head = count(sys::llama_model_n_embd(model)) / count(heads).max(1);
            let layers = count(sys::llama_model_n_layer(model));
            (sys::llama_model_size(model), layers * count(caches) * head * 2 * 2)
        }
    }

    /// The context the model was trained with.
    pub fn trained_context(&self) -> usize {
        // SAFETY: the model is alive.
        usize::try_from(unsafe { sys::llama_model_n_ctx_train(self.model.as_ptr()) }).unwrap_or(0)
    }

    /// The id as C knows it, if it is inside the vocabulary.
    fn id(&self, token: Token) -> Option<sys::llama_token> {
        let id = i32::try_from(token.0).ok()?;
        (token.index() < self.vocabulary_len()).then_some(id)
    }
}

impl Tokenizer for Model {
    fn tokenize(&self, text: &str, special: bool) -> Vec<Token> {
        let Ok(length) = i32::try_from(text.len()) else { return vec![] };
        let mut tokens = vec![0; text.len() + 8];
        for _ in 0..2 {
            let room = i32::try_from(tokens.len()).unwrap_or(i32::MAX);
            // SAFETY: text and buffer are passed with their true lengths.
            let count = unsafe {
                sys::llama_tokenize(
                    self.vocab,
                    text.as_ptr().cast(),
                    length,
                    tokens.as_mut_ptr(),
                    room,
                    false,
                    special,
                )
            };
            match usize::try_from(count) {
                Ok(count) => {
                    tokens.truncate(count);
                    return tokens.into_iter().map(|t| Token(t.cast_unsigned())).collect();
                }
                // Too small a buffer: the negative count says what is needed.
                Err(_) => tokens.resize(count.unsigned_abs() as usize, 0),
            }
        }
        vec![]
    }

    fn piece(&self, token: Token, special: bool) -> Vec<u8> {
        let Some(id) = self.id(token) else { return vec![] };
        let mut bytes = vec![0u8; 64];
        for _ in 0..2 {
            let room = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            // SAFETY: the id is inside the vocabulary, the buffer has its true length.
            let count = unsafe {
                let buffer = bytes.as_mut_ptr().cast();
                sys::llama_token_to_piece(self.vocab, id, buffer, room, 0, special)
            };
            match usize::try_from(count) {
                Ok(count) => {
                    bytes.truncate(count);
                    return bytes;
                }
                Err(_) => bytes.resize(count.unsigned_abs() as usize, 0),
            }
        }
        vec![]
    }

    fn is_end(&self, token: Token) -> bool {
        // SAFETY: the id is inside the vocabulary.
        self.id(token).is_some_and(|id| unsafe { sys::llama_vocab_is_eog(self.vocab, id) })
    }

    fn spelling(&self, token: Token) -> (Vec<u8>, u32) {
        let Some(id) = self.id(token) else { return (vec![], 0) };
        // SAFETY: the id is inside the vocabulary, whose strings live as long as the model.
        unsafe {
            let text = sys::llama_vocab_get_text(self.vocab, id);
            let text =
                if text.is_null() { vec![] } else { CStr::from_ptr(text).to_bytes().to_vec() };
            let attributes = sys::llama_vocab_get_attr(self.vocab, id);
            // It takes some ordinary words for ends of texts by their spelling (`</s>`): a
            // vocabulary is named by what its file says.
            let ordinary = attributes
                & (sys::LLAMA_TOKEN_ATTR_NORMAL | sys::LLAMA_TOKEN_ATTR_USER_DEFINED)
                != 0;
            let taken = if ordinary { sys::LLAMA_TOKEN_ATTR_CONTROL } else { 0 };
            (text, attributes & !taken)
        }
    }

    fn beginning(&self) -> (Option<Token>, bool) {
        // SAFETY: the vocabulary is alive.
        let (bos, add) =
            unsafe { (sys::llama_vocab_bos(self.vocab), sys::llama_vocab_get_add_bos(self.vocab)) };
        (u32::try_from(bos).ok().map(Token), add)
    }

    fn end(&self) -> Option<Token> {
        // SAFETY: the vocabulary is alive.
        u32::try_from(unsafe { sys::llama_vocab_eos(self.vocab) }).ok().map(Token)
    }

    fn chat_template(&self) -> Option<String> {
        // SAFETY: the model is alive; the string it returns lives as long.
        unsafe {
            let text = sys::llama_model_chat_template(self.model.as_ptr(), ptr::null());
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    fn vocabulary_len(&self) -> usize {
        // SAFETY: the vocabulary is alive.
        usize::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocab) }).unwrap_or(0)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: contexts hold an `Arc` of the model, so none is left.
        unsafe { sys::llama_model_free(self.model.as_ptr()) }
    }
}

fn c_path(path: &Path) -> Result<CString, String> {
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    CString::new(path).map_err(|_| "the path holds a NUL byte".into())
}

/// The caches of a model's sequences, and what computes them.
pub struct Context {
    context: NonNull<sys::llama_context>,
    model: Arc<Model>,
    batch: sys::llama_batch,
    sizes: Sizes,
    /// Tokens passed to `llama_decode` for each sequence, ever.
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
        start();
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
            params.kv_unified = !sizes.apart;
            params.no_perf = true;
            NonNull::new(sys::llama_init_from_model(model.model.as_ptr(), params))
                .ok_or_else(complaint)?
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
        if result == 0 { Ok(()) } else { Err(complaint()) }
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
    fn hidden_apart(&self) -> bool {
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
            let sizes = (entries.len(), self.sizes.batch);
            return Err(DecodeError::Failed(format!(
                "a batch of {} of at most {}",
                sizes.0, sizes.1
            )));
        }
        for (i, entry) in entries.iter().enumerate() {
            self.set(i, entry, hidden || entry.output)?;
        }
        self.batch.n_tokens = i32::try_from(entries.len()).unwrap_or(0);
        COMPLAINTS.take();
        // SAFETY: the first `n_tokens` entries were just written.
        let result = unsafe {
            if hidden != self.hidden {
                sys::llama_set_embeddings(self.context.as_ptr(), hidden);
            }
            sys::llama_decode(self.context.as_ptr(), self.batch)
        };
        self.hidden = hidden;
        self.outputs = entries.iter().map(|e| hidden || e.output).collect();
        match result {
            0 => {
                entries.iter().for_each(|e| self.passed[e.sequence] += 1);
                Ok(())
            }
            1 => Err(DecodeError::NoRoom),
            _ => Err(DecodeError::Failed(complaint())),
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
