//! Lines with what is known of their uncertainty: bands, whiskers, levels to compare with.

use std::ops::Range;

use plotters::{
    coord::types::RangedCoordf64,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    canvas::{Area, Drawing, Ink, draw, failed, words},
    style::Style,
};
use crate::report::ReportError;

/// Narrow, so that words in it are legible on a phone.
const SIZE: (u32, u32) = (420, 320);
const BAND: f64 = 0.16;
const WHISKER: f64 = 0.45;

type Plane = Cartesian2d<RangedCoordf64, RangedCoordf64>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;
/// From values to pixels.
type ToPixels<'a> = &'a dyn Fn(f64, f64) -> (i32, i32);

#[derive(Clone, Debug)]
pub struct Axis {
    pub name: String,
    pub range: Range<f64>,
    pub number: fn(f64) -> String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DataPoint {
    pub x: f64,
    pub y: f64,
    /// Where 95 % of redrawn values lie.
    pub interval: Option<(f64, f64)>,
    pub label: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervals {
    Band,
    /// As a stroke at every point.
    Whiskers,
    /// Not at all: the table has them.
    Hidden,
}

/// Points that belong together, from left to right.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub style: Style,
    pub data_points: Vec<DataPoint>,
    pub intervals: Intervals,
}

/// A height to compare with, drawn across.
#[derive(Clone, Debug)]
pub struct Level {
    pub name: String,
    pub y: f64,
}

#[derive(Clone, Debug)]
pub struct Curves {
    pub x: Axis,
    pub y: Axis,
    /// In the order of the legend.
    pub lines: Vec<Line>,
    pub levels: Vec<Level>,
    /// Whether to show where both directions are equal.
    pub diagonal: bool,
}

impl Curves {
    pub fn draw(&self) -> Result<Drawing, ReportError> {
        draw(SIZE, |area| {
            let mut builder = ChartBuilder::on(area);
            builder.margin_top(30).margin_right(16).x_label_area_size(46).y_label_area_size(62);
            let (x, y) = (self.x.range.clone(), self.y.range.clone());
            let mut chart = builder.build_cartesian_2d(x, y).map_err(failed)?;
            self.mesh(area, &mut chart)?;
            let place: ToPixels = &|x, y| chart.plotting_area().map_coordinate(&(x, y));
            self.draw_levels(area, place)?;
            for line in &self.lines {
                line.draw_intervals(area, place)?;
            }
            // The first line is the one that matters: it lies on top.
            for line in self.lines.iter().rev() {
                line.draw(area, place)?;
            }
            Ok(())
        })
    }

    fn mesh(&self, area: &Area, chart: &mut Chart) -> Result<(), ReportError> {
        let label = words(Ink::Text, Pos::new(HPos::Center, VPos::Center));
        let grid = Ink::Grid.stand_in();
        let (across, up) = (self.x.number, self.y.number);
        let (across, up) = (move |v: &f64| across(*v), move |v: &f64| up(*v));
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(5).y_labels(6).max_light_lines(0).disable_x_mesh();
        mesh.x_label_formatter(&across).y_label_formatter(&up);
        mesh.bold_line_style(grid).axis_style(grid).label_style(label.clone());
        mesh.x_desc(&self.x.name).axis_desc_style(label);
        mesh.draw().map_err(failed)?;
        // Upright beside the axis it would cost width and a turned head.
        let above = words(Ink::Text, Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(self.y.name.as_str(), (2, 6), above)).map_err(failed)
    }

    fn draw_levels(&self, area: &Area, place: ToPixels) -> Result<(), ReportError> {
        let (x, y) = (&self.x.range, &self.y.range);
        let colour = Ink::Level.stand_in();
        let mut named: Option<i32> = None;
        for level in &self.levels {
            let ends = [place(x.start, level.y), place(x.end, level.y)];
            area.draw(&PathElement::new(ends, colour.stroke_width(1))).map_err(failed)?;
            let style = words(Ink::Level, Pos::new(HPos::Right, VPos::Bottom));
            let (mut right, height) = ends[1];
            // Two levels at one height have their names side by side.
            if named.is_some_and(|other| (other - height).abs() < 18) {
                right -= 120;
            }
            named = Some(height);
            let name = Text::new(level.name.as_str(), (right - 2, height - 1), style);
            area.draw(&name).map_err(failed)?;
        }
        let (from, to) = (x.start.max(y.start), x.end.min(y.end));
        if self.diagonal && from < to {
            let ends = [place(from, from), place(to, to)];
            let dashed = DashedLineSeries::new(ends, 2, 4, colour.stroke_width(1));
            for part in dashed {
                area.draw(&part).map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl Line {
    /// The same, with its intervals shown.
    pub fn with(self, intervals: Intervals) -> Self {
        Self { intervals, ..self }
    }

    fn draw_intervals(&self, area: &Area, place: ToPixels) -> Result<(), ReportError> {
        let known: Vec<_> = self
            .data_points
            .iter()
            .filter_map(|s| s.interval.map(|(low, high)| (s.x, low, high)))
            .collect();
        let colour = self.style.ink.stand_in();
        // A band needs two points to lie between.
        if self.intervals == Intervals::Band && known.len() > 1 {
            let under = known.iter().map(|&(x, low, _)| place(x, low));
            let over = known.iter().rev().map(|&(x, _, high)| place(x, high));
            let band = Polygon::new(under.chain(over).collect::<Vec<_>>(), colour.mix(BAND));
            return area.draw(&band).map_err(failed);
        }
        if self.intervals == Intervals::Hidden {
            return Ok(());
        }
        for (x, low, high) in known {
            let stroke = [place(x, low), place(x, high)];
            let style = colour.mix(WHISKER).stroke_width(1);
            area.draw(&PathElement::new(stroke, style)).map_err(failed)?;
        }
        Ok(())
    }

    fn draw(&self, area: &Area, place: ToPixels) -> Result<(), ReportError> {
        let through: Vec<_> = self.data_points.iter().map(|s| place(s.x, s.y)).collect();
        if through.len() > 1 {
            self.style.line(area, &through)?;
        }
        // A label that would lie on the one before it is left out.
        let mut labelled: Option<(i32, i32)> = None;
        for (data_point, &(x, y)) in self.data_points.iter().zip(&through) {
            self.style.mark(area, (x, y))?;
            let free =
                |(other, height): (i32, i32)| (x - other).abs() > 48 || (y - height).abs() > 18;
            if let (Some(label), true) = (&data_point.label, labelled.is_none_or(free)) {
                labelled = Some((x, y));
                let style = words(self.style.ink, Pos::new(HPos::Right, VPos::Bottom));
                area.draw(&Text::new(label.as_str(), (x - 6, y - 4), style)).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// A range that holds all values with some air around them, inside what is possible and not
/// narrower than `least`: a plot must not make much of nothing.
pub fn around(
    values: impl IntoIterator<Item = f64>,
    possible: Range<f64>,
    least: f64,
) -> Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.into_iter().filter(|v| v.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        (low, high) =
            if possible.end.is_finite() { (possible.start, possible.end) } else { (0.0, 1.0) };
    }
    let air = ((high - low) * 0.08).max((least - (high - low)) / 2.0);
    let (low, high) = ((low - air).max(possible.start), (high + air).min(possible.end));
    // At the edge of what is possible there is room on one side only.
    (low.min(high - least)).max(possible.start)..(high.max(low + least)).min(possible.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_point(x: f64) -> DataPoint {
        DataPoint { x, y: x, interval: Some((x - 0.1, x + 0.1)), label: Some("7 %".into()) }
    }

    fn curves(data_points: Vec<DataPoint>, intervals: Intervals) -> String {
        let number = |v: f64| format!("{v:.1}");
        let axis = |name: &str| Axis { name: name.into(), range: 0.0..1.0, number };
        let line = Line { name: "r".into(), style: Style::of(0), data_points, intervals };
        let levels = vec![Level { name: "small".into(), y: 0.4 }];
        let (x, y) = (axis("across"), axis("up"));
        Curves { x, y, lines: vec![line], levels, diagonal: true }.draw().unwrap().marks
    }

    #[test]
    fn a_line_its_band_and_its_labels() {
        let marks = curves(vec![data_point(0.2), data_point(0.6)], Intervals::Band);
        assert!(marks.contains("<polygon opacity=\"0.16\" fill=\"var(--line-0)\""), "{marks}");
        assert_eq!(marks.matches("<circle").count(), 2);
        assert_eq!(marks.matches("7 %").count(), 2);
        for word in ["across", "up", "small"] {
            assert!(marks.contains(word), "{word}");
        }
    }

    #[test]
    fn one_point_has_a_whisker_and_no_line() {
        let marks = curves(vec![data_point(0.5)], Intervals::Band);
        assert!(!marks.contains("<polygon") && marks.contains("opacity=\"0.45\""), "{marks}");
        curves(vec![], Intervals::Whiskers);
    }

    #[test]
    fn ranges() {
        let shares = |values: &[f64]| around(values.iter().copied(), 0.0..1.0, 0.1);
        assert_eq!(shares(&[]), 0.0..1.0);
        assert_eq!(around([f64::NAN], 0.0..f64::INFINITY, 0.1).start, 0.0);
        let range = shares(&[0.4, 0.6]);
        assert!(range.start < 0.4 && range.end > 0.6 && range.end < 0.65);
        assert_eq!(shares(&[0.0, 1.0]), 0.0..1.0);
        for (one, wanted) in [(0.5, 0.45..0.55), (1.0, 0.9..1.0), (0.0, 0.0..0.1)] {
            let range = shares(&[one]);
            assert!((range.start - wanted.start).abs() < 1e-9, "{range:?}");
            assert!((range.end - wanted.end).abs() < 1e-9, "{range:?}");
        }
    }

    #[test]
    fn levels_at_one_height_are_named_side_by_side() {
        let number = |v: f64| format!("{v:.1}");
        let axis = || Axis { name: "a".into(), range: 0.0..1.0, number };
        let level = |name: &str, y| Level { name: name.into(), y };
        let levels = vec![level("first", 0.5), level("second", 0.51), level("third", 0.9)];
        let all = Curves { x: axis(), y: axis(), lines: vec![], levels, diagonal: false };
        let marks = all.draw().unwrap().marks;
        let place = |name: &str| {
            let before = &marks[..marks.find(name).unwrap()];
            let text = &before[before.rfind("<text x=\"").unwrap() + 9..];
            text[..text.find('"').unwrap()].parse::<i32>().unwrap()
        };
        assert_eq!(place("first") - place("second"), 120);
        assert_eq!(place("first"), place("third"));
    }
}
