//! `tandem serve`: OpenAI's API over both models, and the page.

use std::{fs, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use axum::http::HeaderValue;
use router::{Mlp, RouterKind};
use server::{
    edge::{
        CloudLocation, Config, Cors, Defaults, Mode, Models, RouterRegistry, Server, ServerInfo,
        app,
    },
    http::{BodyLimits, Keys},
    listen::{ServerLimits, listen},
};
use tokio::net::TcpListener;

use crate::{
    args::{self, GenerateArgs, ListenArgs, ServeArgs},
    config::{self, Generate, UsageError},
    crew::Workers,
    interrupt::interrupted,
    judge::{Judge, default_threshold},
    pair::{edge_model, rendered},
    show::say,
};

/// What the body of a request may cost.
const BODY: BodyLimits = BodyLimits { bytes: 4 << 20, time: Duration::from_secs(20) };

pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let listening = &args.listening;
    let listener = TcpListener::bind(listening.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another --listen", listening.listen)
    })?;
    let address = listener.local_addr()?;
    let wanted = args.generate.clone().with_preset()?;
    let cloud = (!wanted.cloud.place.offline).then_some(&wanted.cloud);
    let crew = Workers::new(&wanted.edge, cloud, &wanted.machine, args.parallel).await?;
    let server = build(&args, &wanted, &crew, address.ip().is_loopback()).await?;
    say(&format!("listening on http://{address}"));
    let patience = ServerLimits { shutdown: args.shutdown_limit, ..ServerLimits::default() };
    listen(listener, app(&server), patience, interrupted()).await?;
    server.close().await;
    Ok(ExitCode::SUCCESS)
}

/// The server of these arguments, on models that are loaded.
pub async fn build(
    args: &ServeArgs,
    wanted: &GenerateArgs,
    crew: &Workers,
    loopback: bool,
) -> anyhow::Result<Arc<Server<Models>>> {
    let keys = keys(&args.listening)?;
    if !loopback && keys.is_empty() {
        say("warning: everybody who reaches this address can use the server; set --api-key");
    }
    // Requests choose the mode: the router is chosen in any case.
    let generate = Generate::new(&GenerateArgs { mode: args::Mode::Joint, ..wanted.clone() })?;
    let mut models = Models::new(crew.edge().clone(), crew.cloud_settings().cloned());
    if wanted.share_states {
        models = models.sharing(edge_model(crew.edge_options(), crew.edge())?);
    }
    if let Some(template) = config::cloud_template(&wanted.cloud.place)? {
        models = models.with_template(move |messages| {
            rendered(&template, messages).map_err(|e| format!("{e:#}"))
        });
    }
    let config = Config {
        about: about(wanted, crew),
        defaults: defaults(wanted, &generate),
        keys,
        loopback,
        cors: cors(&args.listening.cors)?,
        parallel: args.parallel,
        queue: args.queue,
        time: args.time_limit,
        body: BODY,
    };
    let judges = RouterRegistry::new(judge(generate.judge), generate.policy, default_threshold());
    Server::new(models, judges, config).await.map_err(|e| anyhow!("{e}"))
}

fn judge(judge: Judge) -> server::edge::NamedRouter {
    let table = judge.table();
    match judge {
        Judge::Untrained(kind) => kind.into(),
        Judge::Fallback { .. } => RouterKind::Top1.into(),
        Judge::Trained { name, file, .. } => {
            server::edge::NamedRouter::trained(name, table, move |_| Box::new(Mlp::new(&file)))
        }
    }
}

/// No address: callers are told of it.
fn about(wanted: &GenerateArgs, crew: &Workers) -> ServerInfo {
    let place = &wanted.cloud.place;
    let (cloud, place) = match (&place.cloud, place.offline) {
        (_, true) => (None, CloudLocation::None),
        (Some(_), _) => (wanted.cloud.cloud_model.clone(), CloudLocation::Remote),
        (None, _) => (Some(crew.cloud_name().to_owned()), CloudLocation::Embedded),
    };
    let preset = wanted.preset.clone();
    ServerInfo { edge: crew.edge_options().name(), cloud, place, preset }
}

fn defaults(wanted: &GenerateArgs, generate: &Generate) -> Defaults {
    Defaults {
        mode: match wanted.mode {
            args::Mode::Small => Mode::Small,
            args::Mode::Joint => Mode::Joint,
            args::Mode::Large => Mode::Large,
        },
        sampling: generate.sampling,
        seeded: wanted.sampling.seed.is_some(),
        limits: generate.limits.clone(),
        system: generate.system.clone(),
        on_error: generate.on_cloud_error,
    }
}

fn keys(args: &ListenArgs) -> anyhow::Result<Keys> {
    let mut keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("--api-key-file {}", path.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let before = keys.len();
        keys.extend(lines.map(String::from));
        if keys.len() == before {
            // Nobody names a file of keys to let everybody in.
            let reason = format!("--api-key-file {} holds no key", path.display());
            return Err(UsageError(reason).into());
        }
    }
    Keys::new(keys).map_err(|error| UsageError(format!("--api-key: {error}")).into())
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
