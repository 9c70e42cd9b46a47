//! The page and the summary of made-up records.

use std::collections::BTreeMap;

use tandem::Mode;

use super::{Report, numbers::percent};
use crate::eval::{
    costs::{Costs, TimeSplit},
    results::{Outcome, Point, Question, Record, ResultsInfo, TokenRecord},
    table::{RowKind, Table},
};

const QUESTIONS: usize = 60;
const BUDGETS: [f32; 3] = [0.05, 0.1, 0.3];

fn about(task: &str) -> ResultsInfo {
    ResultsInfo {
        version: ResultsInfo::VERSION,
        task: task.into(),
        data: "dev.jsonl 1a2b".into(),
        edge: "tiny 3c4d".into(),
        cloud: "huge 5e6f".into(),
        system: "Be brief.".into(),
        max_tokens: 64,
        seed: 7,
    }
}

fn point(name: &str, mode: Mode, router: Option<&str>, budget: Option<f32>) -> Point {
    Point { name: name.into(), mode, router: router.map(str::to_owned), budget, ..Point::default() }
}

fn points() -> Vec<Point> {
    let mut points = vec![point("small", Mode::Small, None, None)];
    for router in ["trained", "top1", "random"] {
        for budget in BUDGETS {
            let name = format!("{router} {budget}");
            points.push(point(&name, Mode::Joint, Some(router), Some(budget)));
        }
    }
    points.push(point("large", Mode::Large, None, None));
    points
}

/// Ten tokens, as many of them from the cloud as the point may ask for.
fn outcome(number: usize, point: &Point) -> Outcome {
    let cloud = match point.mode {
        Mode::Small => 0,
        Mode::Joint => (point.budget.unwrap_or(0.0) * 10.0).ceil() as usize,
        Mode::Large | Mode::Verify => 10,
    };
    let better = match point.router.as_deref() {
        Some("trained") => 6 * cloud,
        Some(_) => cloud,
        None => 3 * cloud,
    };
    // Harder questions have higher numbers; the edge is less sure of them.
    let hard = number * 37 % QUESTIONS;
    let score = 0.9 - hard as f32 / 100.0;
    let piece = |at: usize| TokenRecord {
        text: format!(" word{at}"),
        source: if at < cloud { "cloud" } else { "edge" }.into(),
        score: (point.mode != Mode::Large).then_some(score),
    };
    let right = hard < 20 + better && !(cloud > 0 && hard == 3);
    Outcome {
        id: format!("q{number}"),
        point: point.name.clone(),
        right: Some(right),
        conclusion: Some(if right { "A" } else { "B" }.into()),
        finish: "stop".into(),
        pieces: (0..10).map(piece).collect(),
        costs: Costs {
            tokens: 10,
            cloud_tokens: cloud,
            characters: 60,
            asks: cloud,
            cloud_decoded: cloud,
            first_token_ms: 40.0,
            total_ms: 100.0 + 50.0 * cloud as f64,
            between_ms: vec![8.0; 9],
            split: TimeSplit {
                edge_prefill_ms: 30.0,
                edge_decode_ms: 70.0,
                cloud_decode_ms: 50.0 * cloud as f64,
                ..TimeSplit::default()
            },
            ..Costs::default()
        },
        ..Outcome::default()
    }
}

fn record(questions: usize, points: Vec<Point>) -> Record {
    let question = |number: usize| Question {
        id: format!("q{number}"),
        prompt: format!("Question {number}?"),
        right: Some("A".into()),
        trust: BTreeMap::from([("trained".into(), number as f64 / 100.0)]),
    };
    let outcomes = (0..questions).flat_map(|n| points.iter().map(move |p| outcome(n, p))).collect();
    Record {
        about: about("commonsenseqa"),
        questions: (0..questions).map(question).collect(),
        points: points.clone(),
        outcomes,
    }
}

fn page(records: &[Record]) -> String {
    Report::of(records).unwrap().html().unwrap()
}

/// The figure of this name, from its first tag to its last.
fn figure<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let from = page.find(&format!("<figure class=\"{name}\">"))?;
    let figure = &page[from..];
    Some(&figure[..figure.find("</figure>").unwrap()])
}

#[test]
fn the_numbers_are_those_of_the_table() {
    let record = record(QUESTIONS, points());
    let table = Table::of(&record);
    let report = Report::of(std::slice::from_ref(&record)).unwrap();
    let (page, summary) = (report.html().unwrap(), report.markdown().unwrap());
    assert!(table.rows.len() > 12);
    for row in &table.rows {
        let accuracy = percent(row.accuracy.unwrap());
        let line = format!("<th scope=\"row\">{}</th><td>60</td><td>{accuracy}</td>", row.name);
        assert!(page.contains(&line), "{line}");
        let line = format!("| {} | 60 | {accuracy} |", row.name);
        assert!(summary.contains(&line), "{line}\n{summary}");
    }
    for fact in ["dev.jsonl 1a2b", "tiny 3c4d", "huge 5e6f", "Be brief.", "64 tokens"] {
        assert!(page.contains(fact) && summary.contains(fact), "{fact}");
    }
    let difference = &table.differences[0];
    assert!(summary.contains(&format!("| {} | {} |", difference.of, difference.to)), "{summary}");
}

#[test]
fn every_plot_of_joint_decoding_has_random_and_bands() {
    let page = page(&[record(QUESTIONS, points())]);
    for name in ["share", "whole", "time"] {
        let figure = figure(&page, name).unwrap();
        assert!(figure.contains("random"), "{name}");
        assert!(figure.contains("stroke=\"var(--chance)\""), "{name}");
        assert!(figure.contains("role=\"img\"") && figure.contains("<desc id="), "{name}");
    }
    let share = figure(&page, "share").unwrap();
    for ink in ["line-0", "chance"] {
        let band = format!("<polygon opacity=\"0.16\" fill=\"var(--{ink})\"");
        assert!(share.contains(&band), "{ink}");
    }
    assert!(share.contains("small alone") && share.contains("large alone"));
    assert!(figure(&page, "whole").unwrap().contains("oracle"));
    let split = figure(&page, "split").unwrap();
    assert!(split.contains("url(#part-1)") && split.contains("cloud decode"));
    assert!(!split.contains("cloud queue"), "nobody waited");
    for name in ["calibration-mean", "calibration-lowest"] {
        assert!(figure(&page, name).unwrap().contains("no promise for a whole answer"));
    }
    assert!(!page.contains("<script") && !page.contains("http"), "it stands alone");
}

#[test]
fn ten_answers_some_won_and_some_lost() {
    let page = page(&[record(QUESTIONS, points())]);
    assert_eq!(page.matches("<article").count(), 10);
    assert_eq!(page.matches("<article class=\"good\">").count(), 5);
    assert!(page.contains("lost: small alone was right"));
    assert!(page.contains("<span class=\"cloud\" title=\"cloud, trust in the edge 0."));
    // The first one that was won, in the order of the questions.
    let won = (0..QUESTIONS).find(|n| (20..26).contains(&(n * 37 % QUESTIONS))).unwrap();
    let first = page.find("<article class=\"good\">").unwrap();
    assert!(page[first..].find(&format!("q{won}</span>")).unwrap() < 300, "q{won}");
}

#[test]
fn what_comes_from_results_cannot_become_markup() {
    const BAD: &str = "<script>alert(1)</script>\"'&|";
    let mut record = record(QUESTIONS, points());
    record.about.task = BAD.into();
    record.about.system = BAD.into();
    for question in &mut record.questions {
        question.prompt = BAD.into();
        question.right = Some(BAD.into());
    }
    for point in &mut record.points {
        if point.mode == Mode::Joint {
            point.name += BAD;
            point.router = point.router.as_ref().map(|r| format!("{r}{BAD}"));
        }
    }
    for outcome in &mut record.outcomes {
        outcome.conclusion = Some(BAD.into());
        if !["small", "large"].contains(&outcome.point.as_str()) {
            outcome.point += BAD;
        }
        for piece in &mut outcome.pieces {
            piece.text = BAD.into();
            piece.source = BAD.into();
        }
    }
    let report = Report::of(&[record]).unwrap();
    let (page, summary) = (report.html().unwrap(), report.markdown().unwrap());
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(page.contains("<span class=\"other\""));
    assert!(!summary.contains("<script"), "{summary}");
    // As many cells as columns, whatever the names hold.
    let table: Vec<&str> = summary.lines().skip_while(|l| !l.starts_with('|')).collect();
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    assert_eq!(cells(table[0]), cells(table[3]), "{summary}");
}

#[test]
fn without_joint_points_the_rest_is_told() {
    let alone: Vec<_> = points().into_iter().filter(|p| p.mode != Mode::Joint).collect();
    let page = page(&[record(QUESTIONS, alone)]);
    assert!(page.contains("No joint decoding was measured"));
    assert!(figure(&page, "share").is_none() && !page.contains("<article"));
    assert!(figure(&page, "split").is_some());
}

#[test]
fn one_question_and_none() {
    let one = page(&[record(1, points())]);
    assert!(one.contains("1 question cannot tell much"));
    assert!(figure(&one, "share").is_some());
    let none = page(&[record(0, points())]);
    assert!(none.contains("No question is answered yet"));
    assert!(!none.contains("<svg class=\"plot\""));
}

#[test]
fn missing_answers_and_missing_random_are_said() {
    let mut some = record(QUESTIONS, points());
    some.outcomes.retain(|o| o.point != "top1 0.1" && (o.point != "large" || o.id != "q5"));
    let page_of_some = page(&[some]);
    assert!(page_of_some.contains("Answers to 0 of 60 questions only: top1 0.1."));
    assert!(page_of_some.contains("Answers to 59 of 60 questions only: large."));
    let sure: Vec<_> =
        points().into_iter().filter(|p| p.router.as_deref() != Some("random")).collect();
    assert!(page(&[record(QUESTIONS, sure)]).contains("Random routing was not measured"));
}

#[test]
fn every_delay_has_its_own_plot_against_time() {
    let mut all = vec![];
    for rtt_ms in [0.0, 170.0] {
        for mut point in points() {
            if point.mode != Mode::Small || rtt_ms == 0.0 {
                point.name += &format!(" {rtt_ms}");
                point.rtt_ms = (point.mode != Mode::Small).then_some(rtt_ms);
                all.push(point);
            }
        }
    }
    let page = page(&[record(QUESTIONS, all)]);
    assert_eq!(page.matches("<figure class=\"time\">").count(), 2);
    assert!(page.contains("170\u{a0}ms to the cloud and back"));
    assert_eq!(page.matches("<figure class=\"share\">").count(), 1);
    assert!(page.contains("Several delays to the cloud were simulated"));
}

#[test]
fn an_oracle_has_a_line_over_share() {
    let mut all = points();
    for ratio in [0.3, 0.6] {
        let named = point(&format!("oracle {ratio}"), Mode::Verify, None, None);
        all.push(Point { oracle: Some(ratio), ..named });
    }
    let with = page(&[record(QUESTIONS, all)]);
    let share = figure(&with, "share").unwrap();
    assert!(share.contains("oracle, by token") && share.contains("a bound and no rival"));
    // It is no text of mode verify.
    assert!(!figure(&with, "time").unwrap().contains("verify"));
    let without = page(&[record(QUESTIONS, points())]);
    assert!(!figure(&without, "share").unwrap().contains("oracle"));
}

#[test]
fn texts_without_a_right_answer_are_weighed() {
    let mut record = record(20, points());
    record.about.task = "text".into();
    record.questions.iter_mut().for_each(|q| q.right = None);
    for outcome in &mut record.outcomes {
        let gain = outcome.costs.cloud_tokens as f64 / 50.0;
        outcome.likelihood = Some(-0.9 + if outcome.id == "q3" { -gain } else { gain });
        (outcome.right, outcome.conclusion) = (None, None);
    }
    let page = page(&[record]);
    assert!(page.contains("Likelihood against the share of tokens"));
    assert!(page.contains("not good because the large model finds it likely"));
    assert!(figure(&page, "calibration-mean").is_none());
    assert!(figure(&page, "share").unwrap().contains("random"));
    assert!(page.contains("less likely than the small model"));
}

#[test]
fn several_records_have_a_section_each() {
    let one = record(QUESTIONS, points());
    let two = Record { about: about("arc"), ..one.clone() };
    let both = page(&[one.clone(), two]);
    assert_eq!(both.matches("<section id=").count(), 2);
    assert!(both.contains("<a href=\"#task-2\">arc</a>"));
    let other = Record {
        about: ResultsInfo { cloud: "other 9".into(), ..about("commonsenseqa") },
        ..one.clone()
    };
    assert!(page(&[one, other]).contains("<h2>commonsenseqa: tiny 3c4d, other 9</h2>"));
}

#[test]
fn numbers_for_programs() {
    let report = Report::of(&[record(QUESTIONS, points())]).unwrap();
    let summary = serde_json::to_value(report.summary()).unwrap();
    let task = &summary["tasks"][0];
    assert_eq!(task["about"]["task"], "commonsenseqa");
    assert_eq!(task["points"][0]["mode"], serde_json::to_value(RowKind::Small).unwrap());
    assert!(task["calibration"][0]["mean"]["separation"].as_f64().unwrap() > 0.9);
    assert_eq!(task["changes"]["questions"], 60);
    assert!(task["changes"]["won"].as_u64().unwrap() >= 4);
}
