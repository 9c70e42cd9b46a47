//! Names the build: which commit this program was made from.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    // A build in a clean room has the sources and no repository: it is told the commit.
    println!("cargo:rerun-if-env-changed=TANDEM_COMMIT");
    let told = std::env::var("TANDEM_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(|| git(&["rev-parse", "--short=10", "HEAD"]));
    let commit = commit.unwrap_or_else(|| "no commit".into());
    println!("cargo:rustc-env=TANDEM_COMMIT={commit}");
    // A new commit moves one of these.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}
