//! Who answers at an address?

use std::sync::Arc;

use decode::CloudError;
use serde_json::Value;

use crate::{
    connection::{EngineConnection, SIDE_REQUEST_TIMEOUT},
    conversation::Conversation,
    engine::{Dialect, Engine, EngineInfo, LlamaServer, OpenAi, Sglang, Vllm, count, string},
    http::Http,
    opening::Opening,
    remote::Client,
    settings::Settings,
    tandem::TandemClient,
    transport::Transport,
};

/// What identifies each engine: a route, and a field of what it answers.
const IDENTIFYING_ROUTES: [(&str, &str, Engine); 4] = [
    ("/props", "default_generation_settings", Engine::LlamaServer),
    ("/model_info", "model_path", Engine::Sglang),
    ("/version", "version", Engine::Vllm),
    ("/v1/models", "data", Engine::OpenAi),
];

/// Finds out who answers, unless the user said so, and what it says of itself.
pub(crate) async fn probe(
    http: &Http,
    settings: &Settings,
    opening: Arc<Opening>,
) -> Result<Client, CloudError> {
    let model = settings.model.as_deref();
    let engine = match settings.engine {
        Some(engine) => engine,
        None => identify(http).await?,
    };
    tracing::debug!(%engine, "a cloud answers");
    let http = &http.with_engine(engine.title());
    if engine == Engine::Tandem {
        let transport = Transport::Http(http.clone());
        return Ok(Client::Tandem(TandemClient::new(transport, opening)));
    }
    let about = about(http, engine, model).await?;
    let model = model.map(str::to_owned);
    if model.is_some() && matches!(engine, Engine::Sglang | Engine::LlamaServer) {
        tracing::warn!(%engine, "serves one model: --cloud-model has no effect");
    }
    let dialect: Box<dyn Dialect> = match engine {
        Engine::Sglang => Box::new(Sglang { streaming: has_streaming(http).await? }),
        Engine::LlamaServer => Box::new(LlamaServer),
        Engine::Vllm => Box::new(Vllm { model, generate: has_generate(http).await? }),
        Engine::OpenAi | Engine::Tandem => {
            let model = model.or_else(|| about.model.clone());
            let model = model.ok_or(CloudError::Unsupported {
                engine: engine.title(),
                what: "serves no model it names: say which with --cloud-model",
            })?;
            Box::new(OpenAi { model })
        }
    };
    let connection = EngineConnection::new(http.clone(), dialect);
    let mut conversation = Conversation::new(connection, about, opening);
    conversation.salt.clone_from(&settings.salt);
    Ok(Client::Engine(Box::new(conversation)))
}

/// Each engine has a route no other has. All are tried at once: the way there may be long.
async fn identify(http: &Http) -> Result<Engine, CloudError> {
    let http = &http.with_engine("any engine we know");
    let [props, info, version, models] =
        IDENTIFYING_ROUTES.map(|(path, ..)| http.get(path, SIDE_REQUEST_TIMEOUT));
    let (a, b, c, d) = tokio::join!(props, info, version, models);
    let mut failure = None;
    for (reply, (_, field, engine)) in [a, b, c, d].into_iter().zip(IDENTIFYING_ROUTES) {
        let status = reply.as_ref().map_or(0, |reply| reply.status);
        match reply.and_then(|reply| http.read::<Value>(&reply)) {
            Ok(value) if value.get(field).is_some() => return Ok(engine),
            // It would have answered, with another key or at another time.
            Err(error) if matches!(status, 0 | 401 | 403 | 429 | 500..) => {
                failure.get_or_insert(error);
            }
            Ok(_) | Err(_) => {}
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    // Asked last: one engine writes a token to say that it is well, and takes its time.
    let reply = http.get("/health", SIDE_REQUEST_TIMEOUT).await?;
    match http.read::<Value>(&reply) {
        Ok(health) if string(&health, "/service").as_deref() == Some("tandem-cloud") => {
            Ok(Engine::Tandem)
        }
        _ => Err(http.invalid_answer("none of the routes by which engines are told apart".into())),
    }
}

async fn about(
    http: &Http,
    engine: Engine,
    chosen: Option<&str>,
) -> Result<EngineInfo, CloudError> {
    let get = async |path: &str| -> Result<Value, CloudError> {
        let reply = http.get(path, SIDE_REQUEST_TIMEOUT).await?;
        http.read(&reply)
    };
    // Every engine lists its models as OpenAI does; some such servers do not.
    let models = match get("/v1/models").await {
        Err(CloudError::Refused { status: 404 | 405, .. }) if chosen.is_some() => Value::Null,
        models => models?,
    };
    let listed = models.get("data").and_then(Value::as_array).into_iter().flatten();
    let named =
        |model: &&Value| chosen.is_none() || model.get("id").and_then(Value::as_str) == chosen;
    let listed = listed.clone().find(named).or_else(|| models.pointer("/data/0"));
    let models = serde_json::json!({ "data": [listed] });
    let listed = chosen.map(str::to_owned).or_else(|| string(&models, "/data/0/id"));
    Ok(match engine {
        Engine::LlamaServer => {
            let props = get("/props").await?;
            EngineInfo {
                version: string(&props, "/build_info"),
                model: listed.or_else(|| string(&props, "/model_path")),
                context: count(&props, "/default_generation_settings/n_ctx"),
                vocabulary: count(&models, "/data/0/meta/n_vocab"),
                slots: count(&props, "/total_slots"),
                footprint: None,
            }
        }
        Engine::Sglang => {
            let info = get("/server_info").await?;
            EngineInfo {
                version: string(&info, "/version"),
                model: listed,
                context: count(&models, "/data/0/max_model_len")
                    .or_else(|| count(&info, "/context_length")),
                ..EngineInfo::default()
            }
        }
        Engine::Vllm => EngineInfo {
            version: string(&get("/version").await?, "/version"),
            model: listed,
            context: count(&models, "/data/0/max_model_len"),
            ..EngineInfo::default()
        },
        Engine::OpenAi | Engine::Tandem => EngineInfo { model: listed, ..EngineInfo::default() },
    })
}

/// Whether SGLang keeps sessions that are sent only what is new.
async fn has_streaming(http: &Http) -> Result<bool, CloudError> {
    let reply = http.get("/server_info", SIDE_REQUEST_TIMEOUT).await?;
    let info: Value = http.read(&reply)?;
    Ok(info.get("enable_streaming_session") == Some(&Value::Bool(true)))
}

/// Whether vLLM's token route is switched on: an empty question tells, without a token written.
async fn has_generate(http: &Http) -> Result<bool, CloudError> {
    let reply = http.post(Vllm::GENERATE, &serde_json::json!({}), SIDE_REQUEST_TIMEOUT).await?;
    match reply.status {
        400 | 422 => Ok(true),
        403..=405 => Ok(false),
        _ => Err(http.refusal(&reply)),
    }
}
