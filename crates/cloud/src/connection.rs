//! A connection to an engine, in its dialect.

use std::{sync::Arc, time::Duration};

use decode::{CloudError, Message, Token};
use serde_json::Value;

use crate::{
    engine::{CANNOT_SCORE, Completion, Context, Dialect, Question, ReplyError, Request},
    http::Http,
    protocol::{Piece, ScoredToken},
};

/// How long anything but an answer may take.
pub(crate) const SIDE_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct EngineConnection {
    http: Http,
    pub dialect: Arc<dyn Dialect>,
}

impl EngineConnection {
    pub fn new(http: Http, dialect: Box<dyn Dialect>) -> Self {
        Self { http, dialect: dialect.into() }
    }

    pub fn invalid_answer(&self, reason: &str) -> CloudError {
        self.http.invalid_answer(reason.into())
    }

    pub async fn complete(
        &self,
        question: &Question<'_>,
        within: Duration,
    ) -> Result<Completion, CloudError> {
        if let Some(what) = self.dialect.lacks(question.sampling) {
            return Err(CloudError::Unsupported { engine: self.http.engine, what });
        }
        self.note(question);
        let reply = self.send(&self.dialect.ask(question), within).await?;
        self.plausible(question, self.checked(self.dialect.answer(&reply))?)
    }

    /// What comes next behind each of these contexts, in one request.
    pub async fn complete_each(
        &self,
        question: &Question<'_>,
        contexts: &[&[Token]],
        within: Duration,
    ) -> Result<Vec<Completion>, CloudError> {
        let Some(request) = self.dialect.ask_each(question, contexts) else {
            let what = "cannot judge a draft: use another cloud for mode verify";
            return Err(CloudError::Unsupported { engine: self.http.engine, what });
        };
        if let Some(longest) = contexts.last() {
            self.note(&Question { context: Context::Ids(longest), ..*question });
        }
        let reply = self.send(&request, within).await?;
        let completions = self.checked(self.dialect.answers(&reply))?;
        if completions.len() != contexts.len() {
            let reason =
                format!("{} answers came to {} contexts", completions.len(), contexts.len());
            return Err(self.http.invalid_answer(reason));
        }
        completions.into_iter().map(|completion| self.plausible(question, completion)).collect()
    }

    /// Refuses what cannot be an answer to this question.
    fn plausible(
        &self,
        question: &Question<'_>,
        completion: Completion,
    ) -> Result<Completion, CloudError> {
        let written = completion.ids.as_ref().map_or(completion.usage.decoded, Vec::len);
        if written > question.tokens {
            let asked = question.tokens;
            let reason = format!("{written} tokens came where {asked} were asked for");
            return Err(self.http.invalid_answer(reason));
        }
        let nothing = written == 0 && completion.text.is_empty();
        if nothing && !completion.end && !completion.full {
            return Err(self
                .http
                .invalid_answer("it wrote nothing, and not because it was done".into()));
        }
        Ok(completion)
    }

    /// Takes account of what goes out.
    fn note(&self, question: &Question<'_>) {
        match question.context {
            Context::Text(text) => self.http.sent.note(text),
            Context::Ids(ids) => {
                let ids: Vec<_> = ids.iter().map(|id| id.0.to_string()).collect();
                self.http.sent.note(&format!("[{}]", ids.join(" ")));
            }
        }
    }

    /// Special tokens in the text are read as such.
    pub async fn tokenize(&self, text: &str) -> Result<Vec<Token>, CloudError> {
        self.tokens(self.dialect.tokenize(text, false)).await
    }

    /// The ids of a conversation in the engine's own template.
    pub async fn ids_of(&self, templated: Piece) -> Result<Vec<Token>, CloudError> {
        match templated {
            Piece::Ids(ids) => Ok(ids),
            Piece::Text(text) => self.tokens(self.dialect.tokenize(&text, true)).await,
        }
    }

    async fn tokens(&self, request: Option<Request>) -> Result<Vec<Token>, CloudError> {
        let reply = self.send(&self.route(request)?, SIDE_REQUEST_TIMEOUT).await?;
        self.checked(self.dialect.tokens(&reply))
    }

    pub async fn detokenize(&self, ids: &[Token]) -> Result<String, CloudError> {
        let reply =
            self.send(&self.route(self.dialect.detokenize(ids))?, SIDE_REQUEST_TIMEOUT).await?;
        self.checked(self.dialect.text(&reply))
    }

    /// The engine's own template; `None` where it has no route for it.
    pub async fn template(&self, messages: &[Message]) -> Result<Option<Piece>, CloudError> {
        let Some(request) = self.dialect.template(messages) else { return Ok(None) };
        let reply = self.send(&request, SIDE_REQUEST_TIMEOUT).await?;
        self.checked(self.dialect.templated(&reply)).map(Some)
    }

    pub async fn score(
        &self,
        ids: &[Token],
        from: usize,
        salt: Option<&str>,
        within: Duration,
    ) -> Result<Vec<ScoredToken>, CloudError> {
        let Some(request) = self.dialect.score(ids, from, salt) else {
            let engine = self.http.engine;
            return Err(CloudError::Unsupported { engine, what: CANNOT_SCORE });
        };
        let reply = self.send(&request, within).await?;
        self.checked(self.dialect.scores(&reply, ids, from))
    }

    /// A session of the engine's own; `None` where it has none to give.
    pub async fn open_stream(&self) -> Result<Option<String>, CloudError> {
        let Some(request) = self.dialect.open_stream() else { return Ok(None) };
        let id = self.send(&request, SIDE_REQUEST_TIMEOUT).await?;
        let id = id
            .as_str()
            .ok_or_else(|| self.http.invalid_answer("a session without a name".into()))?;
        Ok(Some(id.to_owned()))
    }

    /// Whether the session is forgotten now or by itself later matters to nobody here.
    pub async fn close_stream(&self, id: &str) {
        if let Some(request) = self.dialect.close_stream(id)
            && let Err(error) =
                self.http.post(request.path, &request.body, SIDE_REQUEST_TIMEOUT).await
        {
            tracing::debug!(%error, "a session was not closed");
        }
    }

    async fn send(&self, request: &Request, within: Duration) -> Result<Value, CloudError> {
        let reply = self.http.post(request.path, &request.body, within).await?;
        self.http.read(&reply)
    }

    fn route(&self, request: Option<Request>) -> Result<Request, CloudError> {
        let what = "has no route for tokens";
        request.ok_or(CloudError::Unsupported { engine: self.http.engine, what })
    }

    fn checked<T>(&self, read: Result<T, ReplyError>) -> Result<T, CloudError> {
        read.map_err(|reason| self.http.invalid_answer(reason))
    }
}
