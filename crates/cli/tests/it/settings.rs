//! The configuration file through the real program: what goes before what, and what `config show` tells.
//! No model is loaded here.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use crate::common::{Done, tandem};

/// A folder with a configuration file, in the place where the program looks for its own.
struct Folder(TempDir);

impl Folder {
    fn with(text: Option<&str>) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.0.path().join("tandem")).unwrap();
        if let Some(text) = text {
            fs::write(folder.file(), text).unwrap();
        }
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("tandem/tandem.toml")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tandem(arguments);
        command.env("XDG_CONFIG_HOME", self.0.path());
        command.env_remove("TANDEM_CONFIG").env_remove("TANDEM_API_KEYS");
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        self.command(arguments).output().unwrap().into()
    }
}

#[test]
fn every_value_is_shown_with_where_it_came_from() {
    let folder = Folder::with(Some(
        "pair = \"qwen\"\nlog-format = \"json\"\nbudget = \"10%\"\n\
         [serve]\nlisten = \"0.0.0.0:9000\"\nmodes = [\"joint\", \"small\"]\nqueue = 7\n",
    ));
    let mut show = folder.command(&["config", "show", "serve"]);
    let done: Done = show.env("TANDEM_API_KEYS", "hunter2").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.out.starts_with(&format!("# {}\n", folder.file().display())), "{}", done.out);
    for line in [
        "listen = \"0.0.0.0:9000\"  # file",
        "queue = \"7\"  # file",
        "budget = \"10%\"  # file",
        "log-format = \"json\"  # file",
        "verbose = \"0\"  # default",
        "parallel = \"4\"  # default",
        // The environment goes before the file, also for what the library knows.
        "pair = \"tiny\"  # environment TANDEM_PAIR",
        "api-key = \"***\"  # environment TANDEM_API_KEYS",
    ] {
        assert!(done.out.lines().any(|shown| shown == line), "{line} is not in\n{}", done.out);
    }
    assert!(!done.out.contains("hunter2"));
    assert!(!done.out.lines().any(|line| line.starts_with("config = ")), "{}", done.out);

    let mut without = folder.command(&["config", "show", "serve"]);
    let done: Done = without.env_remove("TANDEM_PAIR").output().unwrap().into();
    assert!(done.out.contains("\npair = \"qwen\"  # file\n"), "{}", done.out);
    let none = Folder::with(None).run(&["config", "show"]);
    assert!(none.out.starts_with("# no configuration file\n"), "{}", none.out);
    assert!(none.out.contains("\nlisten = \"127.0.0.1:8080\"  # default\n"), "{}", none.out);
    let done = folder.run(&["config", "show", "jog"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("there is no command \"jog\""), "{}", done.err);
}

#[test]
fn further_pairs_are_shown_with_what_their_tables_say() {
    let folder = Folder::with(Some(
        "[serve]\nqueue = 7\n[serve.pairs.maths]\npair = \"qwen\"\nbudget = \"10%\"\n\
         cloud-key = \"hunter2\"\nstrict = true\n[serve.pairs.plain]\nparallel = 2\n",
    ));
    let done = folder.run(&["config", "show", "serve"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let (own, pairs) = done.out.split_once("\n[serve.pairs.maths]\n").unwrap();
    let (maths, plain) = pairs.split_once("\n[serve.pairs.plain]\n").unwrap();
    assert!(own.contains("\nqueue = \"7\"  # file\n"), "{own}");
    for (part, line) in [
        // What its table says goes before the environment.
        (maths, "pair = \"qwen\"  # file"),
        (maths, "budget = \"10%\"  # file"),
        (maths, "strict = \"true\"  # file"),
        (maths, "cloud-key = \"***\"  # file"),
        (plain, "pair = \"tiny\"  # environment TANDEM_PAIR"),
        (plain, "parallel = \"2\"  # file"),
        (plain, "max-tokens = \"256\"  # default"),
    ] {
        assert!(part.lines().any(|shown| shown == line), "{line} is not in\n{part}");
    }
    // What a pair has from the server is shown with the server.
    assert!(!maths.lines().any(|line| line.starts_with("queue = ")), "{maths}");
    assert!(!done.out.contains("hunter2"));
    let folder = Folder::with(Some("[serve.pairs.maths]\nfrobnicate = 1\n"));
    for words in [&["config", "show", "serve"][..], &["serve", "--listen", "192.0.2.1:1"]] {
        let done = folder.run(words);
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(done.err.contains("[serve.pairs.maths]: a pair has no option"), "{}", done.err);
    }
    let folder = Folder::with(Some("[run.pairs.maths]\nbudget = \"5%\"\n"));
    let done = folder.run(&["run", "Hi"]);
    assert!(done.code == Some(2) && done.err.contains("\"pairs\""), "{}", done.err);
}

#[test]
fn a_command_heeds_its_file_and_what_is_typed_goes_before_it() {
    let folder = Folder::with(Some("[serve]\nmodes = \"small\"\n"));
    let done = folder.run(&["serve"]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(
        done.err.contains("--modes does not allow the server's own --mode joint"),
        "{}",
        done.err
    );
    // An address that is nobody's: the modes were taken, and nothing is loaded.
    let nobody = ["--listen", "192.0.2.1:1"];
    for typed in [&["--modes", "joint"], &["--mode", "small"]] {
        let done = folder.run(&[&["serve"][..], &typed[..], &nobody].concat());
        assert_eq!(done.code, Some(1), "{typed:?}: {}", done.err);
        assert!(done.err.contains("cannot listen on 192.0.2.1:1"), "{}", done.err);
    }
    // Another file instead of the usual one.
    let other = Folder::with(Some(""));
    let path = other.file();
    let named = ["--config", path.to_str().unwrap(), "serve", "--listen", "192.0.2.1:1"];
    let done = folder.run(&named);
    assert!(done.err.contains("cannot listen on 192.0.2.1:1"), "{}", done.err);
}

#[test]
fn a_mistake_in_the_file_is_told_with_its_place() {
    for (text, said) in [
        ("frobnicate = 1", "there is no option \"frobnicate\""),
        ("[serve]\nqueue = \"many\"", "many"),
        ("listen = ", "TOML"),
        ("config = \"other.toml\"", "there is no option \"config\""),
    ] {
        let folder = Folder::with(Some(text));
        let done = folder.run(&["serve", "--listen", "192.0.2.1:1"]);
        assert_eq!(done.code, Some(2), "{text}: {}", done.err);
        let file = folder.file().display().to_string();
        assert!(done.err.contains(&file) && done.err.contains(said), "{text}: {}", done.err);
    }
    let done = Folder::with(None).run(&["--config", "/nowhere/tandem.toml", "serve"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("/nowhere/tandem.toml"), "{}", done.err);
}
