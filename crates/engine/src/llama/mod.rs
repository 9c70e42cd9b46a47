//! A safe wrapper of llama.cpp. All `unsafe` of the project is in this folder.
//!
//! - here: starting it, its back ends and devices, its log
//! - `model`: weights and vocabulary, read-only once loaded and shared between threads
//! - `context`: caches and computing, by one thread at a time
//! - `header`: the metadata of a file, before it is loaded
//! - `guard`: exceptions and assertions of C++; `pieces`: long texts, cut before they are tokenized
//!
//! Every index and id is checked before it crosses into C++, where a wrong one would abort.
#![expect(unsafe_code, reason = "the one place where llama.cpp is called")]

mod context;
mod guard;
mod header;
mod model;

pub use context::Context;
pub use header::Header;
pub use model::{Model, Weights};

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_void},
    path::Path,
    ptr,
    sync::OnceLock,
};

use llama_cpp_sys_2 as sys;

thread_local! {
    /// The errors that llama.cpp has logged on this thread. It returns only null or a number, and
    /// the reason is in its log.
    static LOGGED_ERRORS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a NUL-terminated string that lives for this call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    if level == sys::GGML_LOG_LEVEL_ERROR {
        LOGGED_ERRORS.with_borrow_mut(|lines| lines.push(text.to_owned()));
    }
    if text.len() > 1 {
        tracing::debug!(target: "llama", "{text}");
    }
}

/// Takes the first error logged on this thread: later ones only repeat it further up the stack.
fn logged_error() -> String {
    let lines = LOGGED_ERRORS.take();
    let first = lines.into_iter().next().unwrap_or_else(|| "llama.cpp gave no reason".into());
    match first.split_once("error loading model: ") {
        Some((_, reason)) => reason.to_owned(),
        None => first,
    }
}

/// Starts llama.cpp, once. Fails where its back ends are separate libraries and none is found.
fn start() -> Result<(), String> {
    static RESULT: OnceLock<Result<(), String>> = OnceLock::new();
    let result = RESULT.get_or_init(|| {
        // SAFETY: called once, before anything else of llama.cpp.
        unsafe {
            sys::llama_log_set(Some(log), ptr::null_mut());
            sys::llama_backend_init();
        }
        guard::speak_before_aborting();
        load_back_ends()
    });
    LOGGED_ERRORS.take();
    result.clone()
}

/// A portable build has llama.cpp's kernels as libraries beside the program, one for each kind of
/// CPU, and loads the best that this CPU can run. Other builds have them linked in.
fn load_back_ends() -> Result<(), String> {
    let built_in = !cfg!(feature = "portable");
    if built_in {
        return Ok(());
    }
    let program = std::env::current_exe()
        .map_err(|e| format!("the folder of this program cannot be found: {e}"))?;
    let beside = program.parent().unwrap_or(Path::new("."));
    let installed = beside.join("../lib/tandem");
    let folder = if installed.is_dir() { installed } else { beside.to_owned() };
    let path = c_path(&folder)?;
    // SAFETY: the path outlives the call, and the libraries stay loaded until the process ends.
    let count = unsafe {
        sys::ggml_backend_load_all_from_path(path.as_ptr());
        sys::ggml_backend_reg_count()
    };
    if count == 0 {
        let folder = folder.display();
        return Err(format!(
            "no libggml-cpu-*.so that this CPU can run is in {folder}: unpack the whole archive, \
             and keep bin and lib side by side"
        ));
    }
    Ok(())
}

/// A GPU that llama.cpp can compute on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// llama.cpp's name, such as `CUDA0`.
    pub name: String,
    /// The driver's name, such as the product's.
    pub description: String,
    /// Free bytes of its memory.
    pub free: u64,
    /// All bytes of its memory.
    pub total: u64,
}

/// The devices of this machine that llama.cpp can compute on.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Names of the back ends other than the CPU's, such as `CUDA` or `Vulkan`.
    pub gpu_back_ends: Vec<String>,
    /// The GPUs they found. Integrated ones are listed only where there is no other.
    pub gpus: Vec<Device>,
    /// The CPU's instruction sets in use.
    pub cpu: String,
}

pub fn hardware() -> Result<Hardware, String> {
    start()?;
    // SAFETY: indices are below the counts; strings belong to the back ends, which stay loaded.
    unsafe {
        let text = |text: *const c_char| CStr::from_ptr(text).to_string_lossy().into_owned();
        let registries = (0..sys::ggml_backend_reg_count())
            .map(|i| text(sys::ggml_backend_reg_name(sys::ggml_backend_reg_get(i))));
        let of_type = |kind| {
            let devices = (0..sys::ggml_backend_dev_count()).map(|i| sys::ggml_backend_dev_get(i));
            let wanted = devices.filter(|&d| sys::ggml_backend_dev_type(d) == kind);
            let described = wanted.map(|device| {
                let (mut free, mut total) = (0, 0);
                sys::ggml_backend_dev_memory(device, &raw mut free, &raw mut total);
                Device {
                    name: text(sys::ggml_backend_dev_name(device)),
                    description: text(sys::ggml_backend_dev_description(device)),
                    free: free as u64,
                    total: total as u64,
                }
            });
            described.collect::<Vec<_>>()
        };
        let mut gpus = of_type(sys::GGML_BACKEND_DEVICE_TYPE_GPU);
        if gpus.is_empty() {
            gpus = of_type(sys::GGML_BACKEND_DEVICE_TYPE_IGPU);
        }
        Ok(Hardware {
            gpu_back_ends: registries.filter(|name| name != "CPU").collect(),
            gpus,
            cpu: text(sys::llama_print_system_info()),
        })
    }
}

/// Switches off llama.cpp's tiled matrix multiplication, unless the environment already decides.
/// Call it before the process starts a second thread; later it does nothing.
///
/// The tiled kernels unpack the weights before they multiply, which pays only for long batches: an
/// ask's 8 to 12 tokens take a sixth longer with them, and our chunks of 32 are no quicker.
pub fn tune() {
    const TILED_KERNELS: &str = "GGML_CPU_TILED_MM";
    let single_threaded =
        std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if single_threaded && std::env::var_os(TILED_KERNELS).is_none() {
        // SAFETY: no other thread exists that could read the environment meanwhile.
        unsafe { std::env::set_var(TILED_KERNELS, "0") };
    }
}

pub fn version() -> String {
    // SAFETY: a static string.
    unsafe { CStr::from_ptr(sys::llama_version()) }.to_string_lossy().into_owned()
}

fn c_path(path: &Path) -> Result<CString, String> {
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    CString::new(path).map_err(|_| "the path holds a NUL byte".into())
}
