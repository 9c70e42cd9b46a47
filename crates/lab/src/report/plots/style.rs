//! How lines are told apart: by colour, mark and dash together.

use plotters::prelude::*;

use super::canvas::{Area, Drawing, Ink, LINES, draw, failed};
use crate::report::ReportError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Circle,
    Ring,
    Square,
    Triangle,
    Diamond,
    /// A triangle with its tip down.
    Wedge,
    Cross,
}

const MARKS: [Mark; 5] = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond, Mark::Wedge];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub ink: Ink,
    pub mark: Mark,
    /// Pixels drawn and pixels left out; `None` of a whole line.
    pub dash: Option<(i32, i32)>,
    pub width: u32,
}

impl Style {
    /// `random` looks the same everywhere.
    pub const CHANCE: Self =
        Self { ink: Ink::Chance, mark: Mark::Cross, dash: Some((6, 4)), width: 2 };

    /// A bound, not a way to decode.
    pub const ORACLE: Self =
        Self { ink: Ink::Level, mark: Mark::Ring, dash: Some((2, 4)), width: 2 };

    /// The same router's look where it chooses between whole answers: its colour, other marks.
    pub fn for_whole_answers(self) -> Self {
        let at = MARKS.iter().position(|mark| *mark == self.mark);
        let mark = at.map_or(self.mark, |at| MARKS[(at + 2) % MARKS.len()]);
        Self { mark, dash: Some((3, 4)), width: 2, ..self }
    }

    /// The look of the line with this number; the first stands out.
    pub fn of(number: usize) -> Self {
        let colour = u8::try_from(number % usize::from(LINES)).unwrap_or(0);
        let dash = [None, Some((10, 3)), Some((3, 3)), Some((12, 5))];
        Self {
            ink: Ink::Line(colour),
            mark: MARKS[number % MARKS.len()],
            dash: dash[number % dash.len()],
            width: if number == 0 { 3 } else { 2 },
        }
    }

    pub fn line(&self, area: &Area, through: &[(i32, i32)]) -> Result<(), ReportError> {
        let style = self.ink.stand_in().stroke_width(self.width);
        let through = through.to_vec();
        match self.dash {
            None => area.draw(&PathElement::new(through, style)),
            Some((drawn, left_out)) => {
                let dashed = DashedLineSeries::new(through, drawn, left_out, style);
                dashed.into_iter().try_for_each(|part| area.draw(&part))
            }
        }
        .map_err(failed)
    }

    pub fn mark(&self, area: &Area, (x, y): (i32, i32)) -> Result<(), ReportError> {
        let colour = self.ink.stand_in();
        let corners = |around: &[(i32, i32)]| {
            let corners: Vec<_> = around.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            area.draw(&Polygon::new(corners, colour.filled()))
        };
        match self.mark {
            Mark::Circle => area.draw(&Circle::new((x, y), 5, colour.filled())),
            Mark::Ring => area.draw(&Circle::new((x, y), 5, colour.stroke_width(2))),
            Mark::Square => corners(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
            Mark::Triangle => corners(&[(0, -6), (5, 4), (-5, 4)]),
            Mark::Diamond => corners(&[(0, -6), (6, 0), (0, 6), (-6, 0)]),
            Mark::Wedge => corners(&[(0, 6), (5, -4), (-5, -4)]),
            Mark::Cross => [[(x - 4, y - 4), (x + 4, y + 4)], [(x - 4, y + 4), (x + 4, y - 4)]]
                .into_iter()
                .try_for_each(|stroke| {
                    area.draw(&PathElement::new(stroke, colour.stroke_width(2)))
                }),
        }
        .map_err(failed)
    }

    /// What a legend shows of it.
    pub fn swatch(&self) -> Result<Drawing, ReportError> {
        draw((44, 16), |area| {
            self.line(area, &[(2, 8), (42, 8)])?;
            self.mark(area, (22, 8))
        })
    }
}
