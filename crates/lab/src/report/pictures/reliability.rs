//! Whether answers with higher scores are right more often.

use super::{Picture, data_points, describe, legend};
use crate::report::{
    ReportError,
    calibration::{Bin, Calibration},
    numbers::{decimal, percent, short_percent},
    plots::{
        curves::{Axis, Curves, DataPoint, Intervals, Line, around},
        style::Style,
    },
};

/// How the scores of an answer's tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    Mean,
    Lowest,
}

/// A curve for every router; `None` where no answer is right or wrong, or none has scores.
pub fn picture(calibrations: &[Calibration], score: Score) -> Result<Option<Picture>, ReportError> {
    if calibrations.is_empty() {
        return Ok(None);
    }
    let (name, word) = match score {
        Score::Mean => ("calibration-mean", "mean"),
        Score::Lowest => ("calibration-lowest", "lowest"),
    };
    let (mut lines, mut points, mut separations) = (vec![], vec![], vec![]);
    for (number, calibration) in calibrations.iter().enumerate() {
        let reliability = match score {
            Score::Mean => &calibration.mean,
            Score::Lowest => &calibration.lowest,
        };
        points.push(calibration.point.as_str());
        let named = |share| format!("{} {}", calibration.router, decimal::<2>(share));
        separations.extend(reliability.separation.map(named));
        lines.push(Line {
            name: calibration.router.clone(),
            style: Style::of(number),
            data_points: reliability.bins.iter().map(data_point).collect(),
            intervals: if number == 0 { Intervals::Band } else { Intervals::Hidden },
        });
    }
    if separations.is_empty() {
        separations.push("not known, for want of wrong answers or of right ones".into());
    }
    let x = Axis {
        name: format!("{word} score of an answer’s tokens"),
        range: around(data_points(&lines).map(|s| s.x), 0.0..1.0, 0.02),
        number: decimal::<2>,
    };
    let y = Axis { name: "right answers".into(), range: 0.0..1.0, number: short_percent };
    Ok(Some(Picture {
        name,
        title: format!("Calibration: are answers with a higher {word} score right more often?"),
        description: describe(&lines, decimal::<2>, percent),
        caption: format!(
            "Answers of {}, in bins by the {word} score of their tokens; the band is the first \
             router’s 95 % interval. A score is trust in one token and no promise for a whole \
             answer, so that the dotted line of equal numbers is not its aim: what counts is that \
             the curve rises. How often a right answer scores above a wrong one (0.5 is chance): \
             {}.",
            points.join(", "),
            separations.join(", "),
        ),
        legend: legend(&lines)?,
        drawing: Curves { x, y, lines, levels: vec![], diagonal: true }.draw()?,
    }))
}

fn data_point(bin: &Bin) -> DataPoint {
    DataPoint { x: bin.score, y: bin.right, interval: Some((bin.low, bin.high)), label: None }
}
