//! Bad input: a clear word, the right exit code, never a panic.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, io::Read, net::TcpListener};

use crate::common::{self, Cloud, Done, SMALL, count, run, run_with_input, tandem};

fn refused(arguments: &[&str], code: i32, says: &str) {
    let done = run(arguments);
    assert_eq!(done.code, Some(code), "{arguments:?}: {}", done.err);
    assert!(done.err.contains(says), "{arguments:?}: {}", done.err);
    assert_eq!(done.out, "", "{arguments:?}");
}

#[test]
fn usage_mistakes_are_2() {
    refused(&["run", "x", "--threshold", "1.5"], 2, "from 0 (never ask) to 1 (always ask)");
    refused(&["run", "x", "--threshold", "-1"], 2, "from 0 (never ask)");
    refused(&["run", "x", "--threshold", "nan"], 2, "from 0 (never ask)");
    refused(&["run", "x", "--max-tokens", "0"], 2, "from 1 to 1000000");
    refused(&["run", "x", "--max-tokens", "many"], 2, "a whole number");
    refused(&["run", "x", "--context", "9223372036854775807"], 2, "from 1 to 1048576");
    refused(&["run", "x", "--threads", "100000"], 2, "from 1 to 1024");
    let (a, b) = ("http://127.0.0.1:1", "http://127.0.0.1:2");
    let two = ["run", "x", "--cloud", a, "--cloud"];
    refused(&[&two[..], &[a]].concat(), 2, "is given twice");
    let keys = ["--cloud-key", "1", "--cloud-key", "2", "--cloud-key", "3"];
    refused(&[&two[..], &[b], &keys].concat(), 2, "3 keys for 2 clouds");
    refused(&[&two[..], &[b, "--cloud-key", ""]].concat(), 2, "--cloud-key");
    refused(&["run", "x", "--gpu-layers", "99999999999999999999"], 2, "from 0 to 10000");
    refused(&["cloud", "--cache-tokens", "18446744073709551615"], 2, "from 1 to 16777216");
    refused(&["cloud", "--sessions", "257"], 2, "from 1 to 256");
    refused(&["serve", "--parallel", "257"], 2, "from 1 to 256");
    refused(&["serve", "--queue", "99999999999"], 2, "from 0 to 100000");
    refused(&["serve", "--key-requests", "0"], 2, "from 1 to 1000000");
    refused(&["serve", "--key-cloud-tokens", "0"], 2, "from 1 to 1000000");
    refused(&["serve", "--time-limit", "99999999999999s"], 2, "at most an hour");
    refused(&["serve", "--max-wait", "0s"], 2, "a time above 0");
    refused(&["serve", "--max-share", "200%"], 2, "from 0% to 100%");
    for mode in ["large", "verify"] {
        let says = format!("--max-share does not allow --mode {mode}");
        refused(&["serve", "--mode", mode, "--max-share", "50%"], 2, &says);
    }
    refused(&["serve", "--modes", "joint,huge"], 2, "small, joint, large");
    refused(&["serve", "--modes", "small", "--mode", "joint"], 2, "--modes does not allow");
    refused(&["serve", "--tls-cert", "cert.pem"], 2, "--tls-key");
    refused(&["cloud", "--tls-key", "key.pem"], 2, "--tls-cert");
    refused(&["run", "x", "--top-k", "9999999999999"], 2, "from 0 to 1000000");
    refused(&["run", "x", "--simulate-rtt", "99999999999s"], 2, "at most an hour");
    refused(&["run", "x", "--simulate-rtt", "20ms/5s,400ms"], 2, "--simulate-rtt: write how long");
    refused(&["bench", "ask", "--lengths", "128,0"], 2, "from 1 to 1048576");
    refused(&["bench", "edge", "--behind", "99999999999"], 2, "from 0 to 1048576");
    refused(&["run", ""], 2, "the prompt is empty");
    refused(&["run", " \n"], 2, "the prompt is empty");
    refused(&["run", "x", "--mode", "medium"], 2, "small, joint, large");
    refused(&["run", "x", "--router", "oracle"], 2, "there are top1, margin");
    refused(&["run", "x", "--cloud", "localhost:80"], 2, "http://HOST:PORT");
    refused(&["run", "x", "--temperature", "-1"], 2, "temperature must be 0 or more");
    refused(&["run", "x", "--top-p", "0"], 2, "top-p must be above 0");
    refused(&["run", "x", "--threads", "0"], 2, "from 1 to 1024");
    refused(&["run"], 2, "PROMPT");
    refused(&["frobnicate"], 2, "unrecognized");
    assert_eq!(run_with_input(&["run", "-"], b"").code, Some(2));
    assert_eq!(run_with_input(&["run", "-"], b"\xff\xfe").code, Some(2));
}

/// What a server is told by a file. Where the mistake is not seen, it ends all the same: there is no
/// such model.
fn told(text: &str, command: &str, typed: &[&str]) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tandem.toml");
    fs::write(&file, text).unwrap();
    let model = if command == "serve" { "--edge-model" } else { "--cloud-model" };
    let always = ["--config", file.to_str().unwrap(), command, model, "none.gguf"];
    run(&[&always[..], &["--listen", "127.0.0.1:0"], typed].concat())
}

#[test]
fn half_of_an_encryption_in_the_file_is_refused() {
    for (text, command, says) in [
        ("[serve]\ntls-cert = \"cert.pem\"", "serve", "--tls-key is not"),
        ("[serve]\ntls-key = \"key.pem\"", "serve", "--tls-cert is not"),
        ("tls-cert = \"cert.pem\"", "cloud", "--tls-key is not"),
    ] {
        let done = told(text, command, &[]);
        assert_eq!(done.code, Some(2), "{text}: {}", done.err);
        assert!(done.err.contains(says), "{text}: {}", done.err);
    }
    // The other half may be typed: that there is no such file is the mistake then.
    let done = told("tls-cert = \"none.pem\"", "serve", &["--tls-key", "none.key"]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("none.pem"), "{}", done.err);
}

#[test]
fn keys_that_are_empty_are_refused_wherever_they_come_from() {
    for (text, command, says) in [
        ("[serve]\napi-key = []", "serve", "empty list"),
        ("[serve]\nmodes = []", "serve", "empty list"),
        ("[cloud]\nkey = []", "cloud", "empty list"),
        ("[serve]\napi-key = \"\"", "serve", "must not be empty"),
        ("[serve]\napi-key = [\"first\", \" \"]", "serve", "must not be empty"),
        ("[cloud]\nkey = \"\"", "cloud", "must not be empty"),
    ] {
        let done = told(text, command, &[]);
        assert_eq!(done.code, Some(2), "{text}: {}", done.err);
        assert!(done.err.contains(says), "{text}: {}", done.err);
    }
    // Before anything of the models is looked at, so that no other mistake hides it.
    let arguments = ["serve", "--edge-model", "none.gguf", "--listen", "127.0.0.1:0"];
    for keys in ["", " ", "first,"] {
        let done = tandem(&arguments).env("TANDEM_API_KEYS", keys).output().unwrap();
        let done = Done::from(done);
        assert_eq!(done.code, Some(2), "{keys:?}: {}", done.err);
        assert!(done.err.contains("must not be empty"), "{keys:?}: {}", done.err);
    }
}

#[test]
fn models_that_are_none_are_1_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let small = |model: &str, says: &str| {
        refused(&["run", "x", "--mode", "small", "--edge-model", model], 1, says);
    };
    small(&file("none.gguf"), "none.gguf");
    fs::write(file("text.gguf"), "not a model").unwrap();
    small(&file("text.gguf"), "is not a GGUF file");
    fs::write(file("cut.gguf"), b"GGUF\x03\0\0\0").unwrap();
    small(&file("cut.gguf"), "cut.gguf cannot be loaded");
    small("smollm3", "no model at smollm3");
    let adapter = format!("{}:0.5", file("text.gguf"));
    refused(
        &["run", "x", "--mode", "small", "--edge-adapter", &adapter],
        1,
        "text.gguf is not a GGUF",
    );

    let mut nothing_pulled = tandem(&["run", "x"]);
    nothing_pulled.env("TANDEM_HOME", folder.path()).env_remove("TANDEM_PAIR");
    let done: common::Done = nothing_pulled.output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("run `tandem pull`"), "{}", done.err);
    let mut other = tandem(&["run", "x", "--pair", "tiny"]);
    let done: common::Done = other.env("TANDEM_HOME", folder.path()).output().unwrap().into();
    assert!(done.err.contains("run `tandem pull --pair tiny`"), "{}", done.err);
}

#[cfg(not(any(feature = "cuda", feature = "metal", feature = "vulkan")))]
#[test]
fn gpu_layers_are_refused_in_one_line_where_no_gpu_support_is_built_in() {
    let asked = |layers: &str| {
        run(&["run", "x", "--mode", "small", "--max-tokens", "1", "--gpu-layers", layers])
    };
    let done = asked("99");
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_eq!(done.err.lines().count(), 1, "{}", done.err);
    assert!(done.err.contains("build it with --features cuda, vulkan or metal"), "{}", done.err);
    assert_eq!(done.out, "");
    assert_eq!(asked("0").code, Some(0));
}

#[test]
fn a_prompt_longer_than_the_context_is_said_so() {
    let long = "word ".repeat(600);
    refused(&["run", &long, "--mode", "small", "--context", "512"], 1, "the context holds 512");
    let done = run(&["run", &long, "--mode", "large", "--context", "512", "--cloud-model", SMALL]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("context"), "{}", done.err);
}

#[test]
fn a_context_that_fills_up_ends_with_length() {
    // So long a question that there is room for a dozen words: no story ends that soon.
    let question = "Write a very long story about the sea. ".repeat(9);
    for mode in ["small", "joint", "large"] {
        let report = run(&[
            "run",
            &question,
            "--mode",
            mode,
            "--context",
            "128",
            "--max-tokens",
            "4000",
            "--cloud-model",
            SMALL,
            "--json",
            "--threshold",
            "0.1",
        ])
        .json();
        assert_eq!(report["finish_reason"], "length", "{mode}");
        assert!((2..60).contains(&report["stats"]["tokens"].as_u64().unwrap()), "{mode} {report}");
    }
}

#[test]
fn a_port_in_use_is_said_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["cloud", "--listen", &address, "--cloud-model", SMALL], 1, "choose another --listen");
}

#[test]
fn a_cloud_that_is_not_there_is_survived_in_joint_and_fatal_in_large() {
    let nowhere = "http://127.0.0.1:9";
    let arguments = ["run", "What is 2+2?", "--cloud", nowhere, "--max-tokens", "12", "--json"];
    let done = run(&[&arguments[..], &["--threshold", "1"]].concat());
    let report = done.json();
    assert!(count(&report, "fallback") > 0);
    assert_eq!(count(&report, "cloud"), 0);
    assert!(report["cloud_error"].as_str().unwrap().contains("cannot be reached"));
    assert!(done.err.contains("the edge finished alone"), "{}", done.err);
    assert!(done.err.lines().last().unwrap().contains("fallbacks"), "{}", done.err);

    let done = run(&[&arguments[..], &["--mode", "large"]].concat());
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("cannot be reached"), "{}", done.err);
    let report: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(report["finish_reason"], "error");
}

#[test]
fn a_cloud_elsewhere_works_wants_its_key_and_may_die() {
    let mut cloud = Cloud::start(&["--cloud-model", SMALL, "--key", "secret", "--context", "1024"]);
    let url = cloud.url.clone();
    let base = ["run", "Tell me about the sea.", "--cloud", &url, "--threshold", "1", "--json"];

    let denied = run(&[&base[..], &["--max-tokens", "4"]].concat()).json();
    assert!(denied["cloud_error"].as_str().unwrap().contains("key"), "{denied}");
    let served = run(&[&base[..], &["--max-tokens", "4", "--cloud-key", "secret"]].concat()).json();
    assert_eq!(count(&served, "cloud"), 4);

    // Killed in the middle of a generation: the text goes on.
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let rest = ["--max-tokens", "120", "--cloud-key", "secret", "--trace", trace.to_str().unwrap()];
    let mut child = tandem(&[&base[..base.len() - 1], &rest].concat()).spawn().unwrap();
    let mut text = vec![0; 20];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut text).unwrap();
    cloud.child.kill().unwrap();
    out.read_to_end(&mut text).unwrap();
    let done = common::Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("the edge finished alone"), "{}", done.err);
    let trace = fs::read_to_string(&trace).unwrap();
    let tokens: Vec<serde_json::Value> =
        trace.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let sources: Vec<_> = tokens.iter().map(|t| t["source"].as_str().unwrap()).collect();
    let lost = sources.iter().position(|s| *s == "fallback").unwrap();
    let told_why = || format!("{sources:?} because of {}", done.err);
    assert!(lost > 0 && sources[..lost].iter().all(|s| *s == "cloud"), "{}", told_why());
    assert!(sources[lost..].iter().all(|s| *s == "fallback"), "{}", told_why());
    let told: String = tokens.iter().map(|t| t["text"].as_str().unwrap()).collect();
    assert_eq!(
        String::from_utf8(text).unwrap().trim_end_matches('\n'),
        told.trim_end_matches('\n')
    );
}
