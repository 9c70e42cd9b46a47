//! Begins a conversation.

use decode::{Exchange, Vocabulary};

use super::{
    Service, ServiceError, collector::SharedStates, conversation::Conversation, form,
    sessions::Session, writer::milliseconds,
};
use crate::protocol::{EdgeModel, OpenRequest, OpenResponse, Sharing};

impl Service {
    /// Opens a session; loads the model if it is not in memory yet.
    pub async fn open(&self, open: OpenRequest) -> Result<OpenResponse, ServiceError> {
        form::check_size(open.grammar.as_ref())?;
        let (model, load) = self.model.get().await?;
        let prompt = self.prompt(model, open.prompt).await?;
        if prompt.is_empty() {
            return Err(ServiceError::invalid("the prompt is empty"));
        }
        if prompt.len() >= model.context() {
            let (tokens, context) = (prompt.len(), model.context());
            return Err(ServiceError::ContextFull { tokens, context });
        }
        let vocabulary = model.vocabulary().fingerprint();
        let same = open.vocabulary.is_none_or(|edge| edge == vocabulary);
        let exchange = if same { Exchange::Ids } else { Exchange::Text };
        let id = random_id()?;
        let (mut shared, sharing) = self.offered(open.edge, exchange).await?;
        let earlier = match &open.from {
            Some(from) => self.sessions.remove(from).await.ok(),
            None => None,
        };
        let sequence = match earlier {
            Some(earlier) => {
                if let Some(shared) = &mut shared {
                    shared.follow(&earlier, &prompt);
                }
                earlier.sequence
            }
            None => self.sessions.open_sequence(model).await?,
        };
        let conversation = Conversation::new(exchange, prompt);
        let form = self.form(model, open.grammar).await?;
        let session = Session { id: id.clone(), sequence, conversation, form, last: None, shared };
        self.sessions.insert(session);
        let (context, load_ms) = (model.context(), milliseconds(load));
        Ok(OpenResponse { session: id, exchange, vocabulary, context, load_ms, sharing })
    }

    /// What becomes of states an edge offers.
    async fn offered(
        &self,
        edge: Option<EdgeModel>,
        exchange: Exchange,
    ) -> Result<(Option<SharedStates>, Option<Sharing>), ServiceError> {
        let Some(edge) = edge else { return Ok((None, None)) };
        let Some(collector) = self.config.collector.clone() else {
            return Ok((None, Some(Sharing::Refused("it does not collect".into()))));
        };
        let shared = SharedStates::new(edge.hidden);
        // The first offer begins a folder on the disk.
        let asked = tokio::task::spawn_blocking(move || collector.accepts(edge, exchange)).await;
        match asked.map_err(|e| ServiceError::internal(&e))? {
            Ok(()) => Ok((Some(shared), Some(Sharing::Welcome))),
            Err(reason) => Ok((None, Some(Sharing::Refused(reason)))),
        }
    }
}

/// An id nobody can guess: whoever knows it may use the session.
fn random_id() -> Result<String, ServiceError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(decode::hex(&bytes))
}

/// A machine without random bytes is nobody's mistake.
fn no_random(error: getrandom::Error) -> ServiceError {
    ServiceError::internal(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::code;

    #[test]
    fn a_system_without_random_bytes_is_a_failure_of_ours() {
        let error = no_random(getrandom::Error::UNSUPPORTED);
        assert_eq!((error.code(), error.status()), (code::INTERNAL, 500), "{error}");
    }
}
