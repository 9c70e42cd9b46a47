//! The metadata of a GGUF file, read without its weights.

use std::{ffi::CString, path::Path, ptr::NonNull};

use llama_cpp_sys_2 as sys;

use super::{c_path, logged_error, start};

pub struct Header {
    file: NonNull<sys::gguf_context>,
}

impl Header {
    /// Returns llama.cpp's reason if the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        start()?;
        let path = c_path(path)?;
        // SAFETY: the path outlives the call; without a ggml context nothing else is made.
        let file = unsafe {
            let params = sys::gguf_init_params { no_alloc: true, ctx: std::ptr::null_mut() };
            sys::gguf_init_from_file(path.as_ptr(), params)
        };
        Ok(Self { file: NonNull::new(file).ok_or_else(logged_error)? })
    }

    /// A number of the model's architecture, such as `block_count`; the largest, if it is a list.
    pub fn number(&self, name: &str) -> Option<u64> {
        let architecture = self.text("general.architecture")?;
        let key = self.key(&format!("{architecture}.{name}"))?;
        // SAFETY: the key exists, and its type is asked before its value.
        unsafe {
            let file = self.file.as_ptr();
            match sys::gguf_get_kv_type(file, key) {
                sys::GGUF_TYPE_UINT32 => Some(u64::from(sys::gguf_get_val_u32(file, key))),
                sys::GGUF_TYPE_UINT64 => Some(sys::gguf_get_val_u64(file, key)),
                sys::GGUF_TYPE_INT32 => u64::try_from(sys::gguf_get_val_i32(file, key)).ok(),
                sys::GGUF_TYPE_ARRAY => {
                    let number = matches!(
                        sys::gguf_get_arr_type(file, key),
                        sys::GGUF_TYPE_UINT32 | sys::GGUF_TYPE_INT32
                    );
                    let data = sys::gguf_get_arr_data(file, key).cast::<u32>();
                    let numbers = (0..sys::gguf_get_arr_n(file, key)).map(|i| *data.add(i));
                    if number { numbers.max().map(u64::from) } else { None }
                }
                _ => None,
            }
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        let key = self.key(name)?;
        // SAFETY: the key exists and is a text, which lives as long as the file.
        unsafe {
            let file = self.file.as_ptr();
            (sys::gguf_get_kv_type(file, key) == sys::GGUF_TYPE_STRING).then(|| {
                let text = std::ffi::CStr::from_ptr(sys::gguf_get_val_str(file, key));
                text.to_string_lossy().into_owned()
            })
        }
    }

    fn key(&self, name: &str) -> Option<i64> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name outlives the call.
        let key = unsafe { sys::gguf_find_key(self.file.as_ptr(), name.as_ptr()) };
        (key >= 0).then_some(key)
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        // SAFETY: opened by `read`, and freed once.
        unsafe { sys::gguf_free(self.file.as_ptr()) }
    }
}
