//! Compiles the guard that keeps C++ exceptions from crossing into Rust.

fn main() {
    println!("cargo:rerun-if-changed=src/llama/guard.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // llama.cpp is linked with the standard library already.
        .cpp_link_stdlib(None)
        .file("src/llama/guard.cpp")
        .compile("tandem_guard");
}
