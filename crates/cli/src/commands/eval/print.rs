//! The table, for people and for programs.

use std::io::Write;

use lab::eval::{Row, RunTime, Table};

use crate::show::print_json;

pub fn print(table: &Table, time: RunTime, json: bool) -> anyhow::Result<()> {
    // With several at work the models wait for each other, which is nobody's overhead.
    let overhead = (time.parallel == 1 && !time.decoding.is_zero())
        .then(|| 1.0 - time.decoding.as_secs_f64() / time.wall.as_secs_f64());
    if json {
        let mut value = serde_json::to_value(table)?;
        value["harness"] = serde_json::json!({
            "wall_s": time.wall.as_secs_f64(),
            "decoding_s": time.decoding.as_secs_f64(),
            "overhead": overhead,
        });
        return print_json(&value);
    }
    print_table(table)?;
    if let Some(overhead) = overhead {
        let mut out = std::io::stdout().lock();
        writeln!(out, "harness: {:.1} % of {:.1} s", overhead * 100.0, time.wall.as_secs_f64())?;
    }
    Ok(())
}

pub fn print_table(table: &Table) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let width = table.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(8);
    let head = "    n  accuracy  95 % interval    gap  cloud   asks  tokens/s  mean ms  p50 ms  p95 ms     GB";
    writeln!(out, "{:width$} {head}", "")?;
    for row in &table.rows {
        writeln!(out, "{:width$} {}", row.name, line(row))?;
    }
    for row in &table.rows {
        let (Some(aim), Some(mean)) = (row.pace_ms, row.between_tokens_mean_ms) else { continue };
        match &row.pace_miss {
            None => writeln!(out, "{:width$} {aim:.0} ms held ({mean:.1} ms)", row.name)?,
            Some(why) => {
                writeln!(out, "{:width$} {aim:.0} ms not held ({mean:.1} ms): {why}", row.name)?;
            }
        }
    }
    if table.rows.iter().any(|row| row.money_per_thousand.is_some()) {
        for row in &table.rows {
            let Some(money) = row.money_per_thousand else { continue };
            let sent = row.sent_bytes_per_answer / 1000.0;
            writeln!(
                out,
                "{:width$} {money:.4} a thousand answers, {sent:.1} kB sent each",
                row.name
            )?;
        }
    }
    let cut: Vec<_> = table.rows.iter().filter(|row| row.cut > 0).collect();
    if !cut.is_empty() {
        let each = cut.iter().map(|row| format!("{} {} of {}", row.name, row.cut, row.questions));
        let each = each.collect::<Vec<_>>().join(", ");
        writeln!(out, "cut at --max-tokens and judged as they are: {each}")?;
    }
    for d in &table.differences {
        let (of, to) = (&d.of, &d.to);
        writeln!(out, "{of} − {to}: {:+.3} ({:+.3}..{:+.3})", d.accuracy, d.low, d.high)?;
    }
    Ok(())
}

fn line(row: &Row) -> String {
    let or_dash = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |v| format!("{v:.digits$}"))
    };
    let quality = match (row.accuracy, row.accuracy_low, row.accuracy_high) {
        (Some(mean), Some(low), Some(high)) => format!("{mean:8.3}  {low:.3}..{high:.3} "),
        _ => format!("{:>8}  log-likelihood", or_dash(row.likelihood, 3)),
    };
    format!(
        "{:5}  {quality} {:>5}  {:4.1} %  {:5.1}  {:>8}  {:>7}  {:>6}  {:>6}  {:>5}",
        row.questions,
        row.gap_recovered.map_or("–".to_owned(), |gap| format!("{:.0} %", gap * 100.0)),
        row.routed_share * 100.0,
        row.cloud_calls as f64 / row.questions.max(1) as f64,
        or_dash(row.tokens_per_second, 1),
        or_dash(row.between_tokens_mean_ms, 1),
        or_dash(row.between_tokens_p50_ms, 1),
        or_dash(row.between_tokens_p95_ms, 1),
        or_dash(row.gigabytes_per_answer, 1),
    )
}
