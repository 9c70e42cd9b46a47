//! `tandem router inspect`: what a router file is, and what it thinks of a text.

use std::io::{IsTerminal, Write};

use decode::Message;
use router::RouterFile;
use tandem::NamedRouter;

use crate::{
    args::InspectArgs,
    show::{percent, print_json},
};

pub async fn inspect(args: InspectArgs) -> anyhow::Result<()> {
    let file = RouterFile::read(&args.router)?;
    let metadata = file.metadata();
    let mut out = std::io::stdout();
    if args.json && args.prompt.is_none() {
        writeln!(out, "{}", serde_json::to_string_pretty(metadata)?)?;
        return Ok(());
    }
    if !args.json {
        let report = metadata.report;
        writeln!(out, "{}", args.router.display())?;
        writeln!(out, "  for          {} ({})", metadata.model_name, metadata.model)?;
        writeln!(out, "  objective    {}, inputs {}", metadata.objective, metadata.inputs)?;
        let h = metadata.hidden;
        let inputs = metadata.inputs.width(h).unwrap_or(h);
        writeln!(out, "  layers       {inputs} → {} → {h} → 1", 2 * h)?;
        if let Some(tokens) = file.tokens() {
            let common = tokens.common();
            writeln!(out, "  tokens       {common} common ones, and one row for all others")?;
        }
        writeln!(
            out,
            "  trained on   {} samples of {} examples (data {})",
            report.samples, report.examples, metadata.data
        )?;
        writeln!(
            out,
            "  held out     {} samples: loss {:.4}, AUC {:.4}, average precision {:.4}, \
             calibration error {:.4}",
            report.held_out, report.loss, report.auc, report.average_precision, report.ece
        )?;
        let points = metadata.calibration.points();
        let points: Vec<_> =
            points.iter().map(|p| format!("{} {:.3}", percent(p.share), p.threshold)).collect();
        writeln!(out, "  thresholds   {}", points.join(", "))?;
    }
    let Some(prompt) = &args.prompt else { return Ok(()) };
    let tandem = args.small.builder()?.build()?;
    let router = NamedRouter::read(&args.router, &tandem.pair().edge_options()?)?.build(0);
    let messages = [Message::system(&args.system), Message::user(prompt.clone())];
    let scored = lab::record::scored_answer(&tandem, router, &messages, args.max_tokens).await?;
    if args.json {
        let tokens: Vec<_> = scored
            .iter()
            .map(|(text, score)| serde_json::json!({ "text": text, "score": score }))
            .collect();
        print_json(&serde_json::json!({ "router": metadata, "tokens": tokens }))?;
    } else if out.is_terminal() {
        for (text, score) in scored {
            // From red, doubted, to the terminal's own colour, trusted.
            let colour = match score {
                s if s < 0.3 => "\x1b[31m",
                s if s < 0.6 => "\x1b[33m",
                _ => "",
            };
            let clean: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
            write!(out, "{colour}{clean}\x1b[0m")?;
        }
        writeln!(out)?;
    } else {
        for (text, score) in scored {
            writeln!(out, "{score:.4}  {text:?}")?;
        }
    }
    Ok(())
}
