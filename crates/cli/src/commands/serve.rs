//! `tandem serve`: OpenAI's API over both models, and the page.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use axum::http::HeaderValue;
use server::{
    edge::{Allowed, Config, Cors, FurtherPair, Mode, Server, ServerInfo, app},
    http::{BodyLimits, Keys, Quota},
    listen::{ServerLimits, listen_with},
};
use tandem::{Builder, CloudLocation, Models, Share, Tandem};
use tokio::net::TcpListener;

use super::{ended, reload::reload_until_gone};
use crate::{
    args::{AllowedArgs, Command, FurtherPairArgs, GenerateArgs, ListenArgs, ServeArgs},
    config::{UsageError, note_fallback},
    interrupt::{Hangups, interrupted},
    keys::{keys, stay_closed},
    show::say,
};

/// What the body of a request may cost.
const BODY: BodyLimits =
    BodyLimits { bytes: 4 << 20, values: 1 << 15, time: Duration::from_secs(20) };

pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    // Before anything is loaded.
    allowed(&args, args.generate.mode)?;
    let hangups = Hangups::listen()?;
    let listening = &args.listening;
    let keys = keys_of(listening)?;
    let (tls, scheme) = listening.tls.config()?;
    let listener = TcpListener::bind(listening.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another --listen", listening.listen)
    })?;
    let address = listener.local_addr()?;
    let tandem = pair(&args, args.parallel)?;
    let own = tandem.clone();
    let loopback = address.ip().is_loopback();
    note_open(loopback, &keys);
    let further = further_pairs(&args, &tandem).await?;
    let mut pairs = vec![(None, own)];
    pairs.extend(further.iter().map(|pair| (Some(pair.name.clone()), pair.tandem.clone())));
    let server = build(&args, tandem, further, (keys.clone(), loopback)).await?;
    tokio::spawn(load_clouds(pairs));
    say(&format!("listening on {scheme}://{address}"));
    let limits = ServerLimits { shutdown: args.shutdown_limit, ..ServerLimits::default() };
    let mut failure = None;
    let mode = args.generate.mode;
    let reload = |command: Command| -> anyhow::Result<()> {
        let Command::Serve(next) = command else { return Ok(()) };
        reconfigure(&server, &next, mode, &keys)?;
        note_changed_pairs(&args.pairs, &next.pairs);
        Ok(())
    };
    let shutdown = async {
        tokio::select! {
            () = interrupted() => {}
            () = reload_until_gone(hangups, reload) => {}
            // Whoever watches this process can start it again; a server without models cannot help.
            reason = server.failure() => failure = Some(reason),
        }
    };
    let served = listen_with(listener, tls, app(&server), limits, shutdown).await;
    // Models that failed have no sessions to close.
    if failure.is_none() {
        server.close().await;
    }
    ended(served, failure)
}

/// Keys, modes and the limits of keys as they are given now. The rest is read only at the start.
fn reconfigure(
    server: &Server<Models>,
    args: &ServeArgs,
    mode: Mode,
    now: &Keys,
) -> anyhow::Result<()> {
    let (keys, allowed) = (keys_of(&args.listening)?, allowed(args, mode)?);
    stay_closed(now, &keys)?;
    server.reconfigure(&keys, allowed);
    Ok(())
}

/// Says that pairs stay as they were: their models are loaded.
fn note_changed_pairs(now: &[FurtherPairArgs], next: &[FurtherPairArgs]) {
    let tables = |pairs: &[FurtherPairArgs]| {
        pairs.iter().map(|pair| (pair.name.clone(), pair.table.clone())).collect::<Vec<_>>()
    };
    if tables(now) != tables(next) {
        tracing::warn!(
            "[serve.pairs] changed and stays as it was: pairs are read when the server starts, so \
             restart it for that"
        );
    }
}

/// How much one pair may do.
struct Capacity {
    /// Texts at once, and requests that may wait for them.
    seats: usize,
    queue: usize,
    max_wait: Duration,
    max_share: Option<Share>,
}

/// A pair whose requests choose the mode: its router is chosen in any case.
fn builder(generate: &GenerateArgs, capacity: Capacity) -> anyhow::Result<Builder> {
    let Capacity { seats, queue, max_wait, max_share } = capacity;
    let builder = generate.builder()?.any_mode().seats(seats).queue(queue).max_wait(max_wait);
    Ok(match max_share {
        Some(share) => builder.max_share(share.value()),
        None => builder,
    })
}

/// The server's own pair, with this many seats.
pub fn pair(args: &ServeArgs, seats: usize) -> anyhow::Result<Tandem> {
    let AllowedArgs { max_wait, max_share, .. } = args.allowed;
    let capacity = Capacity { seats, queue: args.queue, max_wait, max_share };
    let tandem = builder(&args.generate, capacity)?.build()?;
    note_fallback(&tandem);
    Ok(tandem)
}

/// The further pairs of the configuration file. Their small models are loaded here, one after the other, so
/// that a mistake is told with the name of its table.
async fn further_pairs(args: &ServeArgs, own: &Tandem) -> anyhow::Result<Vec<FurtherPair<Models>>> {
    let mut pairs = vec![];
    for pair in &args.pairs {
        let built = further_pair(args, pair, own).await;
        pairs.push(built.with_context(|| format!("[serve.pairs.{}]", pair.name))?);
    }
    Ok(pairs)
}

async fn further_pair(
    args: &ServeArgs,
    pair: &FurtherPairArgs,
    own: &Tandem,
) -> anyhow::Result<FurtherPair<Models>> {
    let (name, options) = (pair.name.clone(), &pair.options);
    let capacity = Capacity {
        seats: options.parallel.unwrap_or(args.parallel),
        queue: options.queue.unwrap_or(args.queue),
        max_wait: options.max_wait.unwrap_or(args.allowed.max_wait),
        max_share: options.max_share.or(args.allowed.max_share),
    };
    let tandem = builder(&options.generate, capacity)?.build_beside(own)?;
    if let Some(reason) = tandem.routers().own().fallback() {
        say(&format!("note: the pair {name}: {reason}: using the router top1"));
    }
    tandem.load().await?;
    let about = about(&options.generate, &tandem)?;
    Ok(FurtherPair { name, tandem, about })
}

/// Loads the large models of this process, one after the other. It is done in the background: until they are
/// there, texts that do not ask need not wait. `None` names the server's own pair.
async fn load_clouds(pairs: Vec<(Option<String>, Tandem)>) {
    for (name, tandem) in pairs {
        if let Err(error) = tandem.pair().load_cloud().await {
            let of = name.map(|name| format!(" of the pair {name}")).unwrap_or_default();
            say(&format!("warning: the large model{of} could not be loaded: {error}"));
        }
    }
}

/// Serves these pairs to whoever has one of these keys; `loopback` says that only this machine can come.
pub async fn build(
    args: &ServeArgs,
    tandem: Tandem,
    further: Vec<FurtherPair<Models>>,
    (keys, loopback): (Keys, bool),
) -> anyhow::Result<Arc<Server<Models>>> {
    let config = Config {
        about: about(&args.generate, &tandem)?,
        keys,
        loopback,
        cors: cors(&args.listening.cors)?,
        time: args.time_limit,
        body: BODY,
        allowed: allowed(args, args.generate.mode)?,
    };
    Ok(Server::with_pairs(tandem, further, config).await?)
}

/// What requests may ask for. `mode`, which they get where they ask for nothing, must be among it.
fn allowed(args: &ServeArgs, mode: Mode) -> Result<Allowed, UsageError> {
    let AllowedArgs { modes, max_share, key_requests, key_cloud_tokens, .. } = &args.allowed;
    let modes = if modes.is_empty() { Mode::ALL.to_vec() } else { modes.clone() };
    if !modes.contains(&mode) {
        return Err(UsageError(format!("--modes does not allow the server's own --mode {mode}")));
    }
    if !mode.heeds_share() && max_share.is_some_and(|share| share.value() < 1.0) {
        return Err(UsageError(format!("--max-share does not allow --mode {mode}")));
    }
    let number = |n: Option<usize>| n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let quota = Quota { requests: number(*key_requests), cloud_tokens: number(*key_cloud_tokens) };
    Ok(Allowed { modes, quota })
}

/// No address: callers are told of it.
fn about(args: &GenerateArgs, tandem: &Tandem) -> anyhow::Result<ServerInfo> {
    let models = tandem.pair();
    let cloud = match models.location() {
        CloudLocation::None => None,
        CloudLocation::Remote => args.pair.cloud.cloud_model.clone(),
        CloudLocation::Embedded => Some(models.cloud_name()?),
    };
    let edge = models.edge_options()?.name();
    let preset = models.preset().map(String::from);
    Ok(ServerInfo { edge, cloud, location: models.location(), preset })
}

fn keys_of(args: &ListenArgs) -> anyhow::Result<Keys> {
    keys(&args.api_key, args.api_key_file.as_deref(), "--api-key")
}

/// Says so where everybody who reaches the server can use it.
fn note_open(loopback: bool, keys: &Keys) {
    if !loopback && keys.is_empty() {
        say("warning: everybody who reaches this address can use the server; set --api-key");
    }
}

fn cors(origins: &[String]) -> anyhow::Result<Cors> {
    if origins.is_empty() {
        return Ok(Cors::Off);
    }
    if origins.iter().any(|origin| origin == "*") {
        return Ok(Cors::Any);
    }
    let origin = |text: &String| {
        let whole = text.starts_with("http://") || text.starts_with("https://");
        let value = HeaderValue::from_str(text).ok().filter(|_| whole);
        let wrong = || UsageError(format!("--cors {text:?}: write https://host[:port], or *"));
        value.ok_or_else(wrong)
    };
    Ok(Cors::Origins(origins.iter().map(origin).collect::<Result<_, _>>()?))
}
