//! Which plots a task gets, and what is said of them: [`worth`] against share and time, the
//! [`split`] of time, the [`reliability`] of scores.

pub mod reliability;
pub mod split;
pub mod worth;

use serde::Serialize;

use super::{
    ReportError,
    calibration::Calibration,
    plots::{
        canvas::Drawing,
        curves::{DataPoint, Line},
    },
    readings::Readings,
};
use crate::eval::table::Row;

#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    pub name: &'static str,
    pub title: String,
    /// For those who cannot see it.
    pub description: String,
    /// Below it: what it shows, and what it does not.
    pub caption: String,
    pub drawing: Drawing,
    pub legend: Vec<Key>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Key {
    pub name: String,
    pub swatch: Drawing,
}

/// Every plot of a task, as far as its rows allow.
pub fn of(
    readings: &Readings,
    rows: &[Row],
    calibrations: &[Calibration],
) -> Result<Vec<Picture>, ReportError> {
    let mut pictures = vec![];
    pictures.extend(worth::by_share(readings)?);
    pictures.extend(worth::whole_answers(readings)?);
    for delay in readings.delays() {
        pictures.extend(worth::by_time(readings, delay)?);
    }
    pictures.extend(split::picture(rows, readings.routers().first().copied())?);
    for score in [reliability::Score::Mean, reliability::Score::Lowest] {
        pictures.extend(reliability::picture(calibrations, score)?);
    }
    Ok(pictures)
}

fn data_points(lines: &[Line]) -> impl Iterator<Item = &DataPoint> {
    lines.iter().flat_map(|line| &line.data_points)
}

fn legend(lines: &[Line]) -> Result<Vec<Key>, ReportError> {
    let key = |line: &Line| Ok(Key { name: line.name.clone(), swatch: line.style.swatch()? });
    lines.iter().map(key).collect()
}

/// Every point in words.
fn describe(lines: &[Line], x: fn(f64) -> String, y: fn(f64) -> String) -> String {
    let line = |line: &Line| {
        let data_points: Vec<_> =
            line.data_points.iter().map(|s| format!("{} at {}", y(s.y), x(s.x))).collect();
        format!("{}: {}", line.name, data_points.join(", "))
    };
    lines.iter().map(line).collect::<Vec<_>>().join("; ")
}
