//! The pairs of the catalog with real models, and budgets that hold at every moment.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use models::{Catalog, Environment, Home, Role};

use crate::common::{SMALL, count, run, tandem};

#[test]
fn the_default_pair_exchanges_ids_and_is_judged_by_its_own_router() {
    let by_default = |mut command: Command| -> serde_json::Value {
        let done: crate::common::Done = command.env_remove("TANDEM_PAIR").output().unwrap().into();
        done.json()
    };
    let report = by_default(tandem(&[
        "run",
        "--json",
        "--max-tokens",
        "6",
        "--router",
        "always",
        "--threshold",
        "1",
        "Say hi.",
    ]));
    assert_eq!(report["exchange"], "ids", "{report}");
    assert_eq!(count(&report, "cloud"), report["tokens"].as_array().unwrap().len(), "{report}");
    let report = by_default(tandem(&["run", "--json", "--max-tokens", "3", "Say hi."]));
    assert_eq!(report["router"], "general-qwen", "{report}");
    assert!(report.get("router_fallback").is_none(), "{report}");
    assert!((report["budget"].as_f64().unwrap() - 0.1).abs() < 1e-6, "{report}");
}

#[test]
fn a_strict_budget_is_not_passed_by_more_than_one_ask() {
    // A router that would always ask: without --strict all tokens come from the cloud at first.
    let ask = |more: &[&str]| {
        let common = ["run", "--json", "--max-tokens", "40", "--cloud-model", SMALL];
        let routed = ["--router", "always", "--budget", "10%", "List ten animals."];
        run(&[&common[..], &routed[..], more].concat()).json()
    };
    let (strict, usual) = (ask(&["--strict"]), ask(&[]));
    let cloud = count(&strict, "cloud");
    let tokens = strict["tokens"].as_array().unwrap().len();
    assert!(cloud >= 1 && cloud as f64 <= 0.1 * tokens as f64 + 1.0, "{cloud} of {tokens}");
    assert!(count(&usual, "cloud") > 2 * cloud, "{usual}");
    let both = run(&["run", "--strict", "--threshold", "0.5", "x"]);
    assert_eq!(both.code, Some(2));
}

/// Where only the smallest pair could be pulled, the demo shows that one and says so.
#[test]
fn the_demo_takes_the_pair_that_is_here() {
    let (catalog, home) = (Catalog::built_in().unwrap(), Home::find(Environment::read()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    std::fs::create_dir(&models).unwrap();
    for role in [Role::Edge, Role::Cloud] {
        let name = catalog.pair(Some("tiny")).unwrap().model(role);
        let file = home.require(catalog.find(name).unwrap()).unwrap();
        symlink(&file, models.join(file.file_name().unwrap())).unwrap();
    }
    let mut demo = tandem(&["demo"]);
    demo.env_remove("TANDEM_PAIR").env("TANDEM_HOME", folder.path());
    let mut child = demo.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<_> = lines.take(2).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said[0].contains("the models of the pair qwen are not here"), "{said:?}");
    assert!(said[0].contains("this is the pair tiny"), "{said:?}");
    assert!(said[1].contains("both models loaded"), "{said:?}");
}
