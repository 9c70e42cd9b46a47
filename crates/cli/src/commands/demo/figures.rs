//! What is said of three answers to one question: a table, and a sentence that follows from it.

use decode::{Budget, Stats};
use tandem::Mode;

use super::question::Question;
use crate::show::percent;

/// Speeds closer than this are the same: the machine is not that steady.
const SAME_SPEED: f64 = 0.05;

pub struct Answer {
    mode: Mode,
    /// What it concludes, as people write it, where something is right.
    conclusion: Option<Conclusion>,
    /// The text, for comparison.
    text: String,
    stats: Stats,
}

struct Conclusion {
    /// `None` where the text concludes nothing.
    choice: Option<String>,
    right: bool,
}

impl Answer {
    pub fn new(mode: Mode, question: &Question, text: &str, stats: Stats) -> Self {
        let conclusion = question
            .is_right(text)
            .map(|right| Conclusion { choice: question.conclusion(text), right });
        Self { mode, conclusion, text: text.trim().to_owned(), stats }
    }

    fn share(&self) -> String {
        format!("{:.1} %", self.stats.routed_share * 100.0)
    }

    fn choice(&self) -> Option<&str> {
        self.conclusion.as_ref()?.choice.as_deref()
    }
}

/// A row a mode.
pub fn table(answers: &[Answer]) -> String {
    let judged = answers.iter().any(|answer| answer.conclusion.is_some());
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(judged.then(|| "answer".to_owned()));
    let measured = ["from the cloud", "tokens/s", "characters/s", "first token", "sent"];
    rows[0].extend(measured.map(String::from));
    for answer in answers {
        let stats = &answer.stats;
        let mut row = vec![answer.mode.to_string()];
        if let Some(Conclusion { choice, right }) = &answer.conclusion {
            let verdict = if *right { "right" } else { "wrong" };
            row.push(format!("{}, {verdict}", choice.as_deref().unwrap_or("none")));
        }
        row.push(answer.share());
        row.push(format!("{:.1}", stats.tokens_per_second));
        row.push(format!("{:.0}", stats.characters_per_second));
        row.push(format!("{:.0} ms", stats.time_to_first_token.as_secs_f64() * 1000.0));
        row.push(format!("{} bytes", stats.sent_bytes));
        rows.push(row);
    }
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let words = 1 + usize::from(judged);
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or_default();
            // Words to the left, numbers to the right.
            if column < words { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("   ");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

/// One sentence on what is seen, whatever it is.
pub fn verdict(small: &Answer, joint: &Answer, large: &Answer) -> String {
    let speed = speed(joint, large);
    if joint.stats.cloud_tokens == 0 {
        return format!("Joint never asked the large model: the text is the small one's, {speed}.");
    }
    let share = format!("With {} of its tokens from the large model, joint", joint.share());
    if joint.conclusion.is_none() && joint.text == large.text {
        return format!("{share} wrote the large model's text word for word, {speed}.");
    }
    if joint.conclusion.is_none() {
        return format!("{share} wrote {speed}; which answer is best is for you to judge.");
    }
    let quoted = |answer: &Answer| answer.choice().unwrap_or("nothing clear").to_owned();
    if joint.choice().is_none() || joint.choice() != large.choice() {
        return format!(
            "{share} did not give the large model's answer: it said {} and the large model {}; it \
             wrote {speed}.",
            quoted(joint),
            quoted(large)
        );
    }
    let wrong = joint.conclusion.as_ref().is_some_and(|c| !c.right);
    let wrong = if wrong { ", which is wrong" } else { "" };
    let alone = if small.choice() == joint.choice() {
        "as the small one did alone".to_owned()
    } else {
        format!("where the small one alone said {}", quoted(small))
    };
    format!("{share} gave the large model's answer, {}{wrong}, {alone}, {speed}.", quoted(joint))
}

/// In characters a second: tokens of different vocabularies cannot be compared.
fn speed(joint: &Answer, large: &Answer) -> String {
    let ratio = joint.stats.characters_per_second / large.stats.characters_per_second;
    if !ratio.is_finite() {
        "at a speed that could not be measured".into()
    } else if (ratio - 1.0).abs() < SAME_SPEED {
        "at about the large model's speed".into()
    } else if ratio > 1.0 {
        format!("at {ratio:.1} times the large model's speed")
    } else {
        format!("at {ratio:.2} of the large model's speed, slower than the large model alone")
    }
}

/// A budget says little about one short answer.
pub fn budget(budget: &Budget, joint: &Answer) -> String {
    format!(
        "The budget of {} holds over a long run; one short answer may take more or less, and this one took {}.",
        percent(budget.share()),
        joint.share()
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    fn stats(cloud_tokens: usize, characters_per_second: f64) -> Stats {
        Stats {
            tokens: 40,
            cloud_tokens,
            routed_share: cloud_tokens as f64 / 40.0,
            sent_bytes: 1234,
            time_to_first_token: Duration::from_millis(250),
            tokens_per_second: characters_per_second / 4.0,
            characters_per_second,
            ..Stats::default()
        }
    }

    /// Three answers to one choice; `joint` took so many tokens, and the speeds are joint's and large's.
    fn choice(concluded: [&str; 3], cloud_tokens: usize, speeds: [f64; 2]) -> [Answer; 3] {
        let example = super::super::question::common_sense();
        let [small, joint, large] = concluded.map(|answer| match answer {
            "" => String::new(),
            answer => format!("Therefore, the answer is {answer}."),
        });
        [
            Answer::new(Mode::Small, &example, &small, stats(0, 120.0)),
            Answer::new(Mode::Joint, &example, &joint, stats(cloud_tokens, speeds[0])),
            Answer::new(Mode::Large, &example, &format!("{large} "), stats(40, speeds[1])),
        ]
    }

    fn sentence([small, joint, large]: &[Answer; 3]) -> String {
        verdict(small, joint, large)
    }

    #[test]
    fn the_sentence_follows_from_the_figures() {
        let (valley, mountain) = ("valley (c)", "mountain (e)");
        for (concluded, tokens, speeds, says) in [
            (
                [valley, mountain, mountain],
                2,
                [60.0, 30.0],
                "With 5.0 % of its tokens from the large model, joint gave the large model's \
                 answer, mountain (e), where the small one alone said valley (c), at 2.0 times the \
                 large model's speed.",
            ),
            (
                [mountain, mountain, mountain],
                2,
                [30.5, 30.0],
                "as the small one did alone, at about",
            ),
            (
                [valley, mountain, mountain],
                2,
                [20.0, 30.0],
                "at 0.67 of the large model's speed, slower",
            ),
            (
                [valley, valley, mountain],
                2,
                [60.0, 30.0],
                "did not give the large model's answer: \
                 it said valley (c) and the large model mountain (e)",
            ),
            ([valley, "", mountain], 2, [60.0, 30.0], "it said nothing clear"),
            ([mountain, valley, valley], 2, [60.0, 30.0], "valley (c), which is wrong"),
            ([valley, valley, mountain], 0, [60.0, 30.0], "never asked the large model"),
            ([valley, mountain, mountain], 2, [60.0, 0.0], "could not be measured"),
        ] {
            let sentence = sentence(&choice(concluded, tokens, speeds));
            assert!(sentence.contains(says), "{concluded:?}: {sentence}");
        }
    }

    #[test]
    fn a_question_without_a_right_answer_is_left_to_the_reader() {
        let example = super::super::question::plain();
        let answer = |mode, text, cloud| Answer::new(mode, &example, text, stats(cloud, 60.0));
        let (small, joint) = (answer(Mode::Small, "a", 0), answer(Mode::Joint, "b", 4));
        let judged = verdict(&small, &joint, &answer(Mode::Large, "c", 40));
        assert!(judged.starts_with("With 10.0 %"), "{judged}");
        assert!(judged.ends_with("for you to judge."), "{judged}");
        let same = verdict(&small, &joint, &answer(Mode::Large, " b\n", 40));
        assert!(same.contains("the large model's text word for word, at about"), "{same}");
        let table = table(&[small, joint]);
        assert!(!table.contains("right") && !table.contains("answer"), "{table}");
    }

    #[test]
    fn a_row_a_mode_and_columns_that_line_up() {
        let table = table(&choice(["valley (c)", "", "mountain (e)"], 2, [60.0, 30.0]));
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[1].starts_with("small   valley (c), wrong"), "{table}");
        assert!(
            lines[2].starts_with("joint   none, wrong") && lines[2].contains("5.0 %"),
            "{table}"
        );
        assert!(lines[3].contains("mountain (e), right"), "{table}");
        let ends: Vec<_> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(ends.iter().skip(1).all(|end| *end == ends[1]), "{table}");
    }
}
