//! `tandem cloud`: the large model for edges elsewhere.

use std::{io, path::Path, process::ExitCode, sync::Arc};

use anyhow::Context;
use cloud::service::Collector;
use engine::{Compute, LoadOptions};
use server::{
    cloud::{Config, LazyModel, app},
    http::Keys,
    listen::{ServerLimits, listen_with},
};
use tandem::{LocalCloud, Store, preset};
use tokio::net::TcpListener;

use super::reload::reload_until_gone;
use crate::{
    args::{CloudArgs, Command},
    interrupt::{Hangups, interrupted},
    keys::{keys, stay_closed},
    show::say,
};

pub async fn cloud(args: CloudArgs) -> anyhow::Result<ExitCode> {
    let keys = keys_of(&args)?;
    let hangups = Hangups::listen()?;
    let (tls, scheme) = args.tls.config()?;
    let store = Store::open()?.with_pair(args.pair.as_deref())?;
    let mut cloud = LocalCloud { model: args.cloud_model, adapters: args.cloud_adapter };
    if let Some(preset) = &args.preset {
        preset::cloud_model(&store, preset, &mut cloud)?;
    }
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another --listen", args.listen))?;
    let address = listener.local_addr()?;
    let loopback = address.ip().is_loopback();
    let options = LoadOptions {
        cells: args.cache_tokens.max(args.machine.context),
        ..cloud.options(&store, &args.machine.config(), args.sessions)?
    };
    let folder = args.collect.as_deref();
    let collector = folder.map(|folder| collector(folder, options.name())).transpose()?;
    let model = LazyModel::new(Compute::start().context("no compute thread")?, options);
    // A server has somebody to wait for it; an edge that asks should not wait for the disk.
    model.get().await?;
    if !loopback && keys.is_empty() {
        say(&format!("warning: everybody who reaches {address} can use this cloud; set --key"));
    }
    if let Some(folder) = &args.collect {
        let folder = folder.display();
        say(&format!("collecting what edges with --share-states send in {folder}"));
    }
    say(&format!("listening on {scheme}://{address}"));
    let reload = {
        let keys = keys.clone();
        move |command: Command| -> anyhow::Result<()> {
            if let Command::Cloud(args) = command {
                let next = keys_of(&args)?;
                stay_closed(&keys, &next)?;
                keys.replace(&next);
            }
            Ok(())
        }
    };
    let config = Config { keys, loopback, collector: collector.clone(), ..Config::default() };
    let failed = model.watch();
    let mut failure = None;
    let shutdown = async {
        tokio::select! {
            () = interrupted() => {}
            () = reload_until_gone(hangups, reload) => {}
            // Whoever watches this process can start it again; a cloud without a model cannot help.
            reason = failed => failure = Some(reason),
        }
    };
    let limits = ServerLimits { shutdown: args.shutdown_limit, ..ServerLimits::default() };
    let served = listen_with(listener, tls, app(model, config), limits, shutdown).await;
    ended(served, failure, collector)
}

/// However the server ended, what was collected before is as good as ever; then whoever watches this
/// process is told.
fn ended(
    served: io::Result<()>,
    failure: Option<String>,
    collector: Option<Arc<dyn Collector>>,
) -> anyhow::Result<ExitCode> {
    if let Some(collector) = collector {
        collector.finish();
    }
    super::ended(served, failure)
}

fn keys_of(args: &CloudArgs) -> anyhow::Result<Keys> {
    keys(args.key.as_slice(), args.key_file.as_deref(), "--key")
}

/// Where samples of live use go.
#[cfg(feature = "lab")]
fn collector(folder: &Path, cloud: String) -> anyhow::Result<Arc<dyn Collector>> {
    Ok(Arc::new(lab::collect::TrafficCollector::start(folder.to_owned(), cloud)?))
}

#[cfg(not(feature = "lab"))]
fn collector(_: &Path, _: String) -> anyhow::Result<Arc<dyn Collector>> {
    Err(crate::args::no_lab("cloud --collect"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::sync::atomic::{AtomicBool, Ordering};

    use cloud::{
        protocol::EdgeModel,
        service::{Observation, SampleCounts},
    };
    use decode::Exchange;

    use super::*;

    #[derive(Debug, Default)]
    struct Folder {
        finished: AtomicBool,
    }

    impl Collector for Folder {
        fn accepts(&self, _: EdgeModel, _: Exchange) -> Result<(), String> {
            Ok(())
        }

        fn next_conversation(&self) -> u32 {
            0
        }

        fn take(&self, _: Observation<'_>) {}

        fn counts(&self) -> SampleCounts {
            SampleCounts::default()
        }

        fn finish(&self) {
            self.finished.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_cloud_that_fails_loses_no_samples_and_says_why() {
        let broken = || io::Error::other("no more connections");
        for (served, failure, told) in [
            (Ok(()), Some("index out of bounds".to_owned()), Some("index out of bounds")),
            (Err(broken()), None, Some("no more connections")),
            (Ok(()), None, None),
        ] {
            let folder = Arc::new(Folder::default());
            let ended = ended(served, failure, Some(folder.clone()));
            assert!(folder.finished.load(Ordering::SeqCst), "{told:?}");
            match told {
                Some(told) => assert!(ended.unwrap_err().to_string().contains(told)),
                None => assert!(ended.is_ok()),
            }
        }
    }
}
