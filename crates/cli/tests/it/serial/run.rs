//! `tandem run`, end to end with real models.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::common::{SMALL, count, interrupt, joined, run, run_with_input, tandem};

const QUESTION: &str = "What is the capital of France?";

fn stats_tokens(report: &Value) -> u64 {
    report["stats"]["tokens"].as_u64().unwrap()
}

#[test]
fn three_modes_answer_and_account_for_every_token() {
    for (mode, source) in [("small", "edge"), ("joint", "edge"), ("large", "cloud")] {
        let done = run(&["run", QUESTION, "--mode", mode, "--max-tokens", "24", "--json"]);
        let report = done.json();
        let text = report["text"].as_str().unwrap();
        assert!(!text.trim().is_empty(), "{mode}");
        let limit = stats_tokens(&report) == 24;
        assert_eq!(
            report["finish_reason"],
            if limit { "length" } else { "stop" },
            "{mode}: {text}"
        );
        assert_eq!(joined(&report), text);
        assert!(count(&report, source) > 0, "{report}");
        let stats = &report["stats"];
        assert_eq!(stats_tokens(&report), report["tokens"].as_array().unwrap().len() as u64);
        for figure in [
            "routed_share",
            "time_to_first_token_ms",
            "mean_time_between_tokens_ms",
            "tokens_per_second",
            "edge_prefill_ms",
            "edge_decode_ms",
            "router_ms",
            "cloud_prefill_ms",
            "cloud_decode_ms",
            "network_ms",
        ] {
            assert!(stats[figure].is_f64(), "{figure} in {stats}");
        }
        let cloud = count(&report, "cloud") as f64 / stats["tokens"].as_f64().unwrap();
        assert_eq!(stats["routed_share"], cloud);
        let last = done.err.lines().last().unwrap();
        assert!(last.contains("tokens/s") && last.contains("edge decode"), "{last}");
    }
}

#[test]
fn tau_0_is_small_and_tau_1_with_itself_as_cloud_is_large() {
    let text = |arguments: &[&str]| {
        let base = ["run", QUESTION, "--max-tokens", "24", "--json", "--cloud-model", SMALL];
        run(&[&base, arguments].concat()).json()
    };
    let (small, never) = (text(&["--mode", "small"]), text(&["--threshold", "0"]));
    assert_eq!(small["text"], never["text"]);
    assert_eq!(never["stats"]["asks"], 0);
    assert_eq!(never["stats"]["cloud_load_ms"], 0.0, "loaded for nothing");
    let (large, always) = (text(&["--mode", "large"]), text(&["--threshold", "1"]));
    assert_eq!(large["text"], always["text"]);
    assert_eq!(always["exchange"], "ids");
    assert_eq!(always["stats"]["routed_share"], 1.0);
}

#[test]
fn a_model_agrees_with_itself_ahead_of_time_and_in_drafts() {
    let report = |arguments: &[&str]| {
        let base = ["run", QUESTION, "--max-tokens", "24", "--json", "--cloud-model", SMALL];
        run(&[&base, arguments].concat()).json()
    };
    // Nearly every answer is what the edge went on with; a near-tie may be decided by the last bits.
    let network = ["--threshold", "0.9", "--simulate-rtt", "40ms", "--warm"];
    let hidden = report(&network);
    let stats = &hidden["stats"];
    let figure = |name: &str| stats[name].as_f64().unwrap();
    assert!(figure("confirmed_asks") > 0.0 && figure("hidden_ms") > 0.0, "{stats}");
    assert!(figure("confirmed_asks") > figure("contradicted_asks"), "{stats}");
    assert_eq!(figure("fallbacks"), 0.0);
    assert_eq!(joined(&hidden), hidden["text"].as_str().unwrap());
    let verified = report(&["--mode", "verify"]);
    let (passes, tokens) = (verified["stats"]["asks"].as_u64().unwrap(), stats_tokens(&verified));
    assert!(passes > 0 && passes * 2 <= tokens, "{passes} passes for {tokens} tokens");
    assert_eq!(joined(&verified), verified["text"].as_str().unwrap());
}

#[test]
fn a_piped_answer_is_the_text_and_nothing_else() {
    let done =
        run_with_input(&["run", "-", "--mode", "small", "--max-tokens", "24"], QUESTION.as_bytes());
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!done.out.contains('\x1b'));
    let report = run(&["run", QUESTION, "--mode", "small", "--max-tokens", "24", "--json"]).json();
    assert_eq!(done.out.trim_end_matches('\n'), report["text"].as_str().unwrap());
}

#[test]
fn a_terminal_shows_the_cloud_in_colour_unless_told_not_to() {
    let program = env!("CARGO_BIN_EXE_tandem");
    let line = format!(
        "TANDEM_PAIR=tiny {program} run '{QUESTION}' --threshold 1 --max-tokens 8 --cloud-model {SMALL}"
    );
    let on_terminal = |no_colour: &str| {
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("NO_COLOR", no_colour).stdin(Stdio::null());
        String::from_utf8_lossy(&script.output().unwrap().stdout).into_owned()
    };
    let coloured = on_terminal("");
    assert!(coloured.contains("\x1b[36m"), "{coloured:?}");
    let plain = on_terminal("1");
    let words = coloured.replace("\x1b[36m", "").replace("\x1b[0m", "");
    // Everything before the summary, whose times differ.
    let answer = |shown: &str| shown.split_once(" tokens, ").unwrap().0.to_owned();
    assert!(!plain.contains("\x1b[36m"), "{plain:?}");
    assert_eq!(answer(&words), answer(&plain));
}

#[test]
fn the_trace_has_a_line_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let (threshold, trace) = ("0.7", path.to_str().unwrap());
    let arguments = ["run", QUESTION, "--max-tokens", "24", "--json", "--cloud-model", SMALL];
    let report =
        run(&[&arguments[..], &["--threshold", threshold, "--trace", trace]].concat()).json();
    let trace = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = trace.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let tokens = report["tokens"].as_array().unwrap();
    assert_eq!(lines.len(), tokens.len());
    for (i, (line, token)) in lines.iter().zip(tokens).enumerate() {
        assert_eq!(line["index"], i);
        for field in ["text", "source", "score"] {
            assert_eq!(line[field], token[field]);
        }
        // A low score asks, a high one does not.
        let score = line["score"].as_f64().unwrap();
        assert_eq!(line["source"] == "cloud", score < 0.7, "{line}");
        assert_eq!(line["cloud"].is_object(), line["source"] == "cloud");
        assert!(line["times"]["edge_decode_ms"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let text = |seed: &str| {
        let arguments =
            ["run", "Tell me a story.", "--mode", "small", "--max-tokens", "30", "--json"];
        let warm = ["--temperature", "1", "--top-p", "0.95", "--seed", seed];
        run(&[&arguments[..], &warm].concat()).json()["text"].clone()
    };
    assert_eq!(text("7"), text("7"));
    assert_ne!(text("7"), text("8"));
}

#[test]
fn a_stop_string_ends_the_text_and_is_not_shown() {
    let arguments = ["run", QUESTION, "--mode", "small", "--json", "--max-tokens", "12"];
    let whole = run(&arguments).json()["text"].as_str().unwrap().to_owned();
    // Whatever it says: its fourth word is one to stop at.
    let word = whole.split_inclusive(' ').nth(3).unwrap_or_else(|| panic!("{whole}")).trim();
    let report = run(&[&arguments[..], &["--stop", word]].concat()).json();
    assert_eq!(report["finish_reason"], "stop");
    assert_eq!(report["text"], whole[..whole.find(word).unwrap()]);
}

#[test]
fn ctrl_c_stops_the_text_and_keeps_what_is_there() {
    let mut child =
        tandem(&["run", "Write a very long story.", "--mode", "small", "--max-tokens", "3000"])
            .spawn()
            .unwrap();
    let mut start = [0; 20];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut start).unwrap();
    let pressed = Instant::now();
    interrupt(&child);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(pressed.elapsed() < Duration::from_secs(3));
    assert_eq!(output.status.code(), Some(130));
    assert!(rest.ends_with('\n'));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.lines().last().unwrap().contains("cancelled"), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child =
        tandem(&["run", "Write a long story.", "--mode", "small", "--max-tokens", "200"])
            .spawn()
            .unwrap();
    let mut first = [0; 1];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn small_mode_stays_small() {
    // 30 layers, keys and values of 3 heads of 64 numbers in 16 bits.
    let kv = 4096 * 30 * 2 * 3 * 64 * 2;
    let model = 98_362_432;
    let mut child = tandem(&["run", "Write a story.", "--mode", "small", "--max-tokens", "40"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|p| p.trim().trim_end_matches(" kB").parse::<usize>().ok());
        most = most.max(kilobytes.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most > model, "{most}");
    // Some CPUs (with AVX-512 or AMX) have the weights packed anew for them, beside the file's own.
    assert!(
        most <= 2 * model + kv + 80_000_000,
        "{} MB over model and KV",
        (most - model - kv) / 1_000_000
    );
}

#[test]
fn help_version_and_completions() {
    assert!(run(&["--version"]).out.contains("llama.cpp"));
    for command in ["run", "chat", "cloud", "pull", "bench", "completions"] {
        assert!(run(&["--help"]).out.contains(command));
        assert_eq!(run(&[command, "--help"]).code, Some(0));
    }
    assert!(run(&["completions", "bash"]).out.contains("--threshold"));
}

#[test]
fn an_answer_fits_the_schema_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("place.json");
    let schema = r#"{"type": "object", "additionalProperties": false,
        "required": ["price", "city", "known"],
        "properties": {"price": {"type": "number"}, "city": {"type": "string"},
                       "known": {"type": "boolean"}}}"#;
    std::fs::write(&path, schema).unwrap();
    let path = path.to_str().unwrap();
    for mode in ["small", "joint"] {
        let report = run(&[
            "run",
            "--json",
            "--mode",
            mode,
            "--cloud-model",
            SMALL,
            "--max-tokens",
            "60",
            "--json-schema",
            path,
            "Where is the Eiffel Tower?",
        ])
        .json();
        assert_eq!(report["finish_reason"], "stop", "{report}");
        let answer: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
        assert_eq!(answer.as_object().unwrap().len(), 3, "{answer}");
        assert!(answer["price"].is_number() && answer["city"].is_string(), "{answer}");
        assert!(answer["known"].is_boolean(), "{answer}");
    }
    std::fs::write(path, r##"{"$ref": "#"}"##).unwrap();
    let done = run(&["run", "--json-schema", path, "x"]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("no finite document fits"), "{}", done.err);
    let done = run(&["run", "--json-schema", "/nowhere.json", "x"]);
    assert!(done.code != Some(0) && done.err.contains("/nowhere.json"), "{}", done.err);
}
