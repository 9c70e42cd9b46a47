//! What is said of one record.

use std::collections::BTreeMap;

use serde::Serialize;
use tandem::Mode;

use super::{
    ReportError,
    calibration::{self, Calibration},
    examples::{self, Examples},
    grid::{self, Grid},
    measure::Measure,
    numbers::{percent, points, short_milliseconds},
    pictures::{self, Picture, split},
    readings::{Readings, is_random},
};
use crate::eval::{
    results::{Record, ResultsInfo},
    table::{RowKind, Table},
};

#[derive(Clone, Debug, Serialize)]
pub struct Section {
    pub heading: String,
    /// What it was measured on, by name.
    pub facts: Vec<(&'static str, String)>,
    /// The outcome in a few sentences.
    pub headline: Vec<String>,
    /// What is missing, or must be known to read the rest.
    pub notes: Vec<String>,
    /// Every point that was run.
    pub table: Grid,
    /// Whole answers, put together afterwards.
    pub whole_answers: Grid,
    pub differences: Grid,
    pub pictures: Vec<Picture>,
    /// Milliseconds a token, by part.
    pub split: Grid,
    /// How well scores tell right answers from wrong ones.
    pub separations: Grid,
    /// Answers by their scores.
    pub bins: Grid,
    /// Answers to look at; `None` without joint decoding.
    pub examples: Option<Examples>,
    /// The numbers themselves, for programs.
    #[serde(skip)]
    pub figures: TaskSummary,
}

#[derive(Clone, Debug, Serialize)]
pub struct TaskSummary {
    about: ResultsInfo,
    measure: Measure,
    #[serde(flatten)]
    table: Table,
    calibration: Vec<Calibration>,
    changes: Option<examples::Changes>,
    notes: Vec<String>,
}

impl Section {
    pub fn of(record: &Record) -> Result<Self, ReportError> {
        let table = Table::of(record);
        let measure = Measure::of(record);
        let readings = Readings::of(record, &table, measure);
        let calibration = calibration::of(record, &readings.routers());
        let examples =
            readings.middle().map(|middle| examples::of(record, &middle.row.name, measure));
        let notes = notes(record, &readings);
        let valued: Vec<_> =
            table.rows.iter().map(|row| (row.clone(), measure.read(row, record))).collect();
        let (put_together, run): (Vec<_>, Vec<_>) = valued
            .into_iter()
            .partition(|(row, _)| matches!(row.mode, RowKind::Query | RowKind::Oracle));
        Ok(Self {
            heading: record.about.task.clone(),
            facts: facts(record),
            headline: headline(&readings, &table, examples.as_ref()),
            notes: notes.clone(),
            table: grid::of_rows(&run),
            whole_answers: grid::of_rows(&put_together),
            differences: grid::of_differences(&table.differences),
            pictures: pictures::of(&readings, &table.rows, &calibration)?,
            split: split::grid(&table.rows, readings.routers().first().copied()),
            separations: calibration::separations(&calibration),
            bins: calibration::bins_of(&calibration),
            figures: TaskSummary {
                about: record.about.clone(),
                measure,
                changes: examples.as_ref().map(|e| e.changes),
                table,
                calibration,
                notes,
            },
            examples,
        })
    }
}

fn facts(record: &Record) -> Vec<(&'static str, String)> {
    let about = &record.about;
    [
        ("task", about.task.clone()),
        ("data", about.data.clone()),
        ("questions", record.questions.len().to_string()),
        ("small model", about.edge.clone()),
        ("large model", about.cloud.clone()),
        ("system message", about.system.clone()),
        ("an answer ends after", format!("{} tokens", about.max_tokens)),
        ("seed", about.seed.to_string()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

/// What the numbers say, for those who read no further.
fn headline(readings: &Readings, table: &Table, examples: Option<&Examples>) -> Vec<String> {
    let shown = readings.measure.presentation();
    let mut sentences = vec![];
    let alone = |kind, name: &str| {
        let worth = readings.first(kind)?.worth;
        Some(format!("{name} {}", (shown.number)(worth.mean)))
    };
    let ends: Vec<_> = [alone(RowKind::Small, "small alone"), alone(RowKind::Large, "large alone")]
        .into_iter()
        .flatten()
        .collect();
    if !ends.is_empty() {
        sentences.push(format!("{}: {}.", capital(shown.name), ends.join(", ")));
    }
    let Some(middle) = readings.middle() else { return sentences };
    let row = middle.row;
    let mut sentence = format!(
        "Together ({}), with {} of the tokens from the large model: {} ({} to {})",
        row.name,
        percent(row.routed_share),
        (shown.number)(middle.worth.mean),
        (shown.number)(middle.worth.low),
        (shown.number)(middle.worth.high),
    );
    if let Some(gap) = row.gap_recovered {
        sentence.push_str(&format!(", {} of the way from small to large", percent(gap)));
    }
    sentences.push(format!("{sentence}."));
    let random =
        |name: &str| table.rows.iter().any(|r| r.name == name && is_random(r.router.as_deref()));
    if let Some(d) = table.differences.iter().find(|d| d.of == row.name && random(&d.to)) {
        let sure = if d.low > 0.0 || d.high < 0.0 { "" } else { ", which may be luck" };
        sentences.push(format!(
            "Against random routing at the same share: {} percentage points ({} to {}){sure}.",
            points(d.accuracy),
            points(d.low),
            points(d.high),
        ));
    }
    let judged = readings.measure == Measure::Accuracy;
    if let Some(Examples { changes, .. }) = examples.filter(|_| judged) {
        sentences.push(format!(
            "Of {} the large model’s help won {} and lost {}; {} more only the large model alone \
             got right.",
            questions(changes.questions),
            changes.won,
            changes.lost,
            changes.missed,
        ));
    }
    sentences
}

fn notes(record: &Record, readings: &Readings) -> Vec<String> {
    let mut notes = vec![];
    let asked = record.questions.len();
    let mut partly: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for point in &record.points {
        let answers = record.outcomes.iter().filter(|o| o.point == point.name).count();
        if answers < asked {
            partly.entry(answers).or_default().push(&point.name);
        }
    }
    for (answers, points) in partly {
        notes.push(format!(
            "Answers to {answers} of {} only: {}. They are over other questions than the rest.",
            questions(asked),
            points.join(", "),
        ));
    }
    if asked == 0 {
        notes.push("No question is answered yet.".into());
    } else if asked < 30 {
        notes.push(format!(
            "{} cannot tell much: the intervals are wide, and where all answers are right or all \
             wrong they are too narrow.",
            questions(asked)
        ));
    }
    let joint = record.points.iter().any(|p| p.mode == Mode::Joint);
    if !joint {
        notes.push("No joint decoding was measured: there is nothing to draw against it.".into());
    } else if readings.delays().iter().any(|delay| readings.joint(None, *delay).is_empty()) {
        notes.push(
            "Random routing was not measured everywhere: without it nobody can tell what a router \
             adds to its share."
                .into(),
        );
    }
    if let [first, _, ..] = readings.delays().as_slice() {
        let first = first.map_or("none".to_owned(), short_milliseconds);
        notes.push(format!(
            "Several delays to the cloud were simulated. Plots against the share of tokens are of \
             the shortest ({first}); there is a plot against time for each."
        ));
    }
    notes.extend(readings.measure.presentation().limits.map(str::to_owned));
    notes
}

fn questions(count: usize) -> String {
    format!("{count} question{}", if count == 1 { "" } else { "s" })
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
