//! `tandem pull`: the default models, or a library, from the package registry this machine already uses.

use std::{io::Write, process::ExitCode, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use models::Event;
use serde_json::json;

use crate::{
    args::{PullArgs, Pullable},
    config::{ONNX_RUNTIME, Store},
    show::say,
};

pub fn pull(args: &PullArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(args.catalog.as_deref())?;
    if args.list {
        list(&store, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let bar = ProgressBar::no_length();
    let style = "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?);
    bar.enable_steady_tick(Duration::from_millis(250));
    let result = match args.what {
        None | Some(Pullable::Models) => {
            models::pull(&store.home, &store.catalog, &|event| tell(&bar, event))
        }
        Some(Pullable::Onnxruntime) => {
            let tell = |event: Event<'_>| tell(&bar, event);
            models::pull_library(&store.home, &store.catalog, ONNX_RUNTIME, &tell).map(drop)
        }
    };
    bar.finish_and_clear();
    result?;
    Ok(ExitCode::SUCCESS)
}

fn tell(bar: &ProgressBar, event: Event<'_>) {
    // Lines for a log; the bar itself is only drawn on a terminal.
    let line = |text: String| bar.suspend(|| say(&text));
    let megabytes = |bytes: u64| bytes / 1_000_000;
    match event {
        Event::Present(model) => line(format!("{} is here", model.name)),
        Event::Begin(model, bytes) => {
            bar.set_length(model.bytes);
            bar.set_position(bytes);
            bar.set_message(model.name.clone());
            bar.reset_eta();
            let (total, have) = (megabytes(model.bytes), megabytes(bytes));
            line(format!("pulling {} ({total} MB, {have} MB here)", model.name));
        }
        Event::Bytes(bytes) => bar.set_position(bytes),
        Event::Damaged(part) => line(format!("{part} is damaged and is fetched again")),
        Event::Verify(model) => bar.set_message(format!("checking {}", model.name)),
        Event::Done(model) => line(format!("{} is here, checked", model.name)),
    }
}

fn list(store: &Store, as_json: bool) -> anyhow::Result<()> {
    let models = store.home.list(&store.catalog)?;
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", json!({ "models": models }))?;
        return Ok(());
    }
    if models.is_empty() {
        writeln!(out, "no models under {}: run `tandem pull`", store.home.models().display())?;
    }
    for model in models {
        let (name, path) = (model.name, model.path.display());
        writeln!(out, "{name}  {} MB  {path}\n  sha256 {}", model.bytes / 1_000_000, model.sha256)?;
    }
    Ok(())
}
