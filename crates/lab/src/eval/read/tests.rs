use super::*;

/// Writes files, reads them, and returns what was read or said, without the folder's name.
fn try_read(task: TaskName, files: &[(&str, &[u8])]) -> Result<Vec<Example>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, bytes) in files {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), bytes).unwrap();
    }
    let paths: Vec<_> = files.iter().map(|(name, _)| path(name)).collect();
    let shown = format!("{}/", folder.path().display());
    read(task, &paths).map_err(|e| e.to_string().replace(&shown, ""))
}

fn refused(task: TaskName, text: &str) -> String {
    try_read(task, &[("d.jsonl", text.as_bytes())]).unwrap_err()
}

const MINES: &str = r#"{"id": "m", "question": "Where?", "choices": {"label": ["A", "B"], "text": ["valley", "mountain"]}, "answerKey": "B"}"#;
const SUM: &str = r#"{"id": "s", "problem": "1+1?", "solution": "\\boxed{2}", "answer": "2"}"#;
const WANTED_CHOICE: &str = "a JSON object with question, choices {label, text} and answerKey, or \
    a line as it was published";

#[test]
fn every_task_reads_its_shape() {
    let own = r#"{"prompt": "Capital of France?", "answer": "Paris", "compare": "exact"}"#;
    let open = r#"{"prompt": "Write a poem."}"#;
    for (task, row, id) in [
        (TaskName::CommonsenseQa, MINES, "m"),
        (TaskName::Arc, MINES, "m"),
        (TaskName::Mmlu, MINES, "m"),
        (TaskName::Gsm8k, SUM, "s"),
        (TaskName::Math, SUM, "s"),
        (TaskName::Jsonl, own, "d:2"),
        (TaskName::Text, open, "d:2"),
    ] {
        // With a byte order mark, an empty line and the line ends of another system.
        let text = format!("\u{feff}\r\n{row}\r\n\r\n");
        let examples = try_read(task, &[("d.jsonl", text.as_bytes())]).unwrap();
        assert_eq!((examples.len(), examples[0].id.as_str()), (1, id), "{task}");
        let has_answers = task != TaskName::Text;
        assert_eq!(examples[0].is_right("").is_some(), has_answers, "{task}");
        assert_eq!(examples[0].right().is_some(), has_answers, "{task}");
    }
}

#[test]
fn a_line_is_named_with_what_is_wrong() {
    let with = |from: &str, to: &str| MINES.replace(from, to);
    for (row, reason) in [
        (with(r#""question": "Where?", "#, ""), "question is missing"),
        (with("Where?", " "), "question is blank"),
        (with(r#""Where?""#, "7"), "question is a number instead of text"),
        (with(r#", "answerKey": "B""#, ""), "answerKey is missing"),
        (with(r#""answerKey": "B""#, r#""answerKey": null"#), "answerKey is missing"),
        (with(r#""answerKey": "B""#, r#""answerKey": """#), "answerKey is blank"),
        (
            with(r#""answerKey": "B""#, r#""answerKey": "E""#),
            r#"answerKey "E" is none of the labels A, B"#,
        ),
        (
            with(r#""answerKey": "B""#, r#""answerKey": "b""#),
            r#"answerKey "b" is none of the labels A, B"#,
        ),
        (with(r#"["A", "B"]"#, r#"["A"]"#), "1 labels and 2 texts of choices"),
        (with(r#"["A", "B"]"#, r#"["A", "a"]"#), r#"two choices have the label "a""#),
        (with(r#"["A", "B"]"#, r#""AB""#), "choices' label is text instead of a list"),
        (with("valley", ""), "a choice's text is blank"),
        (with(r#""text": "#, r#""texts": "#), "choices without text"),
        (
            with(r#"{"label""#, r#"[{"label""#).replace("]}, \"answerKey", "]}], \"answerKey"),
            "a choice's label is a list instead of text",
        ),
        (
            r#"{"question": "?", "choices": {"label": ["A"], "text": ["x"]}, "answerKey": "A"}"#
                .into(),
            "fewer than two choices",
        ),
        (SUM.into(), "question is missing; the line looks like one of gsm8k or math"),
        (
            r#"{"prompt": "Hi"}"#.into(),
            "question is missing; the line looks like one of text or jsonl",
        ),
        ("{}".into(), "question is missing"),
        ("3".into(), "a number instead of a JSON object"),
        ("id,question".into(), "not JSON: expected value at column 1"),
        ("{".into(), "the JSON object does not end on this line; each has to be on one line"),
        (
            "[".into(),
            "this is the beginning of a JSON list; each object has to be on a line of its own, \
             without brackets around them",
        ),
    ] {
        let text = format!("{}\n\n{row}\n", MINES.replace(r#""m""#, r#""first""#));
        let message = refused(TaskName::Arc, &text);
        assert_eq!(message, format!("d.jsonl line 3: {reason}; expected {WANTED_CHOICE}"));
    }
}

#[test]
fn the_other_tasks_say_what_they_want() {
    let row = |compare: &str, answer: &str| {
        format!(r#"{{"prompt": "?", "answer": {answer}, "compare": "{compare}"}}"#)
    };
    for (task, row, reason) in [
        (TaskName::Gsm8k, SUM.replace(r#""2""#, r#""two""#), r#"answer "two" is not a number"#),
        (TaskName::Gsm8k, r#"{"problem": "?", "solution": "two"}"#.into(), "answer is missing"),
        (TaskName::Math, SUM.replace(r#""2""#, r#""""#), "answer is blank"),
        (
            TaskName::Math,
            MINES.into(),
            "problem is missing; the line looks like one of commonsenseqa, arc or mmlu",
        ),
        (TaskName::Jsonl, r#"{"prompt": "?"}"#.into(), "answer is missing"),
        (TaskName::Jsonl, r#"{"prompt": "?", "answer": "x"}"#.into(), "compare is missing"),
        (TaskName::Jsonl, row("exact", "[]"), "answer is an empty list"),
        (TaskName::Jsonl, row("exact", "[true]"), "answer is true or false instead of text"),
        (TaskName::Jsonl, row("number", r#"["1", "x"]"#), r#"answer "x" is not a number"#),
        (TaskName::Jsonl, row("choice", r#""Paris""#),
            "without choices, answer has to be one letter or digit"),
        (TaskName::Jsonl, row("choice", r#"["A", "1"]"#),
            "without choices, answer has to be one letter or digit"),
        (
            TaskName::Jsonl,
            row("like", r#""x""#),
            r#"compare is "like"; it may be exact, choice, number, contains or regex"#,
        ),
        (
            TaskName::Jsonl,
            r#"{"prompt": "?", "answer": "C", "compare": "choice", "choices": {"label": ["A", "B"], "text": ["x", "y"]}}"#.into(),
            r#"answer "C" is none of A, B"#,
        ),
        (
            TaskName::Text,
            SUM.into(),
            "prompt is missing; the line looks like one of gsm8k or math",
        ),
        (TaskName::Text, r#"{"prompt": "\n"}"#.into(), "prompt is blank"),
    ] {
        let message = refused(task, &row);
        assert_eq!(message, format!("d.jsonl line 1: {reason}; expected {}", task.wanted()));
    }
    let message = refused(TaskName::Jsonl, &row("regex", r#""(""#));
    assert!(message.starts_with("d.jsonl line 1: answer \"(\" is not a regex: "), "{message}");
}

#[test]
fn functions_to_write_are_read_with_their_tests() {
    let row = r#"{"task_id": "HumanEval/7", "prompt": "def f(x):\n    \"\"\"x\"\"\"\n", "entry_point": "f", "canonical_solution": "    return x\n", "test": "def check(c):\n    assert c(1) == 1\n"}"#;
    let found = try_read(TaskName::HumanEval, &[("d.jsonl", row.as_bytes())]).unwrap();
    assert_eq!(found[0].id, "HumanEval/7");
    assert!(found[0].prompt().contains("def f(x):"));
    assert_eq!(found[0].is_right("I do not know."), Some(false));
    assert!(found[0].worked.as_deref().unwrap().contains("    return x"));
    let bad = row.replace("\"f\", \"can", "\"f()\", \"can");
    assert!(refused(TaskName::HumanEval, &bad).contains("is not the name of a function"));
}

#[test]
fn files_are_read_as_they_were_published() {
    let gsm8k = r#"{"question": "Clips?", "answer": "She sold 48/2 = <<48/2=24>>24 in May.\nIn all 48+24 = <<48+24=72>>72.\n#### 1,072"}"#;
    let math = r#"{"problem": "Half of 3?", "level": "Level 1", "type": "Algebra", "solution": "It is $\\boxed{\\frac{3}{2}}$."}"#;
    let mmlu =
        r#"{"question": "Which?", "subject": "law", "choices": ["w", "x", "y", "z"], "answer": 2}"#;
    let mmlu_letter = mmlu.replace(": 2", r#": "C""#);
    let arc = r#"{"id": "q1", "question": {"stem": "Which?", "choices": [{"text": "x", "label": "1"}, {"text": "y", "label": "2"}]}, "answerKey": "2"}"#;
    for (task, row, right) in [
        (TaskName::Gsm8k, gsm8k, "1072"),
        (TaskName::Math, math, "1.5"),
        (TaskName::Mmlu, mmlu, "C"),
        (TaskName::Mmlu, &mmlu_letter, "C"),
        (TaskName::Arc, arc, "2"),
        (TaskName::CommonsenseQa, arc, "2"),
    ] {
        let found = try_read(task, &[("d.jsonl", row.as_bytes())]).unwrap();
        assert_eq!(found[0].right().as_deref(), Some(right), "{task}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    fs::write(&path, format!("{gsm8k}\n{math}\n{mmlu}\n{arc}\n")).unwrap();
    let any = Example::read(&path).unwrap();
    let worked = "She sold 48/2 = 24 in May.\nIn all 48+24 = 72.\nThe answer is \\boxed{1,072}.";
    assert_eq!(any[0].worked.as_deref(), Some(worked));
    assert!(any[0].prompt().starts_with("Clips?\n") && any[3].prompt().contains("\n(2) y\n"));
    for (row, reason) in [
        (mmlu.replace(": 2", ": 4"), "there are 4 choices, and answer is 4"),
        (mmlu.replace(": 2", ": -1"), "answer is not the number of a choice"),
        (arc.replace("stem", "text"), "stem is missing"),
        (arc.replace(r#""label": "1""#, r#""id": "1""#), "a choice without label"),
    ] {
        let message = refused(TaskName::Mmlu, &row);
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn own_choices_may_be_listed_or_not() {
    let rows = r#"{"prompt": "?", "answer": "b", "compare": "choice"}
        {"prompt": "?", "answer": ["2", 7], "compare": "choice"}
        {"prompt": "?", "answer": "y", "compare": "choice", "choices": {"label": ["X", "Y"], "text": ["no", "yes"]}}"#;
    let examples = try_read(TaskName::Jsonl, &[("d.jsonl", rows.as_bytes())]).unwrap();
    let right = |at: usize, text: &str| examples[at].is_right(text) == Some(true);
    assert!(right(0, "The answer is (b).") && !right(0, "The answer is (e)."));
    assert!(right(1, "(7)") && !right(1, "(8)"));
    assert!(right(2, "The answer is yes.") && right(2, "Y") && !right(2, "The answer is no."));
}

#[test]
fn an_id_belongs_to_one_question() {
    let other = MINES.replace(r#""m""#, r#""n""#);
    let message = refused(TaskName::Arc, &format!("{MINES}\n{other}\n{MINES}\n"));
    let wanted = "expected an id of its own for each question";
    assert_eq!(
        message,
        format!(r#"d.jsonl line 3: the id "m" is that of d.jsonl line 1 too; {wanted}"#)
    );
    let two = [("a.jsonl", other.as_bytes()), ("b.jsonl", other.as_bytes())];
    assert_eq!(
        try_read(TaskName::Arc, &two).unwrap_err(),
        format!(r#"b.jsonl line 1: the id "n" is that of a.jsonl line 1 too; {wanted}"#)
    );
    // Files of one name in two folders; their questions have no ids.
    let row = br#"{"prompt": "Hi"}"#;
    let two: [(_, &[u8]); 2] = [("a/d.jsonl", row), ("b/d.jsonl", row)];
    assert_eq!(try_read(TaskName::Text, &two).unwrap().len(), 2);
    let same: [(_, &[u8]); 2] = [("a.jsonl", row), ("a.jsonl", row)];
    assert!(try_read(TaskName::Text, &same).unwrap_err().contains("a.jsonl line 1 too"));
}

#[test]
fn a_file_has_to_hold_something_that_can_be_read() {
    for nothing in ["", "\n \n", "\u{feff}"] {
        assert_eq!(
            refused(TaskName::Arc, nothing),
            format!("d.jsonl line 1: the file is empty; expected on each line {WANTED_CHOICE}")
        );
    }
    let wide: Vec<u8> = MINES.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        try_read(TaskName::Arc, &[("d.jsonl", &wide)]).unwrap_err(),
        "d.jsonl line 1: the file looks like UTF-16; save it as UTF-8"
    );
    let latin = [MINES.as_bytes(), b"\n{\"question\": \"Caf\xe9?\"}"].concat();
    assert_eq!(
        try_read(TaskName::Arc, &[("d.jsonl", &latin)]).unwrap_err(),
        "d.jsonl line 2: not UTF-8; the file looks like Latin-1 (ISO 8859-1); save it as UTF-8"
    );
    let missing = read(TaskName::Arc, &["nowhere.jsonl".into()]).unwrap_err();
    assert!(matches!(missing, ReadError::File { .. }));
    assert!(missing.to_string().starts_with("nowhere.jsonl: "));
}

#[test]
fn a_good_file_does_not_save_a_bad_one() {
    let files: [(_, &[u8]); 2] = [("a.jsonl", MINES.as_bytes()), ("b.jsonl", b"")];
    assert!(try_read(TaskName::Arc, &files).unwrap_err().starts_with("b.jsonl line 1: "));
}

#[test]
fn files_where_they_are_wanted() {
    let nothing = read(TaskName::Math, &[]).unwrap_err();
    assert!(matches!(nothing, ReadError::NoData { task: TaskName::Math }), "{nothing}");
    let unwanted = read(TaskName::Builtin, &["x".into()]).unwrap_err();
    assert!(matches!(unwanted, ReadError::DataUnwanted { .. }), "{unwanted}");
}

#[test]
fn files_to_learn_from_may_be_of_any_shape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.jsonl");
    fs::write(&path, format!("{MINES}\n{SUM}\n{MINES}\n{{\"prompt\": \"Hi\"}}\n")).unwrap();
    let examples = Example::read(&path).unwrap();
    let ids: Vec<_> = examples.iter().map(|example| example.id.as_str()).collect();
    assert_eq!(ids, ["m", "s", "m", "d:4"]);
    fs::write(&path, "").unwrap();
    assert_eq!(Example::read(&path).unwrap(), []);
    fs::write(&path, r#"{"id": "x"}"#).unwrap();
    let message = Example::read(&path).unwrap_err().to_string();
    assert!(message.contains("line 1: no question, problem or prompt; expected"), "{message}");
}

#[test]
fn damaged_lines_are_read_or_named() {
    let rows = [
        MINES,
        SUM,
        r#"{"prompt": "Capital of France?", "answer": "Paris", "compare": "exact"}"#,
        r#"{"task_id": "x/0", "prompt": "def f():\n", "test": "assert f()", "entry_point": "f"}"#,
        r#"{"question": {"stem": "Where?", "choices": [{"label": "A", "text": "x"}]}, "answerKey": "A"}"#,
    ];
    let corpus: Vec<Vec<u8>> = rows.iter().map(|row| row.as_bytes().to_vec()).collect();
    let mut read = 0;
    decode::mutation::each(&corpus, 20_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        for line in text.lines() {
            let row = Row::parse(line);
            let Ok(row) = row else { continue };
            for task in
                [TaskName::CommonsenseQa, TaskName::Gsm8k, TaskName::HumanEval, TaskName::Jsonl]
            {
                let example = row.example(task, "d:1".into());
                if let Ok(example) = example {
                    read += 1;
                    let _ = (example.prompt(), example.conclusion(line), example.right());
                }
            }
            let _ = row.shape();
        }
    });
    assert!(read > 300, "{read}");
}
