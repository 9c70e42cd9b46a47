//! Tables of words, for the page and for the summary alike.

use serde::Serialize;

use super::numbers::{decimal, milliseconds, percent, points, short_milliseconds};
use crate::{
    eval::table::{Difference, Row},
    statistics::Estimate,
};

#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    /// What the columns are; the first names the row.
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A column, and how it is made from a row; `None` is an empty cell.
pub type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Option<String>);

impl Grid {
    /// Columns that no row fills are left out.
    pub fn new<T>(rows: &[T], columns: &[Column<'_, T>]) -> Self {
        let filled: Vec<_> = columns
            .iter()
            .map(|(name, cell)| (*name, rows.iter().map(cell).collect::<Vec<_>>()))
            .filter(|(_, cells)| cells.iter().any(Option::is_some))
            .collect();
        let row = |at: usize| {
            let cell = |(_, cells): &(&str, Vec<Option<String>>)| cells[at].clone();
            filled.iter().map(|column| cell(column).unwrap_or_default()).collect()
        };
        Self {
            columns: filled.iter().map(|(name, _)| (*name).to_owned()).collect(),
            rows: (0..rows.len()).map(row).collect(),
        }
    }
}

/// The table of a task: every row with what it was worth, and what it cost.
pub fn of_rows(rows: &[(Row, Option<Estimate>)]) -> Grid {
    type Read = (Row, Option<Estimate>);
    let each = |count: usize, row: &Row| decimal::<1>(count as f64 / row.questions.max(1) as f64);
    Grid::new::<Read>(
        rows,
        &[
            ("point", &|(row, _)| Some(row.name.clone())),
            ("answers", &|(row, _)| Some(row.questions.to_string())),
            ("right", &|(row, _)| row.accuracy.map(percent)),
            ("95 % interval", &|(row, _)| {
                let (low, high) = row.accuracy_low.zip(row.accuracy_high)?;
                Some(format!("{} – {}", percent(low), percent(high)))
            }),
            ("gap recovered", &|(row, _)| row.gap_recovered.map(percent)),
            ("log-likelihood a character", &|(row, _)| row.likelihood.map(decimal::<3>)),
            ("its 95 % interval", &|(row, read)| {
                let read = read.filter(|_| row.likelihood.is_some())?;
                Some(format!("{} … {}", decimal::<3>(read.low), decimal::<3>(read.high)))
            }),
            ("distinct word pairs", &|(row, _)| row.distinct.map(percent)),
            ("from the cloud", &|(row, _)| Some(percent(row.routed_share))),
            ("threshold", &|(row, _)| row.threshold.map(|t| decimal::<3>(f64::from(t)))),
            ("delay", &|(row, _)| row.rtt_ms.map(short_milliseconds)),
            ("network", &|(row, _)| row.network.clone()),
            ("tokens", &|(row, _)| Some(decimal::<1>(row.tokens_per_answer))),
            ("characters", &|(row, _)| Some(decimal::<1>(row.characters_per_answer))),
            ("cloud calls", &|(row, _)| Some(each(row.cloud_calls, row))),
            ("cloud tokens written", &|(row, _)| Some(each(row.cloud_tokens, row))),
            ("cloud tokens read", &|(row, _)| row.cloud_prefilled.map(|count| each(count, row))),
            ("gigabytes moved", &|(row, _)| row.gigabytes_per_answer.map(decimal::<2>)),
            ("joules", &|(row, _)| row.joules_per_answer.map(decimal::<1>)),
            ("first token", &|(row, _)| row.first_token_ms.map(milliseconds)),
            ("aimed at", &|(row, _)| row.pace_ms.map(milliseconds)),
            ("between tokens, mean", &|(row, _)| row.between_tokens_mean_ms.map(milliseconds)),
            ("between tokens, p50", &|(row, _)| row.between_tokens_p50_ms.map(milliseconds)),
            ("p95", &|(row, _)| row.between_tokens_p95_ms.map(milliseconds)),
            ("tokens/s", &|(row, _)| row.tokens_per_second.map(decimal::<1>)),
        ],
    )
}

pub fn of_differences(differences: &[Difference]) -> Grid {
    Grid::new(
        differences,
        &[
            ("point", &|d| Some(d.of.clone())),
            ("less", &|d| Some(d.to.clone())),
            ("percentage points", &|d| Some(points(d.accuracy))),
            ("95 % interval", &|d| Some(format!("{} … {}", points(d.low), points(d.high)))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_left_out() {
        let rows = [(1, None), (2, Some("x")), (3, None)];
        let grid = Grid::new(
            &rows,
            &[
                ("number", &|(number, _)| Some(number.to_string())),
                ("never", &|_| None),
                ("word", &|(_, word)| word.map(str::to_owned)),
            ],
        );
        assert_eq!(grid.columns, ["number", "word"]);
        assert_eq!(grid.rows, [["1", ""], ["2", "x"], ["3", ""]]);
    }
}
