//! A `tokenizer.json`: read or refused, and what is read makes tokens of texts.
#![no_main]

use std::panic::{catch_unwind, set_hook};

use libfuzzer_sys::fuzz_target;

const TEXT: &str = "The cat's 12 mats, <s> naïve 中文 é \u{1f600}\t\n  a\0b";

fuzz_target!(
    init: {
        // The library panics over some files, which is caught where it is called. Here every panic would end the
        // process otherwise; those that are not caught still do.
        set_hook(Box::new(|_| ()));
    },
    |bytes: &[u8]| {
        fuzz::file("tokenizer.json", bytes);
        let model = fuzz::folder().join("model.onnx");
        let read = catch_unwind(|| engine::fuzzing::tokenizer(&model, TEXT));
        match read {
            Ok(Ok(foreign)) if foreign.is_empty() => {}
            Ok(Err(_)) => {}
            Ok(Ok(foreign)) => abort(&format!("ids that are no tokens: {foreign:?}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                abort(&format!("a panic: {}", text.unwrap_or("of another kind")));
            }
        }
    }
);

fn abort(why: &str) -> ! {
    eprintln!("{why}");
    std::process::abort()
}
