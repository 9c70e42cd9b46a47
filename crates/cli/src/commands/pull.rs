//! `tandem pull`: the models of a pair or a library, from the first of their sources that has them,
//! or a model from the Hugging Face hub.

use std::{io::Write, process::ExitCode, time::Duration};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use models::{
    CatalogError, Entry, Event, Hub,
    hub::{self, Cache, Name},
};
use serde::Serialize;
use serde_json::json;
use tandem::{
    Store,
    store::{ONNX_RUNTIME, variable},
};

use crate::{
    args::{PullArgs, Pullable},
    config::UsageError,
    show::{print_json, say},
};

pub fn pull(args: &PullArgs) -> anyhow::Result<ExitCode> {
    let store = Store::with_catalog(args.catalog.as_deref())?;
    if args.list {
        list(&store, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let bar = ProgressBar::no_length();
    let style = "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?);
    bar.enable_steady_tick(Duration::from_millis(250));
    let tell = |event: Event<'_>| tell(&bar, event);
    let result = match &args.what {
        None | Some(Pullable::Models) => {
            let models = wanted(&store, args.pair.as_deref())?;
            models::pull(&store.home, &models, &Store::hub()?, &tell).map_err(anyhow::Error::from)
        }
        Some(Pullable::Onnxruntime) => {
            let (home, catalog) = (&store.home, &store.catalog);
            let library = models::pull_library(home, catalog, ONNX_RUNTIME, &Store::hub()?, &tell);
            library.map(drop).map_err(anyhow::Error::from)
        }
        Some(Pullable::Hub(name)) => pull_from_hub(&store, name, &tell),
    };
    bar.finish_and_clear();
    result?;
    Ok(ExitCode::SUCCESS)
}

fn pull_from_hub(
    store: &Store,
    name: &Name,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> anyhow::Result<()> {
    let Hub { access, cache } = Store::hub()?;
    Ok(hub::pull(&store.home, &cache, access, name, None, tell)?)
}

/// The models of a pair that the catalog has; of all pairs for `all`.
fn wanted<'a>(store: &'a Store, pair: Option<&str>) -> anyhow::Result<Vec<&'a Entry>> {
    let pairs = match pair {
        Some("all") => store.catalog.pairs.iter().collect(),
        Some(name) => {
            let no_pair = |e: CatalogError| UsageError(format!("--pair: {e}"));
            vec![store.catalog.pair(Some(name)).map_err(no_pair)?]
        }
        None => vec![&store.pair],
    };
    let mut models: Vec<_> = pairs.iter().flat_map(|p| store.catalog.models_of(p)).collect();
    models.sort_by_key(|model| model.bytes);
    models.dedup_by_key(|model| &model.name);
    if models.is_empty() {
        let names: Vec<_> = pairs.iter().map(|p| p.name.as_str()).collect();
        bail!("the catalog has no files to pull for the pair {}", names.join(", "));
    }
    Ok(models)
}

fn tell(bar: &ProgressBar, event: Event<'_>) {
    // Lines for a log; the bar itself is only drawn on a terminal.
    let line = |text: String| bar.suspend(|| say(&text));
    match event {
        Event::Present { name } => line(format!("{name} is here")),
        Event::Begin { name, total, here } => {
            bar.set_length(total);
            bar.set_position(here);
            bar.set_message(name.to_owned());
            bar.reset_eta();
            let (total, here) = (total / 1_000_000, here / 1_000_000);
            line(format!("pulling {name} ({total} MB, {here} MB here)"));
        }
        Event::Fetch { name } => bar.set_message(name.to_owned()),
        Event::Bytes(bytes) => bar.set_position(bytes),
        Event::Damaged(part) => line(format!("{part} was damaged; downloading it again")),
        Event::Retry(error) => line(format!("{error}; trying again")),
        Event::NextSource { name, error } => {
            line(format!("{name}: {error}; trying the next source"));
        }
        Event::Verify { name } => bar.set_message(format!("checking {name}")),
        Event::Done { name } => line(format!("{name} is complete and checked")),
    }
}

fn list(store: &Store, as_json: bool) -> anyhow::Result<()> {
    let mut models = store.home.list(&store.catalog)?;
    match Cache::find(&variable) {
        Ok(cache) => models.extend(cache.list()?),
        Err(error) => tracing::debug!(%error, "the hub's cache is not listed"),
    }
    if as_json {
        return print_json(&json!({ "models": models, "pairs": pairs(store).collect::<Vec<_>>() }));
    }
    let mut out = std::io::stdout().lock();
    if models.is_empty() {
        writeln!(out, "no models under {}: run `tandem pull`", store.home.models().display())?;
    }
    for model in models {
        let (name, path) = (model.name, model.path.display());
        writeln!(out, "{name}  {} MB  {path}", model.bytes / 1_000_000)?;
        if let Some(sha256) = model.sha256 {
            writeln!(out, "  sha256 {sha256}")?;
        }
    }
    for PairLine { name, edge, cloud, chosen, .. } in pairs(store) {
        let chosen = if chosen { " (used if you name none)" } else { "" };
        writeln!(out, "pair {name}: {edge} and {cloud}{chosen}")?;
    }
    Ok(())
}

/// A pair of the catalog, for whoever chooses one.
#[derive(Serialize)]
struct PairLine<'a> {
    name: &'a str,
    edge: &'a str,
    cloud: &'a str,
    router: Option<&'a str>,
    chosen: bool,
}

fn pairs(store: &Store) -> impl Iterator<Item = PairLine<'_>> {
    store.catalog.pairs.iter().map(|pair| PairLine {
        name: &pair.name,
        edge: &pair.edge,
        cloud: &pair.cloud,
        router: pair.router.as_deref(),
        chosen: *pair == store.pair,
    })
}
