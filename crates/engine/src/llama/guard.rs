//! Calls into llama.cpp that may throw, and aborts that would say nothing.
//!
//! An exception of C++ must not unwind into Rust. The calls that may throw are therefore declared
//! again here, as functions that unwind, and are made behind a `catch` of C++. An assertion of
//! llama.cpp cannot be caught: it ends the process, with one line that says why.

use std::{
    ffi::{CStr, c_char, c_void},
    mem::MaybeUninit,
};

use llama_cpp_sys_2 as sys;

unsafe extern "C-unwind" {
    fn llama_tokenize(
        vocab: *const sys::llama_vocab,
        text: *const c_char,
        length: i32,
        tokens: *mut sys::llama_token,
        room: i32,
        add_special: bool,
        parse_special: bool,
    ) -> i32;
    fn llama_decode(context: *mut sys::llama_context, batch: sys::llama_batch) -> i32;
}

unsafe extern "C" {
    fn tandem_guard(
        call: unsafe extern "C-unwind" fn(*mut c_void),
        data: *mut c_void,
        reason: *mut c_char,
        room: usize,
    ) -> bool;
    fn _exit(code: i32) -> !;
}

/// The tokens of a text, without beginning or end; the reason if llama.cpp cannot make them.
pub fn tokenize(
    vocab: *const sys::llama_vocab,
    text: &str,
    special: bool,
) -> Result<Vec<sys::llama_token>, String> {
    let length = i32::try_from(text.len()).map_err(|_| "the text is too long".to_owned())?;
    let mut tokens = vec![0; text.len() + 8];
    // A second time if the buffer was too small: the negative count says how much is needed.
    for _ in 0..2 {
        let room = i32::try_from(tokens.len()).unwrap_or(i32::MAX);
        let (start, buffer) = (text.as_ptr().cast(), tokens.as_mut_ptr());
        // SAFETY: text and buffer are passed with their true lengths, and the vocabulary is alive.
        let count = unsafe {
            guarded(|| llama_tokenize(vocab, start, length, buffer, room, false, special))
        }?;
        match usize::try_from(count) {
            Ok(count) => {
                tokens.truncate(count);
                return Ok(tokens);
            }
            Err(_) if count == i32::MIN => return Err("the text has too many tokens".into()),
            Err(_) => tokens.resize(count.unsigned_abs() as usize, 0),
        }
    }
    Err("the text has another number of tokens each time".into())
}

/// `llama_decode`.
///
/// # Safety
/// The context is alive and used by nobody else; the batch has as many entries as it says.
pub unsafe fn decode(
    context: *mut sys::llama_context,
    batch: sys::llama_batch,
) -> Result<i32, String> {
    // SAFETY: as the caller promises.
    unsafe { guarded(|| llama_decode(context, batch)) }
}

/// Makes a call behind a `catch` of C++.
///
/// # Safety
/// The call must own nothing that has to be dropped: an exception passes over it.
unsafe fn guarded<T: Copy, F: Fn() -> T>(call: F) -> Result<T, String> {
    struct Call<T, F> {
        call: F,
        result: MaybeUninit<T>,
    }

    unsafe extern "C-unwind" fn run<T, F: Fn() -> T>(data: *mut c_void) {
        // SAFETY: the address of the `Call` below, which lives until the guard returns.
        let call = unsafe { &mut *data.cast::<Call<T, F>>() };
        call.result.write((call.call)());
    }

    let mut call = Call { call, result: MaybeUninit::uninit() };
    let mut reason = [0 as c_char; 512];
    // SAFETY: `run` is given what it expects; the buffer is passed with its true length.
    let returned = unsafe {
        let data = (&raw mut call).cast();
        tandem_guard(run::<T, F>, data, reason.as_mut_ptr(), reason.len())
    };
    if returned {
        // SAFETY: the guard returned, so `run` has written it.
        return Ok(unsafe { call.result.assume_init() });
    }
    // SAFETY: the guard writes a terminated text, and the buffer began as zeros.
    let reason = unsafe { CStr::from_ptr(reason.as_ptr()) }.to_string_lossy();
    Err(reason.trim().to_owned())
}

/// Has llama.cpp end the process with one line where it would abort with a page of addresses. It
/// aborts on damaged model files and on its own mistakes; there is no way back from it.
pub fn speak_before_aborting() {
    unsafe extern "C" fn say(message: *const c_char) {
        // SAFETY: llama.cpp passes a text that lives for this call.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
        // Where the source file was on the machine that built this says nothing to anybody.
        let (place, reason) = message.split_once(": ").unwrap_or(("", &message));
        let file = place.rsplit('/').next().unwrap_or_default();
        eprintln!("error: llama.cpp cannot go on; is the model's file damaged? {reason} ({file})");
        // SAFETY: ends the process at once: other threads may be computing.
        unsafe { _exit(1) }
    }
    // SAFETY: the function lives as long as the process.
    unsafe { sys::ggml_set_abort_callback(Some(say)) };
}
