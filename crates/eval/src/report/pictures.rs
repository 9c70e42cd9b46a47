//! Which plots a task gets, and what is said of them.

use serde::Serialize;

use super::{
    ReportError,
    calibration::{Calibration, Reliability},
    measure::Measure,
    numbers::{hundredths, milliseconds, percent, short_percent},
    plots::{
        bars::{self, Bar},
        canvas::{Drawing, Ink},
        curves::{Axis, Curves, Doubt, Level, Line, Spot, around},
        style::{Mark, Style},
    },
    readings::{Reading, Readings},
};
use crate::table::{Kind, Row};

/// A plot with its words.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// Its name in the section.
    pub name: &'static str,
    /// Above it.
    pub title: String,
    /// For those who cannot see it.
    pub description: String,
    /// Below it: what it shows, and what it does not.
    pub caption: String,
    /// What is drawn.
    pub drawing: Drawing,
    /// What the lines or parts are.
    pub legend: Vec<Key>,
}

/// An entry of a legend.
#[derive(Clone, Debug, Serialize)]
pub struct Key {
    /// What it is.
    pub name: String,
    /// What it looks like.
    pub swatch: Drawing,
}

/// Every plot of a task, as far as its rows allow.
pub fn of(
    readings: &Readings,
    rows: &[Row],
    calibrations: &[Calibration],
) -> Result<Vec<Picture>, ReportError> {
    let mut pictures = vec![];
    pictures.extend(share(readings)?);
    pictures.extend(whole_answers(readings)?);
    for delay in readings.delays() {
        pictures.extend(time(readings, delay)?);
    }
    pictures.extend(split(readings, rows)?);
    let by_mean = |c: &'_ Calibration| c.mean.clone();
    let by_lowest = |c: &'_ Calibration| c.lowest.clone();
    pictures.extend(reliability(calibrations, "mean", by_mean)?);
    pictures.extend(reliability(calibrations, "lowest", by_lowest)?);
    Ok(pictures)
}

/// Joint decoding token by token: what a share of the cloud's tokens buys.
fn share(readings: &Readings) -> Result<Option<Picture>, ReportError> {
    let Some(delay) = readings.delays().first().copied() else { return Ok(None) };
    let mut lines = vec![];
    for (number, router) in readings.routers().into_iter().enumerate() {
        let doubt = if number == 0 { Doubt::Band } else { Doubt::Whiskers };
        let joint = readings.joint(Some(router), delay);
        lines.push(by_share(router, Style::of(number), &joint, doubt));
    }
    lines.extend(chance(readings, delay, Doubt::Band));
    let measure = readings.measure;
    let words = Words {
        name: "share",
        title: format!("{} against the share of tokens from the cloud", measure.title()),
        caption: format!(
            "Each line is one way to choose the tokens that come from the large model. Bands and \
             strokes are 95 % bootstrap intervals over the questions: lines whose intervals \
             overlap may differ by luck alone.{}",
            match measure {
                Measure::Accuracy => "",
                Measure::Likelihood => LIKELIHOOD,
            }
        ),
    };
    curves_by_share(readings, lines, words).map(Some)
}

/// Whole answers by one model each, beside token by token.
fn whole_answers(readings: &Readings) -> Result<Option<Picture>, ReportError> {
    let query = readings.of_kind(Kind::Query);
    let oracle = readings.of_kind(Kind::Oracle);
    let (Some(delay), false) =
        (readings.delays().first().copied(), query.is_empty() && oracle.is_empty())
    else {
        return Ok(None);
    };
    let routers = readings.routers();
    let mut lines = vec![];
    if let Some(router) = routers.first() {
        let joint = readings.joint(Some(router), delay);
        lines.push(by_share(&format!("{router}, by token"), Style::of(0), &joint, Doubt::Band));
    }
    for (number, router) in routers.iter().enumerate() {
        let own: Vec<_> =
            query.iter().copied().filter(|r| r.row.router.as_deref() == Some(router)).collect();
        if !own.is_empty() {
            let name = format!("{router}, by whole answer");
            lines.push(by_share(&name, Style::whole_answers(number), &own, Doubt::Untold));
        }
    }
    if !oracle.is_empty() {
        lines.push(by_share("oracle, by whole answer", Style::ORACLE, &oracle, Doubt::Untold));
    }
    lines.extend(chance(readings, delay, Doubt::Untold));
    let words = Words {
        name: "whole",
        title: "Token by token against whole answers".into(),
        caption: "The same share of tokens, spent on whole answers instead: a question goes to \
                  one model alone, by the router's mean trust in the prompt. The oracle knows \
                  which answers are right, so it is a bound and no rival. Both are put together \
                  from the answers of small and large; their intervals are in the table."
            .into(),
    };
    curves_by_share(readings, lines, words).map(Some)
}

struct Words {
    name: &'static str,
    title: String,
    caption: String,
}

fn curves_by_share(
    readings: &Readings,
    lines: Vec<Line>,
    words: Words,
) -> Result<Picture, ReportError> {
    let levels = levels(readings);
    let right = spots(&lines).map(|s| s.x).fold(0.0, f64::max);
    let x = Axis {
        name: "tokens from the cloud".into(),
        range: 0.0..(right * 1.06).max(0.01),
        number: short_percent,
    };
    let y = upright(readings.measure, &lines, &levels);
    let description = describe(&lines, percent, |v| readings.measure.number(v));
    Ok(Picture {
        name: words.name,
        title: words.title,
        description,
        caption: words.caption,
        legend: legend(&lines)?,
        drawing: Curves { x, y, lines, levels, diagonal: false }.draw()?,
    })
}

/// What an answer is worth, and how long it takes.
fn time(readings: &Readings, delay: Option<f64>) -> Result<Option<Picture>, ReportError> {
    let measure = readings.measure;
    let mut lines = vec![];
    for (number, router) in readings.routers().into_iter().enumerate() {
        let mut line = by_time(router, Style::of(number), &readings.joint(Some(router), delay));
        if number > 0 {
            line.spots.iter_mut().for_each(|spot| spot.label = None);
        }
        lines.push(line);
    }
    let mut random = by_time("random", Style::CHANCE, &readings.joint(None, delay));
    random.spots.iter_mut().for_each(|spot| spot.label = None);
    lines.push(random);
    // Alone, the small model has no cloud to wait for.
    let ends =
        [(Kind::Small, "small alone", Mark::Square), (Kind::Large, "large alone", Mark::Diamond)];
    for (kind, name, mark) in ends {
        let mut own = readings.of_kind(kind);
        own.retain(|r| kind == Kind::Small || r.row.rtt_ms.unwrap_or(0.0) == delay.unwrap_or(0.0));
        let style = Style { ink: Ink::Level, mark, dash: None, width: 2 };
        let mut line = by_time(name, style, own.get(..1).unwrap_or_default());
        line.spots.iter_mut().for_each(|spot| spot.label = None);
        lines.push(line);
    }
    lines.retain(|line| !line.spots.is_empty());
    if lines.is_empty() {
        return Ok(None);
    }
    let right = spots(&lines).map(|s| s.x).fold(0.0, f64::max);
    let x = Axis { name: "time a token".into(), range: 0.0..right * 1.08, number: milliseconds };
    let y = upright(measure, &lines, &[]);
    let at = match delay {
        Some(ms) => format!(", with {} to the cloud and back", milliseconds(ms)),
        None => String::new(),
    };
    Ok(Some(Picture {
        name: "time",
        title: format!("{} against time a token{at}", measure.title()),
        description: describe(&lines, milliseconds, |v| measure.number(v)),
        caption: "From the prompt to the end of an answer, divided by its tokens, on the machine \
                  that measured; further left and higher is better. The first router's points say \
                  which share of tokens came from the cloud. Strokes are 95 % intervals."
            .into(),
        legend: legend(&lines)?,
        drawing: Curves { x, y, lines, levels: vec![], diagonal: false }.draw()?,
    }))
}

/// Where the time of a token went: small, the first router at every share, large.
fn split(readings: &Readings, rows: &[Row]) -> Result<Option<Picture>, ReportError> {
    let first = readings.routers().first().map(|r| (*r).to_owned());
    let shown: Vec<_> = rows.iter().filter(|row| in_split(row, first.as_deref())).collect();
    let mut all = vec![];
    for row in shown {
        let Some(split) = row.split else { continue };
        let parts = split.parts().map(|(_, ms)| ms).to_vec();
        all.push(Bar { name: row.name.clone(), parts });
    }
    if all.iter().all(|bar| bar.sum() <= 0.0) {
        return Ok(None);
    }
    let names = crate::figures::Split::default().parts().map(|(name, _)| name);
    let mut legend = vec![];
    for ((number, name), at) in (0u8..).zip(names).zip(0..) {
        if all.iter().any(|bar| bar.parts.get(at).is_some_and(|ms| *ms > 0.0)) {
            legend.push(Key { name: name.to_owned(), swatch: bars::swatch(number)? });
        }
    }
    let told = all.iter().map(|bar| format!("{}: {}", bar.name, milliseconds(bar.sum())));
    Ok(Some(Picture {
        name: "split",
        title: "Where the time of a token goes".into(),
        description: format!(
            "{}. The parts are in the table below.",
            told.collect::<Vec<_>>().join("; ")
        ),
        caption: "Milliseconds a token, over all tokens of all answers, in the order of the \
                  legend. Re-prefill is the small model reading what the large one wrote."
            .into(),
        legend,
        drawing: bars::bars(&all, milliseconds)?,
    }))
}

/// Whether a row has a bar.
pub fn in_split(row: &Row, first: Option<&str>) -> bool {
    match row.mode {
        Kind::Small | Kind::Large => true,
        Kind::Joint => row.router.as_deref() == first,
        Kind::Query | Kind::Oracle => false,
    }
}

/// Whether answers with higher scores are right more often.
fn reliability(
    calibrations: &[Calibration],
    of: &'static str,
    by: fn(&Calibration) -> Reliability,
) -> Result<Option<Picture>, ReportError> {
    let mut lines = vec![];
    let mut separations = vec![];
    for (number, calibration) in calibrations.iter().enumerate() {
        let Reliability { bins, separation } = by(calibration);
        let spot = |bin: &super::calibration::Bin| Spot {
            x: bin.score,
            y: bin.right,
            interval: Some((bin.low, bin.high)),
            label: None,
        };
        separations.extend(separation.map(|s| format!("{} {}", calibration.router, hundredths(s))));
        lines.push(Line {
            name: calibration.router.clone(),
            style: Style::of(number),
            spots: bins.iter().map(spot).collect(),
            doubt: if number == 0 { Doubt::Band } else { Doubt::Untold },
        });
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let x = Axis {
        name: format!("{of} score of an answer's tokens"),
        range: around(spots(&lines).map(|s| s.x), 0.0..1.0),
        number: hundredths,
    };
    let y = Axis { name: "right answers".into(), range: 0.0..1.0, number: short_percent };
    let points: Vec<_> = calibrations.iter().map(|c| c.point.as_str()).collect();
    Ok(Some(Picture {
        name: if of == "mean" { "calibration-mean" } else { "calibration-lowest" },
        title: format!("Calibration: are answers with a higher {of} score right more often?"),
        description: describe(&lines, hundredths, percent),
        caption: format!(
            "Answers of {}, binned by the {of} score of their tokens, a stroke or band for the \
             first router's 95 % interval. A score is trust in one token and no promise for a \
             whole answer, so the dotted line of equal numbers is not its aim: what counts is \
             that the curve rises. Right answers score above wrong ones this often (0.5 is \
             chance): {}.",
            points.join(", "),
            if separations.is_empty() { "not known".into() } else { separations.join(", ") },
        ),
        legend: legend(&lines)?,
        drawing: Curves { x, y, lines, levels: vec![], diagonal: true }.draw()?,
    }))
}

/// The limits of likelihood, said wherever it is drawn.
pub const LIKELIHOOD: &str = " Likelihood is the large model's own opinion: it favours texts like \
    its own, short common words and repetition. A text is not good because the large model finds \
    it likely; read it beside distinctness, length and the texts themselves.";

fn chance(readings: &Readings, delay: Option<f64>, doubt: Doubt) -> Option<Line> {
    let random = readings.joint(None, delay);
    (!random.is_empty()).then(|| by_share("random, by token", Style::CHANCE, &random, doubt))
}

fn by_share(name: &str, style: Style, readings: &[Reading], doubt: Doubt) -> Line {
    let spot = |r: &Reading| Spot {
        x: r.row.routed_share,
        y: r.worth.mean,
        interval: Some((r.worth.low, r.worth.high)),
        label: None,
    };
    Line { name: name.to_owned(), style, spots: readings.iter().map(spot).collect(), doubt }
}

fn by_time(name: &str, style: Style, readings: &[Reading]) -> Line {
    let spot = |r: &Reading| {
        Some(Spot {
            x: 1000.0 / r.row.tokens_per_second?,
            y: r.worth.mean,
            interval: Some((r.worth.low, r.worth.high)),
            label: Some(short_percent(r.row.routed_share)),
        })
    };
    let spots = readings.iter().filter_map(spot).collect();
    Line { name: name.to_owned(), style, spots, doubt: Doubt::Whiskers }
}

fn levels(readings: &Readings) -> Vec<Level> {
    let level = |kind, name: &str| {
        readings.first(kind).map(|r| Level { name: name.into(), y: r.worth.mean })
    };
    [level(Kind::Small, "small alone"), level(Kind::Large, "large alone")]
        .into_iter()
        .flatten()
        .collect()
}

fn upright(measure: Measure, lines: &[Line], levels: &[Level]) -> Axis {
    let told = spots(lines).flat_map(|s| {
        let (low, high) = s.interval.unwrap_or((s.y, s.y));
        [low, s.y, high]
    });
    let range = around(told.chain(levels.iter().map(|l| l.y)), measure.possible());
    Axis { name: measure.name().into(), range, number: measure.tick() }
}

fn spots(lines: &[Line]) -> impl Iterator<Item = &Spot> {
    lines.iter().flat_map(|line| &line.spots)
}

fn legend(lines: &[Line]) -> Result<Vec<Key>, ReportError> {
    let key = |line: &Line| Ok(Key { name: line.name.clone(), swatch: line.style.swatch()? });
    lines.iter().map(key).collect()
}

/// Every point in words.
fn describe(lines: &[Line], x: fn(f64) -> String, y: impl Fn(f64) -> String) -> String {
    let line = |line: &Line| {
        let spots: Vec<_> =
            line.spots.iter().map(|s| format!("{} at {}", y(s.y), x(s.x))).collect();
        format!("{}: {}", line.name, spots.join(", "))
    };
    lines.iter().map(line).collect::<Vec<_>>().join("; ")
}
