//! `POST /v1/sessions`: begins a conversation.

use std::sync::Arc;

use ::cloud::protocol::{EdgeModel, Open, Opened, Prompt, Sharing};
use axum::{Json, extract::State};
use decode::{Exchange, Token, Vocabulary};
use engine::Model;

use crate::cloud::{
    Server,
    body::Body,
    collect::Source,
    conversation::{Conversation, Refusal, known},
    error::ApiError,
    sessions::Session,
    writer::milliseconds,
};

pub async fn open(
    State(server): State<Arc<Server>>,
    Body(open): Body<Open>,
) -> Result<Json<Opened>, ApiError> {
    let (model, load) = server.model.get().await?;
    let prompt = tokens(model, &open.prompt)?;
    if prompt.is_empty() {
        return Err(ApiError::invalid("the prompt is empty"));
    }
    if prompt.len() >= model.context() {
        return Err(ApiError::context_full(prompt.len(), model.context()));
    }
    let vocabulary = model.vocabulary().fingerprint();
    let same = open.vocabulary.is_none_or(|edge| edge == vocabulary);
    let exchange = if same { Exchange::Ids } else { Exchange::Text };
    let (mut source, sharing) = offered(&server, open.edge, exchange).await?;
    let earlier = match &open.from {
        Some(from) => server.sessions.remove(from).await.ok(),
        None => None,
    };
    let sequence = match earlier {
        Some(earlier) => {
            if let Some(source) = &mut source {
                source.follow(&earlier, &prompt);
            }
            earlier.sequence
        }
        None => server.sessions.open_sequence(model).await?,
    };
    let id = name()?;
    let conversation = Conversation::new(exchange, prompt);
    server.sessions.insert(Session { id: id.clone(), sequence, conversation, last: None, source });
    let (context, load_ms) = (model.context(), milliseconds(load));
    Ok(Json(Opened { session: id, exchange, vocabulary, context, load_ms, sharing }))
}

/// What becomes of states an edge offers.
async fn offered(
    server: &Server,
    edge: Option<EdgeModel>,
    exchange: Exchange,
) -> Result<(Option<Source>, Option<Sharing>), ApiError> {
    let Some(edge) = edge else { return Ok((None, None)) };
    let Some(collector) = server.config.collector.clone() else {
        return Ok((None, Some(Sharing::Refused("it does not collect".into()))));
    };
    // The first offer begins the folder.
    let asked = tokio::task::spawn_blocking(move || collector.welcome(edge, exchange)).await;
    match asked.map_err(|e| ApiError::model(&e))? {
        Ok(source) => Ok((Some(source), Some(Sharing::Welcome))),
        Err(reason) => Ok((None, Some(Sharing::Refused(reason)))),
    }
}

fn tokens(model: &Model, prompt: &Prompt) -> Result<Vec<Token>, ApiError> {
    let vocabulary = model.vocabulary();
    match prompt {
        Prompt::Messages(messages) if messages.is_empty() => Ok(vec![]),
        Prompt::Messages(messages) => Ok(vocabulary.prompt(messages)?),
        Prompt::Text(text) => Ok(vocabulary.raw_prompt(text)),
        Prompt::Tokens(ids) => match known(vocabulary.as_ref(), ids) {
            Ok(()) => Ok(ids.clone()),
            Err(Refusal::Invalid(message)) => Err(ApiError::invalid(message)),
            Err(Refusal::Conflict(message)) => Err(ApiError::invalid(message)),
        },
    }
}

/// A name nobody can guess: it is also the right to use the session.
fn name() -> Result<String, ApiError> {
    let mut bytes = [0u8; 16];
    let source = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    source.map_err(|e| ApiError::invalid(format!("no random numbers: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
