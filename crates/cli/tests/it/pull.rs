//! `tandem pull` with the machine's real pip, against an index on loopback.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Cursor, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::common::{Done, on_a_disk_of, tandem};

/// The parts of the model that is pulled here.
const PARTS: usize = 4;

fn sha256(bytes: &[u8]) -> String {
    decode::hex(&Sha256::digest(bytes))
}

/// Bytes that do not compress, so that sizes are what they seem.
fn content(part: usize) -> Vec<u8> {
    (0..8000u32)
        .flat_map(|i| Sha256::digest((i + part as u32 * 100_000).to_le_bytes()).to_vec())
        .take(200_000 + part * 1000)
        .collect()
}

/// The least pip takes for a package.
fn wheel(part: usize, content: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(vec![]));
    let info = format!("fake_part{part}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: fake-part{part}\nVersion: 1.0\n");
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    for (name, bytes) in [
        (format!("fake_part{part}/data.bin"), content),
        (format!("{info}/METADATA"), metadata.as_bytes()),
        (format!("{info}/WHEEL"), tags.as_bytes()),
        (format!("{info}/RECORD"), b"".as_slice()),
    ] {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// What the index does with a package.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Nothing is wrong.
    None,
    /// The content is another, the first time.
    WrongBytesOnce,
    /// Always.
    WrongBytesAlways,
    /// The download never ends.
    Hang,
    /// It begins after seconds.
    Slow,
    /// The link's hash is not the file's.
    WrongHash,
}

#[derive(Default)]
struct State {
    downloads: HashMap<usize, usize>,
    faults: HashMap<usize, Fault>,
}

/// A package index.
struct Index {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Index {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = shared.clone();
                thread::spawn(move || serve(stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    fn fault(&self, part: usize, fault: Fault) {
        self.state.lock().unwrap().faults.insert(part, fault);
    }

    fn downloads(&self) -> Vec<usize> {
        let state = self.state.lock().unwrap();
        (1..=PARTS).map(|p| state.downloads.get(&p).copied().unwrap_or(0)).collect()
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    let mut header = String::new();
    reader.read_line(&mut line).unwrap();
    while reader.read_line(&mut header).unwrap() > 2 {
        header.clear();
    }
    let path = line.split(' ').nth(1).unwrap_or("").to_owned();
    let part =
        path.split("part").nth(1).map(|rest| rest.trim_matches(|c: char| !c.is_ascii_digit()));
    let part: Option<usize> = part.and_then(|p| p.chars().take(1).collect::<String>().parse().ok());
    let Some(part) = part else { return answer(stream, "404 Not Found", b"") };
    let fault = state.lock().unwrap().faults.get(&part).copied().unwrap_or(Fault::None);
    if path.starts_with("/simple/") {
        let hash = if fault == Fault::WrongHash {
            format!("#sha256={}", "0".repeat(64))
        } else {
            String::new()
        };
        let page = format!("<a href=\"/files/fake_part{part}-1.0-py3-none-any.whl{hash}\">x</a>");
        return answer(stream, "200 OK\r\ncontent-type: text/html", page.as_bytes());
    }
    let count = {
        let mut state = state.lock().unwrap();
        let count = state.downloads.entry(part).or_default();
        *count += 1;
        *count
    };
    let damaged = match fault {
        Fault::WrongBytesOnce => count == 1,
        Fault::WrongBytesAlways => true,
        Fault::None | Fault::Hang | Fault::Slow | Fault::WrongHash => false,
    };
    let mut content = content(part);
    if damaged {
        content[1000] ^= 1;
    }
    let wheel = wheel(part, &content);
    if fault == Fault::Slow {
        thread::sleep(Duration::from_secs(3));
    }
    if fault == Fault::Hang {
        let mut stream = stream;
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", wheel.len()).unwrap();
        stream.write_all(&wheel[..wheel.len() / 2]).unwrap();
        thread::sleep(Duration::from_secs(60));
        return;
    }
    answer(stream, "200 OK\r\ncontent-type: application/octet-stream", &wheel);
}

fn answer(mut stream: TcpStream, head: &str, body: &[u8]) {
    let head =
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // A client that was killed does not listen.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)));
}

struct Machine {
    folder: TempDir,
    index: Index,
    catalog: PathBuf,
    whole: Vec<u8>,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parts: Vec<_> = (1..=PARTS).map(content).collect();
        let whole = parts.concat();
        let mut catalog = format!(
            "[[model]]\nname = 'fake'\nfile = 'fake.gguf'\nbytes = {}\nsha256 = '{}'\nlicense = 'none'\n",
            whole.len(),
            sha256(&whole)
        );
        for (i, content) in (1..).zip(&parts) {
            catalog += &format!(
                "[[model.part]]\npackage = 'fake-part{i}'\nversion = '1.0'\n\
                 member = 'fake_part{i}/data.bin'\nbytes = {}\nsha256 = '{}'\n",
                content.len(),
                sha256(content)
            );
        }
        let path = folder.path().join("catalog.toml");
        fs::write(&path, catalog).unwrap();
        Self { folder, index: Index::start(), catalog: path, whole }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn model(&self) -> PathBuf {
        self.home().join("models/fake.gguf")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let catalog = self.catalog.to_str().unwrap();
        let mut command = tandem(&[&["pull", "--catalog", catalog], arguments].concat());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PIP_")) {
            command.env_remove(name);
        }
        command
            .env("TANDEM_HOME", self.home())
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("PIP_INDEX_URL", format!("http://{}/simple", self.index.address))
            .env("NO_PROXY", "127.0.0.1");
        command
    }

    fn pull(&self) -> Done {
        self.command(&[]).output().unwrap().into()
    }

    fn assert_whole(&self) {
        assert_eq!(fs::read(self.model()).unwrap(), self.whole);
        let left: Vec<_> = files(&self.home().join("partial"));
        assert!(left.iter().all(|f| f.ends_with("lock")), "{left:?}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect()
}

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
