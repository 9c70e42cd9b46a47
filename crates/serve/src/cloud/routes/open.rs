//! `POST /v1/sessions`: begins a conversation.

use std::sync::Arc;

use ::cloud::protocol::{Open, Opened, Prompt};
use axum::{Json, extract::State};
use decode::{Exchange, Token, Vocabulary};
use engine::{Model, Sequence};

use crate::cloud::{
    Server,
    body::Body,
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
    let sequence = match &open.from {
        Some(from) => take_over(&server, model, from).await?,
        None => server.sessions.open_sequence(model).await?,
    };
    let id = name()?;
    let conversation = Conversation::new(exchange, prompt);
    server.sessions.insert(Session { id: id.clone(), sequence, conversation, last: None });
    let (context, load_ms) = (model.context(), milliseconds(load));
    Ok(Json(Opened { session: id, exchange, vocabulary, context, load_ms }))
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

/// The cache of the caller's earlier session; a new one if that is gone.
async fn take_over(server: &Server, model: &Model, from: &str) -> Result<Sequence, ApiError> {
    match server.sessions.remove(from).await {
        Ok(session) => Ok(session.sequence),
        Err(_) => server.sessions.open_sequence(model).await,
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
