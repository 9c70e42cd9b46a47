//! What answers are worth, against what they cost: tokens from the cloud, and time.

use super::{Picture, data_points, describe, legend};
use crate::{
    eval::table::RowKind,
    report::{
        ReportError,
        measure::Presentation,
        numbers::{milliseconds, percent, short_milliseconds, short_percent},
        plots::{
            canvas::Ink,
            curves::{Axis, Curves, DataPoint, Intervals, Level, Line, around},
            style::{Mark, Style},
        },
        readings::{Reading, Readings, is_random},
    },
};

const BY_SHARE: &str = "Each line is one way to choose the tokens that come from the large model. \
    Bands and strokes are 95 % bootstrap intervals over the questions: lines whose intervals \
    overlap may differ by luck alone.";

const CEILING: &str = " The oracle knows how likely the large model finds every token that the small one \
    proposes, and takes the large one’s where that is too little: a bound and no rival, for no router \
    can know it.";

const WHOLE_ANSWERS: &str = "The same share of tokens, spent on whole answers instead: a question \
    goes to one model alone, by the router’s mean trust in the prompt. The oracle knows which \
    answers are right, so it is a bound and no rival. Both are put together from the answers of \
    small and large; their intervals are in the table.";

const BY_TIME: &str = "From the prompt to the end of an answer, divided by its tokens, on the \
    machine that measured; further left and higher is better. Numbers on the first router’s line \
    say which share of tokens came from the cloud. Strokes are 95 % intervals.";

/// Joint decoding token by token: what a share of the cloud's tokens buys.
pub fn by_share(readings: &Readings) -> Result<Option<Picture>, ReportError> {
    let Some(delay) = readings.delays().first().copied() else { return Ok(None) };
    let mut lines = vec![];
    for (number, router) in readings.routers().into_iter().enumerate() {
        let intervals = if number == 0 { Intervals::Band } else { Intervals::Whiskers };
        let joint = readings.joint(Some(router), delay);
        lines.push(line(router, Style::of(number), &joint, share).with(intervals));
    }
    let random = readings.joint(None, delay);
    lines.push(line("random", Style::CHANCE, &random, share).with(Intervals::Band));
    let mut oracle = readings.of_kind(RowKind::TokenOracle);
    oracle.retain(|reading| reading.row.rtt_ms == delay);
    let caption = format!("{BY_SHARE}{}", if oracle.is_empty() { "" } else { CEILING });
    lines.push(line("oracle, by token", Style::ORACLE, &oracle, share));
    let measure = readings.measure.presentation().title;
    let title = format!("{measure} against the share of tokens from the cloud");
    against_share(readings, lines, ("share", title, &caption)).map(Some)
}

/// Whole answers by one model each, beside token by token.
pub fn whole_answers(readings: &Readings) -> Result<Option<Picture>, ReportError> {
    let query = readings.of_kind(RowKind::Query);
    let oracle = readings.of_kind(RowKind::Oracle);
    let Some(delay) = readings.delays().first().copied() else { return Ok(None) };
    if query.is_empty() && oracle.is_empty() {
        return Ok(None);
    }
    let routers = readings.routers();
    let mut lines = vec![];
    if let Some(router) = routers.first() {
        let (name, joint) = (format!("{router}, by token"), readings.joint(Some(router), delay));
        lines.push(line(&name, Style::of(0), &joint, share).with(Intervals::Band));
    }
    let random = readings.joint(None, delay);
    lines.push(line("random, by token", Style::CHANCE, &random, share));
    for (number, router) in routers.iter().enumerate() {
        let own: Vec<_> =
            query.iter().copied().filter(|r| r.row.router.as_deref() == Some(router)).collect();
        let name = format!("{router}, by whole answer");
        lines.push(line(&name, Style::of(number).for_whole_answers(), &own, share));
    }
    let learnt = |r: &&Reading| {
        let router = r.row.router.as_deref();
        router.is_some_and(|name| !is_random(router) && !routers.contains(&name))
    };
    let mut names: Vec<&str> =
        query.iter().filter(learnt).filter_map(|r| r.row.router.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    for (number, name) in (routers.len()..).zip(names) {
        let own: Vec<_> =
            query.iter().copied().filter(|r| r.row.router.as_deref() == Some(name)).collect();
        let name = format!("{name}, by whole answer");
        lines.push(line(&name, Style::of(number).for_whole_answers(), &own, share));
    }
    let random: Vec<_> = query.into_iter().filter(|r| is_random(r.row.router.as_deref())).collect();
    let style = Style::CHANCE.for_whole_answers();
    lines.push(line("random, by whole answer", style, &random, share));
    lines.push(line("oracle, by whole answer", Style::ORACLE, &oracle, share));
    let title = "Token by token against whole answers".to_owned();
    against_share(readings, lines, ("whole", title, WHOLE_ANSWERS)).map(Some)
}

fn against_share(
    readings: &Readings,
    mut lines: Vec<Line>,
    (name, title, caption): (&'static str, String, &str),
) -> Result<Picture, ReportError> {
    lines.retain(|line| !line.data_points.is_empty());
    let measure = readings.measure.presentation();
    let level = |kind, name: &str| {
        readings.first(kind).map(|r| Level { name: name.into(), y: r.worth.mean })
    };
    let levels = [level(RowKind::Small, "small alone"), level(RowKind::Large, "large alone")];
    let levels: Vec<_> = levels.into_iter().flatten().collect();
    let right = data_points(&lines).map(|s| s.x).fold(0.0, f64::max);
    let x = Axis {
        name: "tokens from the cloud".into(),
        range: 0.0..(right * 1.06).max(0.01),
        number: short_percent,
    };
    let y = upright(measure, &lines, &levels);
    Ok(Picture {
        name,
        title,
        description: describe(&lines, percent, measure.number),
        caption: caption.to_owned(),
        legend: legend(&lines)?,
        drawing: Curves { x, y, lines, levels, diagonal: false }.draw()?,
    })
}

pub fn by_time(readings: &Readings, delay: Option<f64>) -> Result<Option<Picture>, ReportError> {
    let measure = readings.measure.presentation();
    let mut lines = vec![];
    for (number, router) in readings.routers().into_iter().enumerate() {
        let joint = readings.joint(Some(router), delay);
        let mut of = line(router, Style::of(number), &joint, time);
        if number == 0 {
            let shares = joint.iter().filter(|r| time(r).is_some()).map(|r| r.row.routed_share);
            for (data_point, share) in of.data_points.iter_mut().zip(shares) {
                data_point.label = Some(short_percent(share));
            }
            of = of.with(Intervals::Whiskers);
        }
        lines.push(of);
    }
    let random = readings.joint(None, delay);
    lines.push(line("random", Style::CHANCE, &random, time).with(Intervals::Whiskers));
    for (kind, name, mark) in [
        (RowKind::Small, "small alone", Mark::Square),
        (RowKind::Verify, "verify", Mark::Triangle),
        (RowKind::Large, "large alone", Mark::Diamond),
    ] {
        // Alone, the small model has no cloud to wait for.
        let near = |r: &&Reading| {
            kind == RowKind::Small || r.row.rtt_ms.unwrap_or(0.0) == delay.unwrap_or(0.0)
        };
        let own: Vec<_> = readings.of_kind(kind).iter().filter(near).copied().take(1).collect();
        let style = Style { ink: Ink::Level, mark, dash: None, width: 2 };
        lines.push(line(name, style, &own, time).with(Intervals::Whiskers));
    }
    lines.retain(|line| !line.data_points.is_empty());
    if lines.is_empty() {
        return Ok(None);
    }
    let right = data_points(&lines).map(|s| s.x).fold(0.0, f64::max);
    let range = 0.0..right * 1.08;
    let x = Axis { name: "time a token".into(), range, number: short_milliseconds };
    let y = upright(measure, &lines, &[]);
    let at = delay.map(|ms| format!(", with {} to the cloud and back", short_milliseconds(ms)));
    Ok(Some(Picture {
        name: "time",
        title: format!("{} against time a token{}", measure.title, at.unwrap_or_default()),
        description: describe(&lines, milliseconds, measure.number),
        caption: BY_TIME.into(),
        legend: legend(&lines)?,
        drawing: Curves { x, y, lines, levels: vec![], diagonal: false }.draw()?,
    }))
}

fn share(reading: &Reading) -> Option<f64> {
    Some(reading.row.routed_share)
}

fn time(reading: &Reading) -> Option<f64> {
    reading.row.tokens_per_second.map(|tokens| 1000.0 / tokens)
}

fn line(name: &str, style: Style, of: &[Reading], x: fn(&Reading) -> Option<f64>) -> Line {
    let data_point = |r: &Reading| {
        let interval = Some((r.worth.low, r.worth.high));
        Some(DataPoint { x: x(r)?, y: r.worth.mean, interval, label: None })
    };
    let data_points = of.iter().filter_map(data_point).collect();
    Line { name: name.to_owned(), style, data_points, intervals: Intervals::Hidden }
}

fn upright(measure: &Presentation, lines: &[Line], levels: &[Level]) -> Axis {
    let shown = lines.iter().flat_map(|line| {
        line.data_points.iter().flat_map(|s| {
            let interval = s.interval.filter(|_| line.intervals != Intervals::Hidden);
            let (low, high) = interval.unwrap_or((s.y, s.y));
            [low, s.y, high]
        })
    });
    let range =
        around(shown.chain(levels.iter().map(|l| l.y)), measure.possible.clone(), measure.least);
    Axis { name: measure.name.into(), range, number: measure.tick }
}
