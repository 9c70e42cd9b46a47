//! What can go wrong between a hub and a disk.

use std::{
    fs::{self, File},
    io::Write,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    REPO,
    machine::{Machine, files},
    published,
    server::{COMMIT, Fault, Hub, fake_gguf},
};
use crate::common::{Done, on_a_disk_of, sha256};

const NAME: &str = "hf:test/tiny-GGUF";
const SIZE: usize = 300_000;

fn blob(machine: &Machine) -> String {
    machine.blob(REPO, &sha256(&fake_gguf(4, SIZE))).to_str().unwrap().to_owned()
}

/// Where the bytes that were asked for began.
fn ranges(machine: &Machine) -> (Vec<Option<String>>, usize) {
    let (log, sent) = machine.hub.take_log();
    (log.into_iter().filter(|r| r.from_cdn).map(|r| r.range).collect(), sent)
}

#[test]
fn a_second_pull_goes_on_where_the_connection_was_cut() {
    let machine = published();
    machine.hub.fault(Fault::Cut(100_000));
    machine.refused(NAME, &["given up after 3 tries: the connection to", "pull again"]);
    let partial = format!("{}.incomplete", blob(&machine));
    assert_eq!(fs::metadata(&partial).unwrap().len(), 100_000);
    let rest = Some("bytes=100000-".to_owned());
    assert_eq!(ranges(&machine), (vec![None, rest.clone(), rest.clone()], 100_000));

    machine.hub.fault(Fault::None);
    machine.pulled(NAME);
    assert_eq!(ranges(&machine), (vec![rest], SIZE - 100_000));
    assert_eq!(fs::read(blob(&machine)).unwrap(), fake_gguf(4, SIZE));
    assert!(!fs::exists(&partial).unwrap());
}

#[test]
fn a_pull_resumes_at_once_after_a_connection_that_is_cut_once() {
    let machine = published();
    machine.hub.fault(Fault::CutOnce(200_000));
    let done = machine.pull(NAME);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("trying again"), "{}", done.err);
    assert_eq!(ranges(&machine), (vec![None, Some("bytes=200000-".into())], SIZE));
}

#[test]
fn a_pull_that_was_killed_resumes() {
    let machine = published();
    machine.hub.fault(Fault::Hang(150_000));
    let mut command = machine.command(&["pull", NAME]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let partial = format!("{}.incomplete", blob(&machine));
    let started = Instant::now();
    while fs::metadata(&partial).map_or(0, |m| m.len()) < 150_000 {
        assert!(started.elapsed() < Duration::from_secs(60), "no progress");
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    machine.assert_nothing_whole();
    machine.hub.take_log();
    machine.hub.fault(Fault::None);
    machine.pulled(NAME);
    assert_eq!(ranges(&machine), (vec![Some("bytes=150000-".into())], SIZE - 150_000));
}

#[test]
fn a_server_that_stalls_is_given_up() {
    let machine = published();
    machine.hub.fault(Fault::Hang(1000));
    let started = Instant::now();
    let mut command = machine.command(&["pull", NAME]);
    let done: Done = command.env("HF_HUB_DOWNLOAD_TIMEOUT", "1").output().unwrap().into();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("sent nothing for 1 s"), "{}", done.err);
    assert!(done.err.contains("HF_HUB_DOWNLOAD_TIMEOUT"), "{}", done.err);
    assert!(started.elapsed() < Duration::from_secs(30));
    machine.assert_nothing_whole();
}

#[test]
fn a_slow_server_is_waited_for_and_a_terminal_sees_how_long() {
    let machine = published();
    machine.hub.fault(Fault::Slow);
    let line = format!("{} pull {NAME}", env!("CARGO_BIN_EXE_tandem"));
    let mut command = machine.guard(Command::new("script"));
    // All of it takes four times as long as a pause may take.
    command.args(["-qec", &line, "/dev/null"]).env("HF_HUB_DOWNLOAD_TIMEOUT", "1");
    let done = command.env("COLUMNS", "100").stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{shown}");
    assert_eq!(fs::read(blob(&machine)).unwrap(), fake_gguf(4, SIZE));
    let progress = |words: &[&str]| shown.split('\r').any(|l| words.iter().all(|w| l.contains(w)));
    assert!(progress(&["of 292.97 KiB", "KiB/s", "left"]), "{shown:?}");
}

#[test]
fn bytes_with_another_hash_are_refused_and_thrown_away() {
    let machine = published();
    machine.hub.fault(Fault::WrongBytes);
    machine.refused(NAME, &["tiny-Q4_K_M.gguf arrived damaged", "sha256", "pull again"]);
    let left = files(&machine.cache());
    assert!(left.iter().all(|f| f.ends_with(".lock")), "{left:?}");
    let done = machine.run(&["run", "hi", "--mode", "small", "--edge-model", NAME]);
    assert!(done.err.contains("is not here"), "{}", done.err);
}

#[test]
fn small_files_are_checked_too() {
    // A hash of git's that is another file's.
    let machine = Machine::new(Hub::start().with("test/x", &[("x.gguf", &fake_gguf(1, 9000))]));
    machine.hub.fault(Fault::Etag("ce013625030ba8dba906f756967f9e9ca394464a"));
    machine.refused("hf:test/x", &["arrived damaged", "git hash"]);
}

#[test]
fn half_a_file_with_other_bytes_is_fetched_again_from_the_start() {
    let machine = published();
    let partial = format!("{}.incomplete", blob(&machine));
    for (left, expected) in [
        // As long as the file, longer, and shorter.
        (vec![0; SIZE], vec![None]),
        (vec![0; SIZE + 5], vec![None]),
        (vec![0; 1000], vec![Some("bytes=1000-".to_owned()), None]),
    ] {
        fs::create_dir_all(machine.blob(REPO, "")).unwrap();
        File::create(&partial).unwrap().write_all(&left).unwrap();
        machine.hub.take_log();
        machine.pulled(NAME);
        assert_eq!(ranges(&machine).0, expected);
        assert_eq!(fs::read(blob(&machine)).unwrap(), fake_gguf(4, SIZE));
        fs::remove_dir_all(machine.cache()).unwrap();
    }
}

#[test]
fn a_server_without_ranges_is_read_from_the_start() {
    let machine = published();
    machine.hub.fault(Fault::Cut(100_000));
    machine.refused(NAME, &[]);
    machine.hub.fault(Fault::NoRanges);
    machine.pulled(NAME);
    machine.hub.take_log();
    // One that sends another range than it was asked for is not believed.
    let machine = published();
    machine.hub.fault(Fault::Cut(100_000));
    machine.refused(NAME, &[]);
    machine.hub.fault(Fault::WrongRange);
    machine.refused(NAME, &["bytes from 100000 were requested"]);
}

#[test]
fn what_is_gated_says_what_to_do_and_the_token_stays_with_the_hub() {
    let machine = published();
    machine.hub.gate("hf_good");
    let page = format!("{}/test/tiny-GGUF", machine.hub.endpoint);
    machine.refused(NAME, &["401", "accept its licence", &page, "set HF_TOKEN"]);
    let with = |token: &str| -> Done {
        machine.command(&["pull", NAME]).env("HF_TOKEN", token).output().unwrap().into()
    };
    let done = with("hf_bad");
    assert_eq!(done.code, Some(1));
    assert!(
        done.err.contains("403") && done.err.contains("the token from HF_TOKEN"),
        "{}",
        done.err
    );
    assert!(!done.err.contains("hf_bad"), "{}", done.err);

    machine.hub.take_log();
    assert_eq!(with("hf_good").code, Some(0));
    let (log, _) = machine.hub.take_log();
    for request in log {
        let expected = if request.from_cdn { None } else { Some("Bearer hf_good") };
        assert_eq!(request.token.as_deref(), expected, "{request:?}");
    }
    // The token that the hub's own tools keep in a file.
    fs::write(machine.path("hf/token"), "hf_good\n").unwrap();
    machine.pulled("hf:test/tiny-GGUF:Q8_0");
}

#[test]
fn what_is_not_there_is_said_so() {
    let machine = published();
    let endpoint = machine.hub.endpoint.clone();
    let said = machine.refused("hf:test/nothing", &["there is no model test/nothing", &endpoint]);
    assert_eq!(said.lines().count(), 1, "{said}");
    machine.refused("hf:test/tiny-GGUF:other.gguf", &["has no other.gguf", "tiny-Q8_0.gguf"]);
    // Listed, but gone when it is asked for.
    machine.hub.list_also("test/gone", "gone.gguf");
    machine.refused("hf:test/gone", &["404", "test/gone/gone.gguf"]);
    let mut command = machine.command(&["pull", NAME]);
    let done: Done = command.env("HF_ENDPOINT", "http://127.0.0.1:9").output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("127.0.0.1:9 cannot be reached"), "{}", done.err);
}

#[test]
fn names_and_hashes_that_lead_elsewhere_are_refused() {
    for name in ["../../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "a\\b.gguf"] {
        let machine = published();
        machine.hub.list_also(REPO, name);
        machine.refused(NAME, &["leads out of the repository"]);
    }
    for etag in ["../../evil", "", "0123"] {
        let machine = published();
        machine.hub.fault(Fault::Etag(etag));
        machine.refused(NAME, &["no hash to check"]);
    }
}

#[test]
fn a_full_disk_is_said_so_and_leaves_nothing_whole() {
    let machine = published();
    let script = format!(
        "'{}' pull {NAME}; code=$?; find '{}' -type f -path '*blobs*'; exit $code",
        env!("CARGO_BIN_EXE_tandem"),
        machine.cache().display()
    );
    let Some(command) = on_a_disk_of("200k", &machine.path("hf"), &script) else { return };
    let done: Done = machine.guard(command).output().unwrap().into();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("the disk is full: 1 more MB"), "{}", done.err);
    assert!(done.err.contains("make room and pull again"), "{}", done.err);
    assert_eq!(done.out, "", "something was written");
}

#[test]
fn a_disk_that_fills_up_on_the_way_keeps_what_is_there() {
    let machine = published();
    let disk = machine.path("hf");
    // While the server pauses, something else takes the rest of the disk.
    machine.hub.fault(Fault::Hang(100_000));
    let script = format!(
        "cd '{0}'\n\
         '{1}' pull {NAME} & pid=$!\n\
         while [ $(cat hub/*/blobs/*.incomplete 2>/dev/null | wc -c) -lt 100000 ]; do sleep 0.05; done\n\
         cat /dev/zero >full 2>/dev/null\n\
         wait $pid; code=$?; ls hub/*/blobs; exit $code",
        disk.display(),
        env!("CARGO_BIN_EXE_tandem")
    );
    let Some(command) = on_a_disk_of("400k", &disk, &script) else { return };
    let mut command = machine.guard(command);
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "5");
    let done: Done = command.output().unwrap().into();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("the disk is full: 1 more MB"), "{}", done.err);
    assert_eq!(done.out.trim(), format!("{}.incomplete", sha256(&fake_gguf(4, SIZE))));
}

#[test]
fn a_file_another_program_is_fetching_is_left_to_it() {
    let machine = published();
    let hash = sha256(&fake_gguf(4, SIZE));
    let lock = machine.cache().join(format!(".locks/models--test--tiny-GGUF/{hash}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = File::create(&lock).unwrap();
    held.lock().unwrap();
    machine.refused(NAME, &["another program is downloading this file"]);
    drop(held);
    machine.pulled(NAME);
    assert!(machine.snapshot(REPO, "tiny-Q4_K_M.gguf").to_str().unwrap().contains(COMMIT));
}
