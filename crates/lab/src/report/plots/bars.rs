//! Stacked bars, lying: where the time went.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::canvas::{Drawing, Ink, PARTS, draw, failed, words};
use crate::report::ReportError;

const WIDTH: u32 = 420;
/// Room for a bar and the name above it.
const STEP: i32 = 48;
const BAR: i32 = 18;
/// Letters that fit above a bar; the tables have the whole name.
const LETTERS: usize = 46;
/// Room for the sum behind the longest bar.
const SUM: i32 = 84;

#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    /// Its parts, in the order of the legend.
    pub parts: Vec<f64>,
}

impl Bar {
    pub fn sum(&self) -> f64 {
        self.parts.iter().filter(|part| part.is_finite()).sum()
    }
}

/// All bars on one scale; `number` writes their sums.
pub fn bars(bars: &[Bar], number: fn(f64) -> String) -> Result<Drawing, ReportError> {
    let count = u32::try_from(bars.len()).map_err(failed)?;
    let height = count * STEP.unsigned_abs() + 6;
    let longest = bars.iter().map(Bar::sum).fold(0.0, f64::max);
    let room = f64::from(i32::try_from(WIDTH).map_err(failed)? - SUM);
    let scale = if longest > 0.0 { room / longest } else { 0.0 };
    draw((WIDTH, height), |area| {
        let mut top = 2;
        for bar in bars {
            let name = words(Ink::Text, Pos::new(HPos::Left, VPos::Top));
            area.draw(&Text::new(shorten(&bar.name), (1, top), name)).map_err(failed)?;
            let (above, mut so_far) = (top + 19, 0.0);
            for (part, length) in (0..PARTS).zip(&bar.parts).filter(|(_, length)| **length > 0.0) {
                let left = pixel(so_far * scale);
                so_far += length;
                let corners = [(left, above), (pixel(so_far * scale), above + BAR)];
                let colour = Ink::Part(part).stand_in();
                area.draw(&Rectangle::new(corners, colour.filled())).map_err(failed)?;
            }
            let sum = words(Ink::Text, Pos::new(HPos::Left, VPos::Center));
            let behind = (pixel(so_far * scale) + 6, above + BAR / 2);
            area.draw(&Text::new(number(so_far), behind, sum)).map_err(failed)?;
            top += STEP;
        }
        Ok(())
    })
}

fn shorten(name: &str) -> String {
    match name.char_indices().nth(LETTERS) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

/// What a legend shows of a part.
pub fn swatch(part: u8) -> Result<Drawing, ReportError> {
    draw((24, 16), |area| {
        let box_ = Rectangle::new([(1, 1), (23, 15)], Ink::Part(part).stand_in().filled());
        area.draw(&box_).map_err(failed)
    })
}

/// Places in a picture are far below what a whole number holds.
#[expect(clippy::cast_possible_truncation, reason = "rounded, and as large as the picture")]
fn pixel(place: f64) -> i32 {
    place.round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_share_a_scale_and_empty_parts_are_not_drawn() {
        let of = |name: &str, parts: &[f64]| Bar { name: name.into(), parts: parts.to_vec() };
        let all = [of("short", &[1.0, 0.0, 1.0]), of("<long>", &[0.0, 4.0, 0.0])];
        let marks = bars(&all, |sum| format!("{sum:.0} ms")).unwrap().marks;
        assert_eq!(marks.matches("<rect").count(), 3);
        assert!(marks.contains("url(#part-1)") && marks.contains("&lt;long&gt;"), "{marks}");
        assert!(marks.contains("width=\"336\"") && marks.contains("width=\"84\""), "{marks}");
        assert!(marks.contains("2 ms") && marks.contains("4 ms"));
        bars(&[of("none", &[0.0])], |_| String::new()).unwrap();
        let long = bars(&[of(&"é".repeat(99), &[1.0])], |_| String::new()).unwrap().marks;
        assert!(long.contains(&format!("{}…", "é".repeat(46))) && !long.contains(&"é".repeat(47)));
    }
}
