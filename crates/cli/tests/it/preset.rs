//! `tandem preset`, and what presets that are none are answered with. No model is loaded here.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::common::{Done, sha256, tandem};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets").join(name)
}

fn hash(file: &Path) -> String {
    sha256(&fs::read(file).unwrap())
}

/// A machine with nothing on it but a copy of the smaller preset.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let machine = Self { root };
        fs::create_dir(machine.folder()).unwrap();
        for file in ["preset.toml", "router.safetensors"] {
            fs::copy(shipped("general").join(file), machine.folder().join(file)).unwrap();
        }
        machine
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The copy.
    fn folder(&self) -> PathBuf {
        self.root.path().join("mine")
    }

    fn manifest(&self) -> PathBuf {
        self.folder().join("preset.toml")
    }

    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.manifest()).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(self.manifest(), text.replacen(from, to, 1)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tandem(arguments);
        command.env("TANDEM_HOME", self.home()).current_dir(self.root.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        self.command(arguments).output().unwrap().into()
    }

    /// One line, the right code, no output, and nothing left behind.
    fn refused(&self, preset: &str, code: i32, says: &[&str]) {
        for command in [&["run", "hi"][..], &["doctor"], &["cloud"], &["onnx", "export", "-o", "x"]]
        {
            let done = self.run(&[command, &["--preset", preset]].concat());
            assert_eq!(done.code, Some(code), "{command:?} {preset}: {}", done.err);
            assert_eq!(done.err.lines().count(), 1, "{}", done.err);
            assert!(says.iter().all(|part| done.err.contains(part)), "{says:?}: {}", done.err);
            assert_eq!(done.out, "");
            assert!(!self.home().exists() && !self.root.path().join("x").exists());
        }
    }
}

#[test]
fn what_is_no_preset_is_refused_in_one_line() {
    let machine = Machine::new();
    let looked = machine.home().join("presets");
    machine.refused(
        "poetry",
        2,
        &[
            "no preset \"poetry\"",
            "commonsenseqa, commonsenseqa-qwen, general",
            looked.to_str().unwrap(),
        ],
    );
    machine.refused("", 2, &["no preset"]);
    machine.refused("./none", 1, &["no folder ./none"]);
    machine.refused("./mine/preset.toml", 1, &["no folder ./mine/preset.toml"]);
    // A folder, but not a preset; without a slash it is taken for a name first, then for a folder.
    fs::create_dir(machine.root.path().join("empty")).unwrap();
    machine.refused("./empty", 1, &["./empty is not a preset", "preset.toml"]);
    machine.refused("empty", 1, &["empty is not a preset"]);
    machine.refused("..", 1, &[".. is not a preset"]);
}

#[test]
fn damaged_presets_are_refused_and_the_file_is_named() {
    let file = |machine: &Machine| machine.folder().join("router.safetensors");
    let named = "./mine/router.safetensors";

    let machine = Machine::new();
    fs::remove_file(file(&machine)).unwrap();
    machine.refused("./mine", 1, &[named, "is missing"]);
    fs::create_dir(file(&machine)).unwrap();
    machine.refused("./mine", 1, &[named, "not a plain file"]);

    // A router, but not this one.
    let machine = Machine::new();
    fs::copy(shipped("commonsenseqa").join("router.safetensors"), file(&machine)).unwrap();
    machine.refused("./mine", 1, &[named, "damaged or was replaced", &hash(&file(&machine))]);

    let machine = Machine::new();
    machine.edit("[defaults]", "[extras]");
    machine.refused("./mine", 1, &["./mine/preset.toml", "unknown field `extras`"]);

    // The hash would be right.
    let machine = Machine::new();
    fs::rename(file(&machine), machine.root.path().join("router.safetensors")).unwrap();
    machine.edit("\"router.safetensors\"", "\"../router.safetensors\"");
    machine.refused("./mine", 1, &["./mine/preset.toml", "\"../router.safetensors\""]);

    let machine = Machine::new();
    machine.edit("version = 1", "version = 9");
    machine.refused("./mine", 1, &["version 9", "update this program"]);

    let machine = Machine::new();
    fs::write(machine.manifest(), b"\xff\xfe").unwrap();
    machine.refused("./mine", 1, &["./mine/preset.toml cannot be read"]);
    fs::remove_file(machine.manifest()).unwrap();
    fs::create_dir(machine.manifest()).unwrap();
    machine.refused("./mine", 1, &["./mine/preset.toml is not a plain file"]);
}

#[test]
fn a_preset_without_the_part_that_is_wanted_says_so() {
    let machine = Machine::new();
    let done = machine.run(&["cloud", "--preset", "./mine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("./mine has no cloud adapter"), "{}", done.err);
    let done = machine.run(&["onnx", "export", "-o", "x", "--preset", "./mine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("./mine has no edge adapter"), "{}", done.err);
    // Its edge is not in the catalog, or another of that name.
    machine.edit("\"smollm2-135m-instruct\"", "\"my-own\"");
    let done = machine.run(&["run", "hi", "--preset", "./mine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("my-own") && done.err.contains("--edge-model"), "{}", done.err);
    machine.edit("\"my-own\"", "\"smollm2-135m-instruct\"");
    machine.edit("b179c952", "00000000");
    let done = machine.run(&["run", "hi", "--preset", "./mine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("another smollm2-135m-instruct"), "{}", done.err);
}

#[test]
fn the_list_tells_what_each_is_for_and_which_comes_first() {
    let machine = Machine::new();
    let list = machine.run(&["preset", "list"]);
    assert_eq!(list.code, Some(0), "{}", list.err);
    let of_questions = |line: &str| {
        line.starts_with("commonsenseqa ") && line.contains(" Multiple-choice questions")
    };
    assert!(list.out.lines().any(of_questions), "{}", list.out);

    // An earlier program left files there without a manifest: no preset of that name.
    let own = machine.home().join("presets");
    fs::create_dir_all(own.join("commonsenseqa")).unwrap();
    fs::create_dir_all(own.join("broken")).unwrap();
    fs::write(own.join("broken/preset.toml"), "nonsense").unwrap();
    fs::rename(machine.folder(), own.join("general")).unwrap();
    let list = machine.run(&["preset", "list", "--json"]).json();
    let presets = list["presets"].as_array().unwrap();
    let found: Vec<_> = presets
        .iter()
        .map(|p| (p["name"].as_str().unwrap(), p["shadowed"].as_bool().unwrap()))
        .collect();
    let expected = [
        ("broken", false),
        ("general", false),
        ("commonsenseqa", false),
        ("commonsenseqa-qwen", false),
        ("general", true),
        ("general-qwen", false),
        ("maths-qwen", false),
    ];
    assert_eq!(found, expected);
    assert!(presets[0]["error"].as_str().unwrap().contains("line 1"), "{list}");
    assert_eq!(presets[1]["edge"], "smollm2-135m-instruct");
    let list = machine.run(&["preset", "list"]);
    assert!(list.out.contains("another of this name comes first"), "{}", list.out);
    assert!(list.out.contains("cannot be used"), "{}", list.out);
}

#[test]
fn a_maker_is_told_every_hash_and_whether_routers_fit() {
    let machine = Machine::new();
    let done = machine.run(&["preset", "check", "./mine"]);
    assert_eq!(done.code, Some(0), "{}", done.out);
    assert!(done.out.contains("the preset is whole"), "{}", done.out);
    for name in ["commonsenseqa", "commonsenseqa-qwen", "general", "general-qwen", "maths-qwen"] {
        let done = machine.run(&["preset", "check", name]);
        assert_eq!(done.code, Some(0), "{}", done.out);
    }
    // A maker who does not know the hash yet learns it.
    let router = machine.folder().join("router.safetensors");
    let right = hash(&router);
    machine.edit(&right, "");
    let done = machine.run(&["preset", "check", "./mine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.out.contains(&right), "{}", done.out);
    // The right hash of the wrong router: it was trained with an adapter.
    fs::copy(shipped("commonsenseqa").join("router.safetensors"), &router).unwrap();
    machine.edit("sha256 = \"\"", &format!("sha256 = \"{}\"", hash(&router)));
    let done = machine.run(&["preset", "check", "./mine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.out.contains("was trained for"), "{}", done.out);
    assert_eq!(machine.run(&["preset", "check", "poetry"]).code, Some(2));
}
