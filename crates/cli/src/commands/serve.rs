//! `tandem serve`: OpenAI's API over both models, and the page.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use axum::http::HeaderValue;
use server::{
    edge::{Allowed, Config, Cors, Mode, Server, ServerInfo, app},
    http::{BodyLimits, Keys, Quota},
    listen::{ServerLimits, listen_with},
};
use tandem::{CloudLocation, Models, Tandem};
use tokio::net::TcpListener;

use super::{ended, reload::reload_until_gone};
use crate::{
    args::{AllowedArgs, Command, ListenArgs, ServeArgs},
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
    let models = tandem.pair().clone();
    let loopback = address.ip().is_loopback();
    note_open(loopback, &keys);
    let server = build(&args, tandem, keys.clone(), loopback).await?;
    // In the background: until it is there, texts that do not ask need not wait.
    tokio::spawn(async move {
        if let Err(error) = models.load_cloud().await {
            say(&format!("warning: the large model could not be loaded: {error}"));
        }
    });
    say(&format!("listening on {scheme}://{address}"));
    let limits = ServerLimits { shutdown: args.shutdown_limit, ..ServerLimits::default() };
    let mut failure = None;
    let mode = args.generate.mode;
    let reload = |command: Command| reconfigure(&server, command, mode, &keys);
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
    command: Command,
    mode: Mode,
    now: &Keys,
) -> anyhow::Result<()> {
    let Command::Serve(args) = command else { return Ok(()) };
    let (keys, allowed) = (keys_of(&args.listening)?, allowed(&args, mode)?);
    stay_closed(now, &keys)?;
    server.reconfigure(&keys, allowed);
    Ok(())
}

/// The pair that is served, with this many seats.
pub fn pair(args: &ServeArgs, seats: usize) -> anyhow::Result<Tandem> {
    // Requests choose the mode: the router is chosen in any case.
    let builder = args.generate.builder()?.any_mode().seats(seats).queue(args.queue);
    let mut builder = builder.max_wait(args.allowed.max_wait);
    if let Some(share) = args.allowed.max_share {
        builder = builder.max_share(share.value());
    }
    let tandem = builder.build()?;
    note_fallback(&tandem);
    Ok(tandem)
}

pub async fn build(
    args: &ServeArgs,
    tandem: Tandem,
    keys: Keys,
    loopback: bool,
) -> anyhow::Result<Arc<Server<Models>>> {
    let config = Config {
        about: about(args, &tandem)?,
        keys,
        loopback,
        cors: cors(&args.listening.cors)?,
        time: args.time_limit,
        body: BODY,
        allowed: allowed(args, args.generate.mode)?,
    };
    Ok(Server::new(tandem, config).await?)
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
fn about(args: &ServeArgs, tandem: &Tandem) -> anyhow::Result<ServerInfo> {
    let models = tandem.pair();
    let cloud = match models.location() {
        CloudLocation::None => None,
        CloudLocation::Remote => args.generate.pair.cloud.cloud_model.clone(),
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
