//! Where the time of a token went: small, the first router at every share, verify, large.

use super::{Key, Picture};
use crate::{
    eval::{
        costs::TimeSplit,
        table::{Row, RowKind},
    },
    report::{
        ReportError,
        grid::{Column, Grid},
        numbers::milliseconds,
        plots::bars::{self, Bar},
    },
};

const CAPTION: &str = "Milliseconds a token, over all tokens of all answers, in the order of the \
    legend. Re-prefill is the small model reading what the large one wrote.";

/// The rows that have a bar. All routers spend their time alike: the first stands for them.
fn shown(rows: &[Row], first: Option<&str>) -> Vec<(String, TimeSplit)> {
    let is_shown = |row: &&Row| match row.mode {
        RowKind::Small | RowKind::Verify | RowKind::Large => true,
        RowKind::Joint => row.router.as_deref() == first,
        RowKind::TokenOracle | RowKind::Query | RowKind::Oracle => false,
    };
    rows.iter().filter(is_shown).filter_map(|row| Some((row.name.clone(), row.split?))).collect()
}

/// As stacked bars; `None` where no time was measured.
pub fn picture(rows: &[Row], first: Option<&str>) -> Result<Option<Picture>, ReportError> {
    let bar = |(name, split): (String, TimeSplit)| Bar {
        name,
        parts: split.parts().map(|(_, ms)| ms).to_vec(),
    };
    let all: Vec<Bar> = shown(rows, first).into_iter().map(bar).collect();
    if all.iter().all(|bar| bar.sum() <= 0.0) {
        return Ok(None);
    }
    let mut legend = vec![];
    for (number, (name, _)) in (0..).zip(TimeSplit::default().parts()) {
        if all.iter().any(|bar| bar.parts.get(usize::from(number)).is_some_and(|ms| *ms > 0.0)) {
            legend.push(Key { name: name.to_owned(), swatch: bars::swatch(number)? });
        }
    }
    let sums: Vec<_> =
        all.iter().map(|bar| format!("{}: {}", bar.name, milliseconds(bar.sum()))).collect();
    Ok(Some(Picture {
        name: "split",
        title: "Where the time of a token goes".into(),
        description: format!("{}. The parts are in a table below.", sums.join("; ")),
        caption: CAPTION.into(),
        legend,
        drawing: bars::bars(&all, milliseconds)?,
    }))
}

pub fn grid(rows: &[Row], first: Option<&str>) -> Grid {
    let part = |at: usize| {
        move |(_, split): &(String, TimeSplit)| {
            Some(split.parts()[at].1).filter(|ms| *ms > 0.0).map(milliseconds)
        }
    };
    let names = TimeSplit::default().parts().map(|(name, _)| name);
    let cells: Vec<_> = (0..names.len()).map(part).collect();
    let mut columns: Vec<Column<'_, (String, TimeSplit)>> =
        vec![("point", &|(name, _)| Some(name.clone()))];
    for (name, cell) in names.into_iter().zip(&cells) {
        columns.push((name, cell));
    }
    Grid::new(&shown(rows, first), &columns)
}
