//! Names the build: which commit this program was made from.

use std::{fs, process::Command};

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Whether the repository git finds is this one: an archive may lie unpacked inside another.
fn in_repository() -> bool {
    git(&["rev-parse", "--show-prefix"]).is_some_and(|folder| folder == "crates/cli/")
}

/// `git archive` writes the commit into this file; in a checkout it holds a pattern instead.
fn archived_commit() -> Option<String> {
    let text = fs::read_to_string("archived-commit").ok()?;
    let commit = text.trim();
    let is_hash = commit.len() >= 10 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| commit[..10].to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=archived-commit");
    // A build in a clean room has the sources and no git: it is told the commit.
    println!("cargo:rerun-if-env-changed=TANDEM_COMMIT");
    let told = std::env::var("TANDEM_COMMIT").ok().filter(|commit| !commit.is_empty());
    let in_repository = in_repository();
    let found = || match in_repository {
        true => git(&["rev-parse", "--short=10", "HEAD"]),
        false => archived_commit(),
    };
    let commit = told.or_else(found).unwrap_or_else(|| "unknown commit".into());
    println!("cargo:rustc-env=TANDEM_COMMIT={commit}");
    if in_repository {
        // A new commit moves one of these.
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file]) {
                println!("cargo:rerun-if-changed={path}");
            }
        }
    }
}
