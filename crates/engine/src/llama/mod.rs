//! llama.cpp, made safe. All `unsafe` of the project is in this folder: ONNX Runtime needs none of ours.
//!
//! - here: starting it, its back ends and devices, its log
//! - `model`: weights and vocabulary, read-only once loaded and shared between threads
//! - `context`: caches and computing, by one thread at a time
//! - `header`: what a file says of itself before it is loaded
//!
//! Every index and id is checked before it crosses into C++, where a wrong one would abort.
#![expect(unsafe_code, reason = "the one place where llama.cpp is called")]

mod context;
mod header;
mod model;

pub use context::Context;
pub use header::Header;
pub use model::Model;

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_void},
    path::Path,
    ptr,
    sync::OnceLock,
};

use llama_cpp_sys_2 as sys;

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

/// Starts llama.cpp, once. An error where its back ends are files of their own and are not there.
fn start() -> Result<(), String> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        // SAFETY: called once, before anything else of llama.cpp.
        unsafe {
            sys::llama_log_set(Some(log), ptr::null_mut());
            sys::llama_backend_init();
        }
        load_back_ends()
    });
    COMPLAINTS.take();
    started.clone()
}

/// In a program that is to run on any machine, llama.cpp's kernels are libraries beside it, one for
/// each kind of CPU; the best that this CPU can run is loaded. Elsewhere they are built in.
fn load_back_ends() -> Result<(), String> {
    let built_in = !cfg!(feature = "portable");
    if built_in {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let beside = program.parent().unwrap_or(Path::new("."));
    let installed = beside.join("../lib/tandem");
    let folder = if installed.is_dir() { installed } else { beside.to_owned() };
    let path = c_path(&folder)?;
    // SAFETY: the path outlives the call, and so does whatever is loaded outlive the process.
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
    /// As in `CUDA0`.
    pub name: String,
    /// What its driver calls it.
    pub description: String,
    /// Bytes of its memory that nobody uses.
    pub free: u64,
    /// Bytes of its memory.
    pub total: u64,
}

/// What llama.cpp computes with on this machine.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Back ends besides the CPU's, built in or found: `CUDA`, `Vulkan`, …
    pub gpu_back_ends: Vec<String>,
    /// The GPUs they found; integrated ones only where there is no other.
    pub gpus: Vec<Device>,
    /// The CPU's instruction sets in use.
    pub cpu: String,
}

/// Looks at this machine through llama.cpp's eyes.
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

fn c_path(path: &Path) -> Result<CString, String> {
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    CString::new(path).map_err(|_| "the path holds a NUL byte".into())
}
