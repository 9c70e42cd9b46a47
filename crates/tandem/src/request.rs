//! A request to a pair.

pub use cloud::{RequestOrigin, protocol::Prompt};
pub use engine::Grammar;

use decode::{Constraint, Limits, Message, OnCloudError, Sampling, ThresholdPolicy, Token};

use crate::{Mode, NamedRouter, RoutingOverrides};

/// A request to a pair. Options that are `None` are as the pair was built.
#[derive(Clone, Debug)]
pub struct Request {
    /// The messages, text or tokens that both models begin with.
    pub prompt: Prompt,
    /// Which models write.
    pub mode: Option<Mode>,
    /// Sampling parameters of both models.
    pub sampling: Option<Sampling>,
    /// Where the text ends at the latest.
    pub limits: Option<Limits>,
    /// The router, and its threshold or budget.
    pub routing: RoutingOverrides,
    /// What to do when the cloud fails in the middle of the text.
    pub on_error: Option<OnCloudError>,
    /// Records with every token its log-probability, this many of the edge's most likely tokens,
    /// and the text that was sent for it. Off by default, because it takes time at every step.
    pub alternatives: Option<usize>,
    /// The form that the text is held to, such as a JSON schema.
    pub grammar: Option<Grammar>,
}

impl Request {
    /// A request with any prompt and no options.
    pub fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            mode: None,
            sampling: None,
            limits: None,
            routing: RoutingOverrides::default(),
            on_error: None,
            alternatives: None,
            grammar: None,
        }
    }

    /// A conversation. If it has no system message, it gets the pair's.
    pub fn chat(messages: impl Into<Vec<Message>>) -> Self {
        Self::new(Prompt::Messages(messages.into()))
    }

    /// A conversation with one message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::chat([Message::user(text.into())])
    }

    /// Sets which models write.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Sets where the text ends at the latest.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Holds the text to a form, such as a JSON schema.
    pub fn grammar(self, grammar: Grammar) -> Self {
        Self { grammar: Some(grammar), ..self }
    }

    /// Sets the router, and its threshold or budget.
    pub fn routing(self, routing: RoutingOverrides) -> Self {
        Self { routing, ..self }
    }
}

impl<T: Into<String>> From<T> for Request {
    fn from(text: T) -> Self {
        Self::user(text)
    }
}

/// A request whose options have all been decided.
#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    /// Which models write.
    pub mode: Mode,
    /// The messages, text or tokens that both models begin with.
    pub prompt: Prompt,
    /// The prompt in the edge's tokens; empty if no edge is loaded.
    pub tokens: Vec<Token>,
    /// The beginning of the answer in the edge's tokens, if it is already written.
    pub written: Vec<Token>,
    /// Sampling parameters of both models.
    pub sampling: Sampling,
    /// Where the text ends at the latest.
    pub limits: Limits,
    /// Scores the steps of the edge.
    pub router: NamedRouter,
    /// Gives the threshold that scores are compared with.
    pub policy: ThresholdPolicy,
    /// What to do when the cloud fails in the middle of the text.
    pub on_error: OnCloudError,
    /// As in [`Request::alternatives`](Request#structfield.alternatives).
    pub alternatives: Option<usize>,
    /// The form that the text is held to, for a cloud that can hold its answers to it.
    pub grammar: Option<Grammar>,
    /// Holds the text to that form, from its beginning on.
    pub constraint: Option<Box<dyn Constraint>>,
    /// By which names logs and traces know the request, also those of a cloud elsewhere.
    pub origin: RequestOrigin,
}
