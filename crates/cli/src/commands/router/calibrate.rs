//! `tandem router calibrate`: from a budget to a threshold, on the user's own prompts.

use std::io::Write;

use decode::Message;
use lab::eval::{AnswerStyle, Example};
use router::RouterFile;
use tandem::NamedRouter;

use crate::{
    args::CalibrateArgs,
    config::UsageError,
    progress::Bar,
    show::{percent, say},
};

pub async fn calibrate(args: CalibrateArgs) -> anyhow::Result<()> {
    let mut examples = vec![];
    for path in &args.prompts {
        examples.extend(Example::read(path, AnswerStyle::AsGiven)?);
    }
    examples.truncate(args.limit);
    if examples.is_empty() {
        return Err(UsageError("the files hold no prompts".into()).into());
    }
    let tandem = args.small.builder().build()?;
    // A router of another model is refused before anything is computed.
    NamedRouter::read(&args.router, &tandem.pair().edge_options()?)?;
    let file = RouterFile::read(&args.router)?;
    let conversations: Vec<_> = examples
        .iter()
        .map(|example| vec![Message::system(&args.system), Message::user(example.prompt())])
        .collect();
    let (bar, most) = (Bar::default(), args.max_tokens);
    let measured = lab::calibrate::calibrate(&tandem, &file, &conversations, most, &bar).await?;
    drop(bar);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} prompts, {} tokens", examples.len(), measured.tokens)?;
    for point in measured.table.points() {
        writeln!(out, "  {:>4} of tokens: threshold {:.4}", percent(point.share), point.threshold)?;
    }
    let output = args.output.as_ref().unwrap_or(&args.router);
    file.with_calibration(measured.table).write(output)?;
    say(&format!("{} written", output.display()));
    Ok(())
}
