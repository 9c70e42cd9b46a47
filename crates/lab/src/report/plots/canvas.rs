//! Where plots are drawn. They take their colours from the page, so that one picture serves light
//! and dark.

use plotters::{coord::Shift, prelude::*, style::text_anchor::Pos};
use serde::Serialize;

use crate::report::ReportError;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Text this large stays legible where the picture is shrunk to a phone's width.
const TEXT: u32 = 17;

/// A colour, by what it stands for; the page says what it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Text,
    Grid,
    /// Levels to compare with.
    Level,
    /// `random`.
    Chance,
    Line(u8),
    Part(u8),
}

impl Ink {
    fn all() -> impl Iterator<Item = Self> {
        let lines = (0..LINES).map(Self::Line);
        let parts = (0..PARTS).map(Self::Part);
        [Self::Text, Self::Grid, Self::Level, Self::Chance].into_iter().chain(lines).chain(parts)
    }

    /// The library only knows numbers: these stand in until the picture is finished.
    pub fn stand_in(self) -> RGBColor {
        match self {
            Self::Text => RGBColor(1, 2, 1),
            Self::Grid => RGBColor(1, 2, 2),
            Self::Level => RGBColor(1, 2, 3),
            Self::Chance => RGBColor(1, 2, 4),
            Self::Line(number) => RGBColor(1, 3, number % LINES),
            Self::Part(number) => RGBColor(1, 4, number % PARTS),
        }
    }

    /// What the page calls it. Parts are patterns: they lie side by side, and colour alone would
    /// not tell them apart for everybody.
    fn on_the_page(self) -> String {
        match self {
            Self::Text => "currentColor".into(),
            Self::Grid => "var(--grid)".into(),
            Self::Level => "var(--level)".into(),
            Self::Chance => "var(--chance)".into(),
            Self::Line(number) => format!("var(--line-{number})"),
            Self::Part(number) => format!("url(#part-{number})"),
        }
    }
}

/// Different colours for lines; past them they begin again with other marks and dashes.
pub const LINES: u8 = 6;
/// Different patterns for parts.
pub const PARTS: u8 = 8;

/// A finished picture: what stands inside its `svg` element.
#[derive(Clone, Debug, Serialize)]
pub struct Drawing {
    pub width: u32,
    pub height: u32,
    pub marks: String,
}

pub fn draw(
    (width, height): (u32, u32),
    job: impl FnOnce(&Area) -> Result<(), ReportError>,
) -> Result<Drawing, ReportError> {
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, (width, height)).into_drawing_area();
        job(&area)?;
        area.present().map_err(failed)?;
    }
    // The page writes the outermost element itself, with words for those who cannot see it.
    let inside = picture.split_once('>').map_or("", |(_, inside)| inside).trim_end();
    let mut marks = inside.strip_suffix("</svg>").unwrap_or(inside).trim().to_owned();
    for ink in Ink::all() {
        let RGBColor(r, g, b) = ink.stand_in();
        // With its quotes: words in the picture have theirs escaped and stay as they are.
        let stand_in = format!("\"#{r:02X}{g:02X}{b:02X}\"");
        marks = marks.replace(&stand_in, &format!("\"{}\"", ink.on_the_page()));
    }
    Ok(Drawing { width, height, marks })
}

pub fn words(ink: Ink, at: Pos) -> TextStyle<'static> {
    let style = TextStyle::from(("sans-serif", TEXT).into_font()).pos(at);
    TextStyle { color: ink.stand_in().to_backend_color(), ..style }
}

/// The drawing library's reason, as ours.
pub fn failed(reason: impl std::fmt::Display) -> ReportError {
    ReportError::Plot { reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use plotters::style::text_anchor::{HPos, VPos};

    use super::*;

    #[test]
    fn a_picture_has_the_pages_colours_and_escaped_words() {
        let drawing = draw((100, 50), |area| {
            let style = words(Ink::Text, Pos::new(HPos::Left, VPos::Top));
            area.draw(&Text::new("<script>\"#010301\"", (1, 1), style)).map_err(failed)?;
            let line = PathElement::new([(0, 0), (9, 9)], Ink::Line(1).stand_in());
            area.draw(&line).map_err(failed)
        });
        let marks = drawing.unwrap().marks;
        assert!(marks.contains("\"currentColor\"") && marks.contains("\"var(--line-1)\""));
        assert!(marks.contains("&lt;script&gt;&quot;#010301&quot;"), "{marks}");
        assert!(!marks.contains("\"#") && !marks.contains("svg"), "{marks}");
    }
}
