//! `tandem eval`, `tandem bench original` and `tandem bench network`, end to end with the small model as its
//! own cloud.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path};

use serde_json::Value;

use crate::common::{Cloud, Done, SMALL, kill_once_it_wrote, run, tandem};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Three questions that come with the program, at two points beside small and large.
fn eval(results: &Path, more: &[&str]) -> std::process::Command {
    let base = ["eval", "builtin", "--cloud-model", SMALL, "--router", "top1", "--budget", "20%"];
    let sizes = ["--limit", "3", "--context", "512", "--max-tokens", "40", "--json"];
    tandem(&[&base[..], &sizes, &["--results", text(results)], more].concat())
}

fn finished(mut command: std::process::Command) -> Done {
    command.output().unwrap().into()
}

/// Everything but times: who answered what, and which token came from where.
fn answers(results: &Path) -> Vec<Value> {
    let read = fs::read_to_string(results).unwrap();
    let lines = read.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let plain = |mut line: Value| {
        let outcome = line.get_mut("outcome")?;
        outcome.as_object_mut()?.remove("figures");
        Some(outcome.clone())
    };
    lines.filter_map(plain).collect()
}

#[test]
fn a_killed_evaluation_ends_with_the_same_answers_and_routes() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole.jsonl"), folder.path().join("killed.jsonl"));
    let table = finished(eval(&whole, &[])).json();
    for _ in 0..3 {
        kill_once_it_wrote(eval(&killed, &[]), &killed);
    }
    let again = finished(eval(&killed, &[])).json();
    assert_eq!(answers(&whole), answers(&killed));
    assert_eq!(answers(&whole).len(), 3 * 4);

    let points = table["points"].as_array().unwrap();
    let modes: Vec<_> = points.iter().map(|p| p["mode"].as_str().unwrap()).collect();
    assert_eq!(&modes[..4], ["small", "joint", "joint", "large"]);
    assert_eq!(points[2]["router"], "random");
    assert!(points.iter().any(|p| p["mode"] == "query"));
    assert!(points.iter().any(|p| p["mode"] == "oracle"));
    for (one, other) in points.iter().zip(again["points"].as_array().unwrap()) {
        for key in ["name", "accuracy", "accuracy_low", "routed_share", "gap_recovered", "budget"] {
            assert_eq!(one[key], other[key], "{key}");
        }
    }
    assert_eq!(points[3]["routed_share"], 1.0);
    assert!(points[1]["routed_share"].as_f64().unwrap() > 0.0);
    assert!(points[1]["gigabytes_per_answer"].as_f64().unwrap() > 0.1);
    assert!(table["harness"]["overhead"].as_f64().unwrap() < 0.1, "{}", table["harness"]);

    // Results are about something, and about nothing else.
    let refused = finished(eval(&whole, &["--seed", "9"]));
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("--seed"), "{}", refused.err);
}

#[test]
fn a_cloud_of_plain_text_is_given_the_template() {
    let server = Cloud::start_as("serve", &["--offline", "--context", "512"]);
    let arguments = ["eval", "builtin", "--limit", "1", "--max-tokens", "24", "--context", "512"];
    let points = ["--router", "top1", "--budget", "20%", "--baseline", "none", "--json"];
    let place = ["--cloud", &server.url, "--cloud-engine", "openai"];
    let base = [&arguments[..], &points, &place, &["--cloud-model", "tandem-small"]].concat();
    let table = run(&[&base[..], &["--cloud-template", "chatml"]].concat()).json();
    let asked = table["points"].as_array().unwrap().iter().find(|p| p["mode"] == "joint");
    assert!(asked.unwrap()["routed_share"].as_f64().unwrap() > 0.0, "{table}");

    let refused = run(&base);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("--cloud-template"), "{}", refused.err);

    // It gives texts, and not what it thinks of one.
    let oracle = ["--cloud-template", "chatml", "--oracle", "0.3"];
    let refused = run(&[&base[..], &oracle].concat());
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("--oracle needs a cloud that says how likely"), "{}", refused.err);
}

#[test]
fn paces_and_oracles_are_rows_beside_a_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("r.jsonl");
    let adapter =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/commonsenseqa/edge.gguf");
    let base = ["eval", "builtin", "--limit", "2", "--context", "512", "--max-tokens", "40"];
    // The same model without the adapter, so that the two part now and then.
    let pair = ["--cloud-model", SMALL, "--edge-adapter", text(&adapter), "--router", "top1"];
    let points = ["--threshold", "0.5", "--pace", "1s", "--oracle", "0.05,1", "--no-large"];
    let network = ["--simulate-rtt", "10ms/1s,30ms/1s", "--json", "--results", text(&results)];
    let table = run(&[&base[..], &pair, &points, &network].concat()).json();
    let rows = table["points"].as_array().unwrap();
    let row = |name: &str| {
        let found = rows.iter().find(|row| row["name"].as_str().unwrap().starts_with(name));
        found.unwrap_or_else(|| panic!("{name} in {table}"))
    };
    let paced = row("top1 pace 1000ms from 1%");
    assert_eq!((&paced["pace_ms"], &paced["network"]), (&1000.0.into(), &"10ms/1s,30ms/1s".into()));
    assert!(paced["between_tokens_mean_ms"].as_f64().unwrap() > 0.0, "{paced}");
    assert!(paced["accuracy"].is_number() && paced["between_tokens_p95_ms"].is_number(), "{paced}");
    // No machine that tests run on takes a second for a token.
    assert!(paced["pace_miss"].is_string(), "{paced}");
    assert!(row("top1 τ 0.5")["pace_ms"].is_null());
    assert!(row("random like top1 pace 1000ms")["pace_ms"].is_null());
    let share = |name: &str| row(name)["routed_share"].as_f64().unwrap();
    assert_eq!(row("oracle 1 ")["mode"], "token-oracle");
    assert!(share("oracle 1 ") > 0.0 && share("oracle 1 ") < 0.9, "{table}");
    assert!(share("oracle 0.05 ") <= share("oracle 1 "), "{table}");
    // What a pace has seen is in the results, for a run that resumes.
    let saved = answers(&results);
    let of_pace = |line: &&Value| line["point"].as_str().unwrap().starts_with("top1 pace");
    let last = saved.iter().rfind(of_pace).unwrap();
    assert!(last["spent"]["pace"]["tokens"].as_u64().unwrap() > 0, "{last}");
}

#[test]
fn a_dead_network_is_borne() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("r.jsonl");
    let base = ["eval", "builtin", "--limit", "1", "--context", "512", "--max-tokens", "24"];
    let pair = ["--cloud-model", SMALL, "--router", "top1", "--threshold", "0.9"];
    let points = ["--no-large", "--baseline", "none", "--json", "--results", text(&results)];
    let network = ["--simulate-rtt", "dead/40s,10ms/1s", "--ask-deadline", "300ms"];
    let table = run(&[&base[..], &pair, &points, &network].concat()).json();
    let read = fs::read_to_string(&results).unwrap();
    let joint = read.lines().last().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let joint = &joint.unwrap()["outcome"];
    assert!(joint["point"].as_str().unwrap().starts_with("top1 τ 0.9"), "{joint}");
    assert!(joint["figures"]["fallback_tokens"].as_u64().unwrap() > 0, "{joint}");
    assert_eq!(joint["figures"]["cloud_tokens"], 0, "{table}");
}

#[test]
fn thresholds_networks_and_open_texts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("prompts.jsonl");
    fs::write(&data, "{\"prompt\": \"Describe a river.\"}\n").unwrap();
    let results = folder.path().join("r.jsonl");
    let base = ["eval", "text", "--data", text(&data), "--results", text(&results), "--json"];
    let points = ["--cloud-model", SMALL, "--router", "top1", "--threshold", "0.9"];
    let network = ["--simulate-rtt", "0ms,30ms", "--context", "512", "--max-tokens", "24"];
    // A model that is its own cloud foresees every answer: the way there would be hidden.
    let more = ["--asks-in-flight", "0", "--verify"];
    let table = run(&[&base[..], &points, &network, &more].concat()).json();
    let points = table["points"].as_array().unwrap();
    let names: Vec<_> = points.iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    assert!(names.contains(&"top1 τ 0.9 rtt 30ms"), "{names:?}");
    assert!(names.iter().filter(|name| name.starts_with("random like")).count() == 2, "{names:?}");
    for point in points {
        assert!(point["accuracy"].is_null());
        assert!(point["likelihood"].as_f64().unwrap() < 0.0, "{point}");
        assert!((0.0..=1.0).contains(&point["distinct"].as_f64().unwrap()), "{point}");
    }
    let network = |name: &str| {
        let point = points.iter().find(|p| p["name"] == name).unwrap();
        point["split"]["network_ms"].as_f64().unwrap()
    };
    assert!(network("top1 τ 0.9 rtt 30ms") > network("top1 τ 0.9 rtt 0ms") + 1.0, "{table}");
    // A model that judges its own drafts has little to object to.
    let verify = points.iter().find(|p| p["name"] == "verify rtt 30ms").unwrap();
    assert_eq!(verify["mode"], "verify");
    let (passes, tokens) = (&verify["cloud_calls"], &verify["tokens_per_answer"]);
    assert!((1.0..tokens.as_f64().unwrap()).contains(&passes.as_f64().unwrap()), "{verify}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.jsonl");
    let question = r#"{"id": "1", "question": "?", "choices": {"label": ["A"], "text": ["x"]}, "answerKey": "B"}"#;
    fs::write(&data, format!("{question}\n")).unwrap();
    for (arguments, code, says) in [
        (&["eval", "commonsenseqa", "--data", text(&data)][..], 1, "line 1"),
        (&["eval", "commonsenseqa", "--data", "none.jsonl"], 1, "none.jsonl"),
        (&["eval", "chess"], 2, "commonsenseqa"),
        (&["eval", "gsm8k"], 2, "wants a file of questions"),
        (&["eval", "builtin", "--offline"], 2, "--offline"),
        (&["eval", "builtin", "--skip", "400"], 2, "--skip"),
        (&["eval", "builtin", "--budget", "7%", "--threshold", "0.5"], 2, "cannot be used with"),
        (&["eval", "builtin", "--min-share", "7%"], 2, "--pace"),
        (&["eval", "builtin", "--oracle", "0"], 2, "above 0 and at most 1"),
        (&["eval", "builtin", "--simulate-rtt", "170ms/1s,dead"], 2, "dead/60s"),
        (&["eval", "builtin", "--simulate-rtt", "@none.txt"], 2, "none.txt cannot be read"),
    ] {
        let done = run(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}: {}", done.err);
        assert!(done.err.contains(says), "{arguments:?}: {}", done.err);
    }
}

#[test]
fn the_original_loop_reads_everything_again() {
    let base = ["bench", "original", "--tokens", "12", "--prompts", "1", "--json"];
    // Random places: where trust is low hangs on rounding, which differs with the batch.
    let pair = ["--cloud-model", SMALL, "--router", "random:0.5", "--seed", "3"];
    let figures = run(&[&base[..], &pair].concat()).json();
    let (ours, theirs) = (&figures["tandem"], &figures["original"]);
    assert!(ours["asks"].as_u64().unwrap() > 1, "{figures}");
    // By ids, one token an ask, on both sides.
    assert_eq!(ours["tokens"], 12, "{figures}");
    assert_eq!(ours["tokens"], theirs["tokens"]);
    assert_eq!(ours["asks"], theirs["asks"]);
    let prefilled = |f: &Value| f["cloud_prefilled_per_ask"].as_f64().unwrap();
    assert!(prefilled(theirs) > 2.0 * prefilled(ours), "{figures}");
    assert!(figures["ratios"]["tokens_per_second"].as_f64().unwrap() > 1.0, "{figures}");
}

#[test]
fn a_recorded_cloud_is_played_and_every_token_stays() {
    let base = ["bench", "network", "--rtt", "40ms", "--runs", "1", "--limit", "1", "--json"];
    let pair =
        ["--cloud-model", SMALL, "--router", "random:0.5", "--seed", "3", "--max-tokens", "12"];
    let figures = run(&[&base[..], &pair].concat()).json();
    // Without a round trip and with one, each waiting for every answer and going on.
    let points = figures["points"].as_array().unwrap();
    assert_eq!(points.len(), 4, "{figures}");
    assert!(points.iter().all(|point| point["identical"] == true), "{figures}");
    let asks = points[0]["asks"].as_f64().unwrap();
    assert!(asks > 1.0, "{figures}");
    let wall = |point: &Value| point["wall_ms"].as_f64().unwrap();
    // Who waits for every answer waits for all round trips.
    assert!(wall(&points[2]) - wall(&points[0]) > 0.8 * 40.0 * asks, "{figures}");
}
