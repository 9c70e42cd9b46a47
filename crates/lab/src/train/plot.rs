//! Curves to look at, as one SVG.

use plotters::{coord::Shift, prelude::*};
use thiserror::Error;

use super::Curves;

#[derive(Debug, Error)]
#[error("the curves could not be drawn: {0}")]
pub struct PlotError(String);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// More points than this cannot be told apart at the size of the picture.
const MOST_POINTS: usize = 400;

const SIZE: (u32, u32) = (960, 480);
const CURVE: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const CHANCE: RGBColor = RGBColor(0xaa, 0xaa, 0xaa);

/// The ROC curve and the calibration curve, side by side.
pub fn svg(curves: &Curves) -> Result<String, PlotError> {
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (left, right) = root.split_horizontally(SIZE.0 / 2);
        let roc: Vec<_> =
            curves.roc.iter().map(|p| (p.false_positive as f32, p.true_positive as f32)).collect();
        let roc = thin(&roc);
        panel(&left, "ROC", ["trusted though wrong", "trusted and right"], &roc, false)?;
        let bins: Vec<_> =
            curves.calibration.iter().map(|b| (b.score as f32, b.observed as f32)).collect();
        panel(&right, "Calibration", ["score", "share that was right"], &bins, true)?;
        root.present().map_err(failed)?;
    }
    Ok(picture)
}

fn panel(
    area: &Area,
    title: &str,
    axes: [&str; 2],
    points: &[(f32, f32)],
    dots: bool,
) -> Result<(), PlotError> {
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .caption(title, ("sans-serif", 24))
        .x_label_area_size(48)
        .y_label_area_size(56)
        .build_cartesian_2d(0f32..1f32, 0f32..1f32)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(axes[0]).y_desc(axes[1]).x_labels(6).y_labels(6).max_light_lines(0);
    mesh.label_style(("sans-serif", 17)).axis_desc_style(("sans-serif", 18));
    mesh.draw().map_err(failed)?;
    chart.draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], CHANCE)).map_err(failed)?;
    let line = LineSeries::new(points.iter().copied(), CURVE.stroke_width(2));
    chart.draw_series(line).map_err(failed)?;
    if dots {
        let dots = points.iter().map(|&point| Circle::new(point, 4, CURVE.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    Ok(())
}

/// Evenly spaced points, the first and the last among them.
fn thin(points: &[(f32, f32)]) -> Vec<(f32, f32)> {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let every = points.iter().step_by(step);
    every.chain(points.last()).copied().collect()
}

fn failed(why: impl std::fmt::Display) -> PlotError {
    PlotError(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{calibration_bins, roc};

    #[test]
    fn draws_what_there_is() {
        let scored: Vec<_> =
            (0..5000usize).map(|i| (i as f64 / 5000.0, (i * 7919) % 5000 < i)).collect();
        let curves = Curves { roc: roc(&scored), calibration: calibration_bins(&scored, 10) };
        let picture = svg(&curves).unwrap();
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        assert!(picture.contains("share that was right") && picture.contains("ROC"));
        assert!(picture.len() < 60_000, "{}", picture.len());
        assert!(svg(&Curves { roc: vec![], calibration: vec![] }).is_ok());
    }
}
