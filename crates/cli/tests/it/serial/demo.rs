//! `tandem demo` with real models.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{SMALL, run};

/// The first cells of the rows of a mode, in every table.
fn rows<'a>(out: &'a str, mode: &str) -> Vec<&'a str> {
    let start = format!("{mode}   ");
    out.lines().filter(|line| line.starts_with(&start)).collect()
}

/// The answers of a mode, up to the next one or the table. A row of the table has more spaces.
fn answers<'a>(out: &'a str, mode: &str) -> Vec<&'a str> {
    let start = format!("\n{mode}  ");
    let behind = out.split(start.as_str()).skip(1).filter(|text| !text.starts_with(' '));
    let ends = ["\njoint  ", "\nlarge  ", "\n        "];
    let until = |text: &'a str| {
        let end = ends.iter().filter_map(|end| text.find(*end)).min();
        &text[..end.unwrap_or(text.len())]
    };
    behind.map(until).collect()
}

#[test]
fn two_questions_three_answers_each_a_table_and_a_sentence() {
    let done = run(&["demo"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for mode in ["small", "joint", "large"] {
        assert_eq!(rows(&done.out, mode).len(), 2, "{}", done.out);
    }
    assert!(rows(&done.out, "small").iter().all(|row| row.contains(" 0.0 %")), "{}", done.out);
    assert!(rows(&done.out, "small").iter().all(|row| row.ends_with(" 0 bytes")), "{}", done.out);
    assert!(rows(&done.out, "large").iter().all(|row| row.contains("100.0 %")), "{}", done.out);
    for mode in ["small", "joint", "large"] {
        let marked = answers(&done.out, mode).into_iter().map(|a| a.contains('⟦'));
        let asked = rows(&done.out, mode).into_iter().map(|row| !row.contains(" 0.0 %"));
        assert!(marked.eq(asked.map(|asked| asked && mode == "joint")), "{mode} in {}", done.out);
    }
    // What the models conclude hangs on the CPU; what is said of it follows from the table.
    let concluded = |mode| {
        let row = rows(&done.out, mode)[1].trim_start_matches(mode).trim_start();
        let (choice, verdict) = row.split_once("   ").unwrap().0.trim().rsplit_once(", ").unwrap();
        assert_eq!(verdict == "right", choice == "mountain (e)", "{}", done.out);
        assert!(["right", "wrong"].contains(&verdict), "{}", done.out);
        choice
    };
    concluded("small");
    let (joint, large) = (concluded("joint"), concluded("large"));
    let same = done.out.contains(&format!("joint gave the large model's answer, {large}"));
    assert_eq!(same, joint == large && joint != "none", "{}", done.out);
    assert_eq!(done.out.matches("holds over a long run").count(), 2, "{}", done.out);
}

#[test]
fn another_pair_has_the_general_question_only() {
    let done = run(&["demo", "--cloud-model", SMALL]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(rows(&done.out, "joint").len(), 1, "{}", done.out);
    assert!(done.err.contains("is left out: it is for the pairs of the catalog"), "{}", done.err);
    let done = run(&["demo", "--offline"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("not with --offline"), "{}", done.err);
    assert_eq!(done.out, "");
}
