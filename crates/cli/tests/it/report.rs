//! `tandem report` on results written here. What is in a report is tested where it is made; how it
//! looks, in a browser by `tests/report`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path};

use lab::eval::{Costs, Outcome, Point, Question, Results, ResultsInfo, TokenRecord};
use tandem::Mode;

use crate::common::run;

fn results(path: &Path, task: &str) {
    let about = ResultsInfo {
        version: ResultsInfo::VERSION,
        task: task.into(),
        data: "here".into(),
        edge: "small".into(),
        cloud: "large".into(),
        max_tokens: 8,
        seed: 1,
        ..ResultsInfo::default()
    };
    let point = |name: &str, mode, router: Option<&str>| Point {
        name: name.into(),
        mode,
        router: router.map(str::to_owned),
        budget: router.map(|_| 0.5),
        ..Point::default()
    };
    let points = vec![
        point("small", Mode::Small, None),
        point("top1 50%", Mode::Joint, Some("top1")),
        point("random 50%", Mode::Joint, Some("random")),
        point("large", Mode::Large, None),
    ];
    let results = Results::open(path, about, points.clone()).unwrap();
    for id in ["one", "two"] {
        let (prompt, right) = ("Which?".into(), Some("A".into()));
        let question = Question { id: id.into(), prompt, right, trust: [].into() };
        results.add_question(question).unwrap();
        for point in &points {
            let piece =
                TokenRecord { text: "(a)".into(), source: "cloud".into(), score: Some(0.5) };
            let costs = Costs { tokens: 1, total_ms: 5.0, ..Costs::default() };
            let outcome = Outcome {
                id: id.into(),
                point: point.name.clone(),
                right: Some(id == "one" || point.mode != Mode::Small),
                conclusion: Some("A".into()),
                finish: "stop".into(),
                pieces: vec![piece],
                costs,
                ..Outcome::default()
            };
            results.add_outcome(outcome).unwrap();
        }
    }
}

#[test]
fn a_page_a_summary_and_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (at("first.jsonl"), at("second.jsonl"));
    results(first.as_ref(), "arc");
    results(second.as_ref(), "mmlu");

    // Nothing but results: the page beside them, the summary on stdout.
    let done = run(&["report", &first]);
    assert_eq!((done.code, done.err), (Some(0), format!("wrote {}\n", at("first.html"))));
    assert!(done.out.starts_with("# Tandem, measured: arc\n"), "{}", done.out);
    assert!(done.out.contains("| small | 2 | 50.0\u{a0}% |"), "{}", done.out);
    assert!(fs::read_to_string(at("first.html")).unwrap().contains("</html>"));

    let (page, summary) = (at("both.html"), at("both.md"));
    let done = run(&["report", &first, &second, "-o", &page, "--markdown", &summary]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""));
    assert_eq!(done.err, format!("wrote {page}\nwrote {summary}\n"));
    assert!(fs::read_to_string(&summary).unwrap().contains("## mmlu"));

    let told = run(&["report", &first, &second, "-o", &page, "--json"]).json();
    assert_eq!(told["html"], page.as_str());
    assert_eq!(told["tasks"][1]["about"]["task"], "mmlu");
    assert_eq!(told["tasks"][0]["points"][0]["accuracy"], 0.5);
}

#[test]
fn results_are_never_overwritten_and_nonsense_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let first = at("r.html");
    results(first.as_ref(), "arc");
    let before = fs::read(&first).unwrap();
    let other_name =
        format!("{}/../{}/r.html", at(""), folder.path().file_name().unwrap().display());
    for arguments in [
        &["report", &first][..],
        &["report", &first, "-o", &other_name],
        &["report", &first, "-o", &at("x"), "--markdown", &first],
        &["report", &first, "-o", &at("x"), "--markdown", &at("x")],
        &["report"],
    ] {
        let done = run(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {}", done.err);
    }
    assert_eq!(fs::read(&first).unwrap(), before);

    fs::write(at("bad"), "{\"id\": 1}\n").unwrap();
    fs::write(at("empty"), "").unwrap();
    for (name, reason) in
        [("bad", "line 1"), ("empty", "not a results file"), ("gone", "No such file")]
    {
        let done = run(&["report", &at(name), "-o", &at("page")]);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains(&at(name)) && done.err.contains(reason), "{}", done.err);
        assert!(!Path::new(&at("page")).exists());
    }
    let done = run(&["report", &first, "-o", &at("no/such/folder.html")]);
    assert!(done.code == Some(1) && done.err.contains("cannot be written"), "{}", done.err);
}
