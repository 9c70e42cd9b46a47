//! `tandem rm`: a pulled model is taken off this machine.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, bail};
use models::{
    Entry, HubError,
    hub::{self, Cache, Name},
};
use tandem::{Store, store::variable};

use crate::{args::RmArgs, config::UsageError, show::say};

pub fn rm(args: &RmArgs) -> anyhow::Result<ExitCode> {
    let store = Store::with_catalog(args.catalog.as_deref())?;
    let name = args.name.as_str();
    let (name, bytes) = if Name::is_hub_name(name) {
        let name: Name = name.parse().map_err(|e| UsageError(format!("{e}")))?;
        let removed = hub::remove(&store.home, &Cache::find(&variable)?, &name)?;
        (removed.name, removed.bytes)
    } else if let Some(entry) = store.catalog.find(name).or_else(|| store.catalog.library(name)) {
        let removed = models::remove(&store.home, &store.catalog, name)?;
        let removed = removed.with_context(|| format!("{name} is not here"))?;
        (name.to_owned(), removed + remove_from_hub(&store, entry)?)
    } else if Path::new(name).exists() || store.home.models().join(name).exists() {
        bail!(
            "{name} is a file of your own: tandem removes only what `tandem pull` has downloaded"
        );
    } else {
        bail!(
            "{name} is not a model that tandem pulls; `tandem pull --list` lists the models here"
        );
    };
    say(&format!("removed {name}: {} freed", indicatif::DecimalBytes(bytes)));
    Ok(ExitCode::SUCCESS)
}

/// Removes the file of a model from the hub's cache, if this program downloaded it there.
fn remove_from_hub(store: &Store, entry: &Entry) -> anyhow::Result<u64> {
    let Some(name) = entry.hub_name() else { return Ok(0) };
    match hub::remove(&store.home, &Cache::find(&variable)?, &name) {
        Ok(removed) => Ok(removed.bytes),
        Err(HubError::NothingPulled { .. } | HubError::NotOurs { .. }) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
