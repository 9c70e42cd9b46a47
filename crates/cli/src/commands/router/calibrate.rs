//! `tandem router calibrate`: from a budget to a threshold, on the user's own prompts.

use std::{io::Write, path::Path};

use decode::{Exchange, Message};
use lab::{
    calibrate::{Answers, adjust, calibrate as measure, exchange},
    eval::Example,
};
use router::{Calibration, RouterFile};
use tandem::{Mode, NamedRouter, RouterSpec, Tandem};

use crate::{args::CalibrateArgs, config::UsageError, progress::TerminalProgress, show::say};

pub async fn calibrate(args: CalibrateArgs) -> anyhow::Result<()> {
    let mut examples = vec![];
    for path in &args.prompts {
        examples.extend(Example::read(path)?);
    }
    examples.truncate(args.limit);
    let [first, ..] = examples.as_slice() else {
        return Err(UsageError("the files hold no prompts".into()).into());
    };
    if args.output.is_some() && args.routers.len() > 1 {
        return Err(UsageError("--output is for one router".into()).into());
    }
    // A file says what travels; of a router by name, only the cloud can tell.
    let named = args.routers.iter().any(|router| matches!(router, RouterSpec::Kind(_)));
    let cloud = args.joint || named;
    let builder = args.pair.builder(args.preset.as_ref())?.mode(Mode::Small);
    let tandem = if cloud {
        args.pair.cloud.location.require_cloud("what travels depends on the cloud")?;
        builder.build()?
    } else {
        builder.offline().build()?
    };
    // A router of another model is refused before anything is computed.
    let (store, edge) = (args.pair.edge.store()?, tandem.pair().edge_options()?);
    let mut routers = vec![];
    for router in &args.routers {
        routers.push(NamedRouter::choose(Some(router), &store, &edge)?);
    }
    let conversation =
        |example: &Example| vec![Message::system(&args.system), Message::user(example.prompt())];
    let exchange = if cloud {
        exchange(&tandem, &conversation(first)).await?
    } else {
        trained_for(&args.routers)?
    };
    let conversations: Vec<_> = examples.iter().map(conversation).collect();
    let answers = Answers { conversations: &conversations, max_tokens: args.max_tokens };
    let bar = TerminalProgress::default();
    let measured = measure(&tandem, &routers, exchange, answers, &bar).await?;
    for ((spec, router), measured) in args.routers.iter().zip(&routers).zip(measured) {
        let table = if args.joint {
            adjust(&tandem, router, &measured, answers, &bar).await?
        } else {
            measured.table
        };
        say(&format!("{router}: {} prompts, {} tokens", examples.len(), measured.tokens));
        write(spec, &table, args.output.as_deref(), &tandem)?;
    }
    Ok(())
}

/// What travelled when the routers were trained: all the same, or tables of words and of tokens would
/// mix.
fn trained_for(routers: &[RouterSpec]) -> anyhow::Result<Exchange> {
    let mut found = None;
    for router in routers {
        let RouterSpec::File(path) = router else { continue };
        let ids = RouterFile::read(path)?.metadata().ids;
        if found.is_some_and(|before| before != ids) {
            let reason =
                "some of the routers are for ids and others for words: calibrate them apart";
            return Err(UsageError(reason.into()).into());
        }
        found = Some(ids);
    }
    Ok(if found == Some(false) { Exchange::Text } else { Exchange::Ids })
}

/// Into the router's file; of a router that has none, as a part of a preset's manifest.
fn write(
    router: &RouterSpec,
    table: &Calibration,
    output: Option<&Path>,
    tandem: &Tandem,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let points = table.points();
    match router {
        RouterSpec::File(path) => {
            for point in points {
                let (share, threshold) = (point.share * 100.0, point.threshold);
                writeln!(out, "  {share:>5.1}% of tokens: threshold {threshold:.4}")?;
            }
            let output = output.unwrap_or(path);
            RouterFile::read(path)?.with_calibration(table.clone()).write(output)?;
            say(&format!("{} written", output.display()));
        }
        RouterSpec::Kind(kind) => {
            let model = tandem.pair().edge_options()?.fingerprint()?;
            let points: Vec<_> =
                points.iter().map(|p| format!("[{:.4}, {:.4}]", p.share, p.threshold)).collect();
            writeln!(out, "[[table]]\nrouter = \"{kind}\"\nmodel = \"{model}\"")?;
            writeln!(out, "points = [{}]\n", points.join(", "))?;
        }
        RouterSpec::Custom(_) => {}
    }
    Ok(())
}
