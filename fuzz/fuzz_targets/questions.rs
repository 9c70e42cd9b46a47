//! Lines of questions and prompts: read for every task, put as a prompt, and an answer judged by them.
#![no_main]

use lab::{
    eval::{AnswerStyle, Example, TaskName, read},
    tune::prompts::Prompts,
};
use libfuzzer_sys::fuzz_target;

const ANSWER: &str =
    "First 3 + 4 = 7. So the answer is (B), that is \\boxed{\\frac{1}{2}}, or Paris.";

fuzz_target!(|bytes: &[u8]| {
    let path = fuzz::file("questions.jsonl", bytes);
    let paths = [path];
    for task in TaskName::all() {
        let Ok(examples) = read(task, &paths) else { continue };
        for example in &examples {
            let _ = (example.prompt(), example.right(), example.conclusion(ANSWER));
        }
    }
    for style in [AnswerStyle::AsGiven, AnswerStyle::AnswerFirst] {
        let _ = Example::read(&paths[0], style);
    }
    if let Ok(prompts) = Prompts::read(&paths, Some(20)) {
        let ids: std::collections::HashSet<_> = prompts.examples.iter().map(|e| &e.id).collect();
        assert_eq!(ids.len(), prompts.examples.len(), "two prompts with one id");
    }
});
