//! `tandem serve` as users meet it: the address, the keys, the documented commands, Ctrl-C.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::Value;

use crate::common::{Done, SMALL, hang_up, interrupt, run, tandem};

/// A `tandem serve` process; killed when dropped.
struct Server {
    child: Child,
    url: String,
    said: Receiver<String>,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let all = [&["serve", "--cloud-model", SMALL, "--context", "1024"], arguments].concat();
        let mut child = tandem(&all).env_remove("TANDEM_API_KEYS").spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut before = vec![];
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{before:?}")).unwrap();
            match line.strip_prefix("listening on ") {
                Some(url) => break url.to_owned(),
                None => before.push(line),
            }
        };
        let (tell, said) = channel();
        before.into_iter().for_each(|line| tell.send(line).unwrap());
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|l| drop(tell.send(l))));
        Self { child, url, said }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "-m", "60"]).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The commands of the server's page of the documentation, as they stand.
fn documented_commands() -> Vec<String> {
    let page = include_str!("../../../../../docs/server.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let mut commands: Vec<String> = vec![];
    for block in blocks {
        let mut inside = false;
        for line in block.lines() {
            inside = line.starts_with("curl") || (inside && !line.starts_with("tandem"));
            match commands.last_mut() {
                _ if line.starts_with("curl") => commands.push(line.into()),
                // A body goes on over several lines.
                Some(command) if inside => *command += &format!("\n{line}"),
                _ => {}
            }
        }
    }
    commands
}

/// As they stand but for the port: somebody else may have the one they name.
#[test]
fn a_quiet_server_logs_nothing_of_a_request_that_went_well() {
    let mut server = Server::start(&[]);
    curl(&[&format!("{}/health", server.url)]);
    interrupt(&server.child);
    server.child.wait().unwrap();
    let said: Vec<_> = server.said.iter().collect();
    assert!(!said.iter().any(|line| line.contains("request{")), "{said:?}");
}

#[test]
fn the_documented_commands_work() {
    let default = "127.0.0.1:8080";
    assert!(run(&["serve", "--help"]).out.contains(default));
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let commands = documented_commands();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        assert!(command.contains(default), "{command}");
        let command = command.replace(default, server.url.trim_start_matches("http://"));
        let output = Command::new("sh").args(["-c", &command]).output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command}: {err}");
        assert!(!out.is_empty() && !out.contains("\"error\":"), "{command}: {out}");
    }
}

#[test]
fn keys_come_from_arguments_files_and_the_environment() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n\nsecond\n").unwrap();
    let path = file.path().to_str().unwrap();
    let server =
        Server::start(&["--listen", "127.0.0.1:0", "--api-key", "third", "--api-key-file", path]);
    let models = format!("{}/v1/models", server.url);
    let status = |key: &str| {
        curl(&[
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            &format!("Authorization: Bearer {key}"),
            &models,
        ])
    };
    for key in ["first", "second", "third"] {
        assert_eq!(status(key), "200");
    }
    assert_eq!(status("fourth"), "401");
    let empty = tempfile::NamedTempFile::new().unwrap();
    let done = run(&[
        "serve",
        "--api-key-file",
        empty.path().to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    for key in ["", "first,,second"] {
        let done = run(&["serve", "--api-key", key, "--listen", "127.0.0.1:0"]);
        assert_eq!(done.code, Some(2), "{key:?}: {}", done.err);
        assert!(done.err.contains("must not be empty"), "{}", done.err);
    }
    let done = run(&["serve", "--cors", "nonsense", "--listen", "127.0.0.1:0"]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    let help = tandem(&["serve", "--help"]).env("TANDEM_API_KEYS", "hunter2").output().unwrap();
    assert!(!Done::from(help).out.contains("hunter2"));
}

#[test]
fn a_note_where_everybody_is_let_in() {
    let open = Server::start(&["--listen", "0.0.0.0:0"]);
    let note = open.said.recv_timeout(Duration::from_secs(1)).unwrap();
    assert!(note.contains("--api-key"), "{note}");
    let server = Server::start(&["--listen", "127.0.0.1:0", "--offline"]);
    assert!(server.said.try_recv().is_err());
    let about: Value =
        serde_json::from_str(&curl(&[&format!("{}/v1/tandem", server.url)])).unwrap();
    assert_eq!(about["cloud"]["place"], "none");
    let body = r#"{"model":"tandem-large","messages":[{"role":"user","content":"x"}]}"#;
    let json = ["-H", "Content-Type: application/json", "-d", body];
    let url = format!("{}/v1/chat/completions", server.url);
    let refused = curl(&[&json[..], &[&url]].concat());
    assert!(refused.contains("there is no cloud here"), "{refused}");
}

#[test]
fn an_interrupt_finishes_what_runs() {
    let mut server = Server::start(&["--listen", "127.0.0.1:0"]);
    let body = r#"{"model":"tandem-small","stream":true,"max_tokens":60,
        "messages":[{"role":"user","content":"Write a long story about the sea."}]}"#;
    let mut reader = Command::new("curl")
        .args(["-sS", "-N", "-H", "Content-Type: application/json", "-d", body])
        .arg(format!("{}/v1/chat/completions", server.url))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = reader.stdout.take().unwrap();
    let mut first = [0; 32];
    out.read_exact(&mut first).unwrap();
    interrupt(&server.child);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]"), "{rest}");
    drop(reader.wait());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

/// Asks until a status comes, for ten seconds.
fn comes_to(status: &str, ask: impl Fn() -> String) {
    let mut last = String::new();
    for _ in 0..200 {
        last = ask();
        if last == status {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{last} is not {status}");
}

#[test]
fn a_hang_up_has_the_configuration_read_again_and_drops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, keys) = (folder.path().join("tandem.toml"), folder.path().join("keys"));
    let config = |more: &str| {
        let text = format!("[serve]\napi-key-file = {:?}\n{more}\n", keys.to_str().unwrap());
        std::fs::write(&file, text).unwrap();
    };
    std::fs::write(&keys, "first\n").unwrap();
    config("");
    let mut server =
        Server::start(&["--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()]);
    let as_key = |key: &str, more: &[&str]| {
        let bearer = format!("Authorization: Bearer {key}");
        let quiet = ["-o", "/dev/null", "-w", "%{http_code}", "-H", &bearer];
        curl(&[&quiet[..], more].concat())
    };
    let models = format!("{}/v1/models", server.url);
    assert_eq!(as_key("first", &[&models]), "200");
    assert_eq!(as_key("second", &[&models]), "401");

    let chat = format!("{}/v1/chat/completions", server.url);
    let small = r#"{"model":"tandem-small","stream":true,"max_tokens":80,
        "messages":[{"role":"user","content":"Write a long story about the sea."}]}"#;
    let json = ["-H", "Content-Type: application/json", "-d", small, &chat];
    let mut reader = Command::new("curl")
        .args(["-sS", "-N", "-H", "Authorization: Bearer first"])
        .args(json)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = reader.stdout.take().unwrap();
    let mut first = [0; 32];
    out.read_exact(&mut first).unwrap();

    std::fs::write(&keys, "second\n").unwrap();
    config("modes = \"joint\"\nkey-requests = 1");
    hang_up(&server.child);
    comes_to("200", || as_key("second", &[&models]));
    assert_eq!(as_key("first", &[&models]), "401");
    // The key is right and the mode is no longer allowed; then its one request a minute is used up.
    assert_eq!(as_key("second", &json), "403");
    assert_eq!(as_key("second", &json), "429");
    // What was under way went on to its end, with the key and the mode it began with.
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]"), "{rest}");
    drop(reader.wait());

    for (bad, said) in [("frobnicate = 1", "frobnicate"), ("modes = \"small\"", "--mode joint")] {
        config(bad);
        hang_up(&server.child);
        let line = loop {
            let line = server.said.recv_timeout(Duration::from_secs(10)).unwrap();
            if line.contains("the configuration stays as it was") {
                break line;
            }
        };
        assert!(line.contains(said), "{line}");
        assert_eq!(as_key("second", &[&models]), "200");
    }
    assert!(server.child.try_wait().unwrap().is_none(), "a hang-up ends nothing");
}

#[test]
fn the_log_is_json_where_that_is_wanted() {
    let typed = ["--listen", "127.0.0.1:0", "--offline", "-v", "--log-format", "json"];
    let server = Server::start(&typed);
    curl(&["-H", "x-request-id: mine-7", &format!("{}/v1/models", server.url)]);
    let answered = loop {
        let line = server.said.recv_timeout(Duration::from_secs(10)).unwrap();
        // What is said to people, such as the address, is no part of the log.
        if let Ok(Value::Object(entry)) = serde_json::from_str(&line)
            && entry.get("message").is_some_and(|message| message == "answered")
        {
            break entry;
        }
    };
    assert_eq!((&answered["level"], &answered["id"]), (&"INFO".into(), &"mine-7".into()));
    assert_eq!((&answered["status"], &answered["route"]), (&200.into(), &"/v1/models".into()));
    assert!(answered["timestamp"].is_string() && answered["milliseconds"].is_u64(), "{answered:?}");
}

#[test]
fn further_pairs_of_the_file_are_served_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tandem.toml");
    let config = |more: &str| {
        let text = format!(
            "[serve.pairs.quiz]\npreset = \"commonsenseqa\"\noffline = true\n\
             [serve.pairs.brief]\noffline = true\nmax-tokens = 2\n{more}"
        );
        std::fs::write(&file, text).unwrap();
    };
    config("");
    let typed = ["--listen", "127.0.0.1:0", "--config", file.to_str().unwrap(), "-v"];
    let server = Server::start(&typed);
    let about: Value =
        serde_json::from_str(&curl(&[&format!("{}/v1/tandem", server.url)])).unwrap();
    let told: Vec<_> = about["pairs"].as_array().unwrap().iter().collect();
    let names: Vec<_> = told.iter().map(|pair| pair["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tandem", "brief", "quiz"]);
    assert_eq!(
        (&told[2]["preset"], &told[2]["cloud"]["place"]),
        (&"commonsenseqa".into(), &"none".into())
    );
    // The context is the server's, the limit on tokens the pair's own.
    assert_eq!(
        (&told[1]["limits"]["context"], &told[1]["limits"]["max_tokens"]),
        (&1024.into(), &2.into())
    );
    let answer = |model: &str| -> Value {
        let body = format!(
            r#"{{"model":"{model}","max_tokens":12,"temperature":0,
                "messages":[{{"role":"user","content":"Where would you find a mine? Answer in one word."}}]}}"#
        );
        let url = format!("{}/v1/chat/completions", server.url);
        serde_json::from_str(&curl(&["-H", "Content-Type: application/json", "-d", &body, &url]))
            .unwrap()
    };
    let text =
        |answer: &Value| answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let (own, quiz) = (answer("tandem-small"), answer("quiz-small"));
    assert_eq!((&own["model"], &quiz["model"]), (&"tandem-small".into(), &"quiz-small".into()));
    // The same weights, once with the preset's adapter: they are in memory once, and write another text.
    assert_ne!(text(&own), text(&quiz));
    let said: Vec<String> = server.said.try_iter().collect();
    let shared =
        said.iter().filter(|line| line.contains("weights are loaded already and are shared"));
    assert!(shared.count() >= 2, "{said:?}");
    assert!(answer("quiz-large")["error"]["message"].as_str().unwrap().contains("no cloud here"));
    assert_eq!(answer("physics-small")["error"]["code"], "model_not_found");

    config("[serve.pairs.late]\noffline = true\n");
    hang_up(&server.child);
    let line = loop {
        let line = server.said.recv_timeout(Duration::from_secs(10)).unwrap();
        if line.contains("[serve.pairs]") {
            break line;
        }
    };
    assert!(line.contains("restart it"), "{line}");
    assert_eq!(answer("late-small")["error"]["code"], "model_not_found");
}

#[test]
fn a_pair_that_cannot_be_loaded_is_named_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tandem.toml");
    std::fs::write(&file, "[serve.pairs.quiz]\nedge-model = \"/nowhere/quiz.gguf\"\n").unwrap();
    let typed =
        ["serve", "--listen", "127.0.0.1:0", "--offline", "--config", file.to_str().unwrap()];
    let done = run(&typed);
    assert!(done.code != Some(0) && !done.err.contains("listening"), "{}", done.err);
    assert!(
        done.err.contains("[serve.pairs.quiz]: ") && done.err.contains("quiz.gguf"),
        "{}",
        done.err
    );
}
