//! A model as llama.cpp holds it: weights, adapters and vocabulary.

use std::{
    ffi::{CStr, CString},
    path::Path,
    ptr::{self, NonNull},
    sync::Arc,
    thread,
};

use decode::Token;
use llama_cpp_sys_2 as sys;

use super::{c_path, guard, logged_error, start};
use crate::{pieces, vocabulary::Tokenizer};

/// Texts up to this many bytes are tokenized where they are: the recursion of a regular expression,
/// about a kilobyte for a character, stays well below any thread's stack.
const SHORT_TEXT: usize = 256;

/// Room for that recursion over a whole piece of a long text. Only what is used takes memory.
const TOKENIZE_STACK_BYTES: usize = 64 << 20;

/// As much as a process gives its first thread.
const LOAD_STACK_BYTES: usize = 8 << 20;

/// What is read from a model's file. Models that differ in their adapters alone can share it.
pub struct Weights {
    model: NonNull<sys::llama_model>,
    vocab: *const sys::llama_vocab,
}

// SAFETY: after loading, weights and vocabulary are only read. The list of adapters that llama.cpp keeps
// with them is changed and read by the one thread alone that loads models and computes with them.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

pub struct Model {
    weights: Arc<Weights>,
    pub(super) adapters: Vec<(NonNull<sys::llama_adapter_lora>, f32)>,
}

// SAFETY: as for the weights, in whose memory adapters are.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Weights {
    /// Loads a GGUF file with this many layers on GPUs. Returns llama.cpp's reason if that fails.
    pub fn load(path: &Path, gpu_layers: usize) -> Result<Self, String> {
        // For some CPUs llama.cpp packs the weights anew while it loads, with a team of OpenMP threads that
        // lives as long as the thread it was made on. While two teams are there, OpenMP takes the
        // cores for overloaded and lets waiting threads sleep, which costs two thirds of the speed.
        on_thread("load", LOAD_STACK_BYTES, || Self::load_here(path, gpu_layers))
    }

    fn load_here(path: &Path, gpu_layers: usize) -> Result<Self, String> {
        start()?;
        let path = c_path(path)?;
        // SAFETY: the path outlives the call; the parameters are llama.cpp's own.
        let model = unsafe {
            let mut params = sys::llama_model_default_params();
            params.n_gpu_layers = i32::try_from(gpu_layers).unwrap_or(i32::MAX);
            sys::llama_model_load_from_file(path.as_ptr(), params)
        };
        let model = NonNull::new(model).ok_or_else(logged_error)?;
        // SAFETY: the model is alive, and its vocabulary lives as long.
        let vocab = unsafe { sys::llama_model_get_vocab(model.as_ptr()) };
        let loaded = Self { model, vocab };
        // SAFETY: the vocabulary is alive. One without tokens would abort at the first use.
        if unsafe { sys::llama_vocab_type(vocab) } == sys::LLAMA_VOCAB_TYPE_NONE {
            return Err("it has no vocabulary".into());
        }
        Ok(loaded)
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: contexts hold an `Arc` of the model, and that one of these, so none is left. Adapters
        // are freed with them.
        unsafe { sys::llama_model_free(self.model.as_ptr()) }
    }
}

impl Model {
    /// A model without adapters.
    pub fn new(weights: Arc<Weights>) -> Self {
        Self { weights, adapters: vec![] }
    }

    pub(super) fn pointer(&self) -> *mut sys::llama_model {
        self.weights.model.as_ptr()
    }

    fn vocab(&self) -> *const sys::llama_vocab {
        self.weights.vocab
    }

    /// Loads a LoRA adapter, which every context of this model then uses at this scale. Other models with
    /// the same weights do not. It takes its memory for as long as the weights are loaded.
    pub fn add_adapter(&mut self, path: &Path, scale: f32) -> Result<(), String> {
        start()?;
        let path = c_path(path)?;
        // SAFETY: the weights are alive, and this is the thread that loads and computes; the adapter is freed
        // with them.
        let adapter = unsafe { sys::llama_adapter_lora_init(self.pointer(), path.as_ptr()) };
        self.adapters.push((NonNull::new(adapter).ok_or_else(logged_error)?, scale));
        Ok(())
    }

    pub fn hidden_len(&self) -> usize {
        // SAFETY: the model is alive.
        usize::try_from(unsafe { sys::llama_model_n_embd_out(self.pointer()) }).unwrap_or(0)
    }

    /// The bytes of its weights, and of its cache for each token of context, in half precision.
    pub fn footprint(&self) -> (u64, u64) {
        let count = |n: i32| u64::try_from(n).unwrap_or(0);
        // SAFETY: the model is alive.
        let (weights, width, heads, caches, layers) = unsafe {
            let model = self.pointer();
            (
                sys::llama_model_size(model),
                count(sys::llama_model_n_embd(model)),
                count(sys::llama_model_n_head(model)),
                count(sys::llama_model_n_head_kv(model)),
                count(sys::llama_model_n_layer(model)),
            )
        };
        // Some models have wider heads than an even share of their width, and their files say so.
        let length = |of: &str| self.attention_number(of).unwrap_or(width / heads.max(1));
        (weights, layers * caches * (length("key_length") + length("value_length")) * 2)
    }

    /// A number that the file gives of the model's attention.
    fn attention_number(&self, name: &str) -> Option<u64> {
        let architecture = self.metadata("general.architecture")?;
        self.metadata(&format!("{architecture}.attention.{name}"))?.parse().ok()
    }

    /// What the file says under a key, if that is short.
    fn metadata(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        let mut value = [0u8; 64];
        // SAFETY: the model is alive, the key ends with a zero, and no more is written than there is room
        // for, with a zero behind it.
        let length = unsafe {
            let (model, room) = (self.pointer(), value.len());
            sys::llama_model_meta_val_str(model, key.as_ptr(), value.as_mut_ptr().cast(), room)
        };
        // A negative length says that there is no such key; a larger one that not all of it is here.
        let value = value.get(..usize::try_from(length).ok()?)?;
        std::str::from_utf8(value).ok().map(str::to_owned)
    }

    /// The context the model was trained with.
    pub fn trained_context(&self) -> usize {
        // SAFETY: the model is alive.
        usize::try_from(unsafe { sys::llama_model_n_ctx_train(self.pointer()) }).unwrap_or(0)
    }

    fn tokens(&self, text: &str, special: bool) -> Result<Vec<Token>, String> {
        let tokens = guard::tokenize(self.vocab(), text, special)?;
        Ok(tokens.into_iter().map(|t| Token(t.cast_unsigned())).collect())
    }

    /// The id as llama.cpp takes it; `None` outside the vocabulary.
    pub(super) fn id(&self, token: Token) -> Option<sys::llama_token> {
        let id = i32::try_from(token.0).ok()?;
        (token.index() < self.vocabulary_len()).then_some(id)
    }
}

impl Tokenizer for Model {
    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>, String> {
        if text.len() <= SHORT_TEXT {
            return self.tokens(text, special);
        }
        let tokenize = || {
            // A special token that is cut would not be seen.
            let cut = self.cuts() && !special;
            let pieces = if cut { pieces::cut(text) } else { vec![text] };
            let mut tokens = vec![];
            for piece in pieces {
                tokens.extend(self.tokens(piece, special)?);
            }
            Ok(tokens)
        };
        on_thread("tokenize", TOKENIZE_STACK_BYTES, tokenize)
    }

    /// Those that split with regular expressions are cut here, before anything recurses. Others would see
    /// an edge of the text where there is none.
    fn cuts(&self) -> bool {
        // SAFETY: the vocabulary is alive.
        (unsafe { sys::llama_vocab_type(self.vocab()) }) == sys::LLAMA_VOCAB_TYPE_BPE
    }

    fn piece(&self, token: Token, special: bool) -> Vec<u8> {
        let Some(id) = self.id(token) else { return vec![] };
        filled(64, |bytes: *mut u8, room| {
            // SAFETY: the id is inside the vocabulary, the buffer has its true length.
            unsafe { sys::llama_token_to_piece(self.vocab(), id, bytes.cast(), room, 0, special) }
        })
    }

    fn is_end(&self, token: Token) -> bool {
        // SAFETY: the id is inside the vocabulary.
        self.id(token).is_some_and(|id| unsafe { sys::llama_vocab_is_eog(self.vocab(), id) })
    }

    fn spelling(&self, token: Token) -> (Vec<u8>, u32) {
        let Some(id) = self.id(token) else { return (vec![], 0) };
        // SAFETY: the id is inside the vocabulary, whose strings live as long as the model.
        unsafe {
            let text = sys::llama_vocab_get_text(self.vocab(), id);
            let text =
                if text.is_null() { vec![] } else { CStr::from_ptr(text).to_bytes().to_vec() };
            let attributes = sys::llama_vocab_get_attr(self.vocab(), id);
            // llama.cpp marks some ordinary tokens as control tokens by their spelling (`</s>`).
            // The fingerprint must depend on the file alone, so that mark is removed.
            let ordinary = attributes
                & (sys::LLAMA_TOKEN_ATTR_NORMAL | sys::LLAMA_TOKEN_ATTR_USER_DEFINED)
                != 0;
            let added = if ordinary { sys::LLAMA_TOKEN_ATTR_CONTROL } else { 0 };
            (text, attributes & !added)
        }
    }

    fn beginning(&self) -> (Option<Token>, bool) {
        // SAFETY: the vocabulary is alive.
        let (bos, add) = unsafe {
            (sys::llama_vocab_bos(self.vocab()), sys::llama_vocab_get_add_bos(self.vocab()))
        };
        (u32::try_from(bos).ok().map(Token), add)
    }

    fn end(&self) -> Option<Token> {
        // SAFETY: the vocabulary is alive.
        u32::try_from(unsafe { sys::llama_vocab_eos(self.vocab()) }).ok().map(Token)
    }

    fn chat_template(&self) -> Option<String> {
        // SAFETY: the model is alive; the string it returns lives as long.
        unsafe {
            let text = sys::llama_model_chat_template(self.pointer(), ptr::null());
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    fn vocabulary_len(&self) -> usize {
        // SAFETY: the vocabulary is alive.
        usize::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocab()) }).unwrap_or(0)
    }
}

/// Runs on a thread that ends with the work.
fn on_thread<T: Send>(
    name: &str,
    stack: usize,
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.into()).stack_size(stack);
        let started = thread.spawn_scoped(scope, work);
        let started = started.map_err(|e| format!("no thread to {name} on: {e}"))?;
        started.join().unwrap_or_else(|_| Err(format!("the attempt to {name} failed")))
    })
}

/// A buffer that llama.cpp fills; `fill` gets its address and its length.
fn filled<T: Clone + Default>(length: usize, fill: impl Fn(*mut T, i32) -> i32) -> Vec<T> {
    let mut buffer = vec![T::default(); length];
    for _ in 0..2 {
        let room = i32::try_from(buffer.len()).unwrap_or(i32::MAX);
        let count = fill(buffer.as_mut_ptr(), room);
        match usize::try_from(count) {
            Ok(count) => {
                buffer.truncate(count);
                return buffer;
            }
            // The buffer is too small: the negative count says how much is needed.
            Err(_) => buffer.resize(count.unsigned_abs() as usize, T::default()),
        }
    }
    vec![]
}
