//! What is asked of a pair.

pub use cloud::protocol::Prompt;
use decode::{Limits, Message, OnCloudError, Sampling, ThresholdPolicy, Token};

use crate::{Mode, NamedRouter, RoutingOverrides};

/// What is asked of a pair. Whatever is left out is as the pair was built.
#[derive(Clone, Debug)]
pub struct Request {
    /// What both models begin with.
    pub prompt: Prompt,
    /// Who writes.
    pub mode: Option<Mode>,
    /// How tokens are chosen, on both sides.
    pub sampling: Option<Sampling>,
    /// When to end.
    pub limits: Option<Limits>,
    /// Who judges, and how strictly.
    pub routing: RoutingOverrides,
    /// What a failure of the cloud means.
    pub on_error: Option<OnCloudError>,
    /// Has every token tell how likely it was held, this many others the edge held likely, and what
    /// left this device for it. That takes time, so nobody pays for it unasked.
    pub alternatives: Option<usize>,
}

impl Request {
    /// A text in any form a cloud takes.
    pub fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            mode: None,
            sampling: None,
            limits: None,
            routing: RoutingOverrides::default(),
            on_error: None,
            alternatives: None,
        }
    }

    /// A conversation. Without a system message of its own it gets the pair's.
    pub fn chat(messages: impl Into<Vec<Message>>) -> Self {
        Self::new(Prompt::Messages(messages.into()))
    }

    /// One question.
    pub fn user(text: impl Into<String>) -> Self {
        Self::chat([Message::user(text.into())])
    }

    /// Who writes.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// How tokens are chosen.
    pub fn sampling(self, sampling: Sampling) -> Self {
        Self { sampling: Some(sampling), ..self }
    }

    /// When to end.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Who judges, and how strictly.
    pub fn routing(self, routing: RoutingOverrides) -> Self {
        Self { routing, ..self }
    }

    /// See [`Request::alternatives`].
    pub fn alternatives(self, count: usize) -> Self {
        Self { alternatives: Some(count), ..self }
    }
}

impl<T: Into<String>> From<T> for Request {
    fn from(text: T) -> Self {
        Self::user(text)
    }
}

/// A request in which nothing is left open.
#[derive(Clone, Debug)]
pub struct ResolvedRequest {
    /// Who writes.
    pub mode: Mode,
    /// What both models begin with.
    pub prompt: Prompt,
    /// The same in the edge's tokens; empty where the edge has no part in it.
    pub tokens: Vec<Token>,
    /// The answer as far as it is already written, in the edge's tokens.
    pub written: Vec<Token>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// When to end.
    pub limits: Limits,
    /// Who judges.
    pub router: NamedRouter,
    /// How strictly.
    pub policy: ThresholdPolicy,
    /// What a failure of the cloud means.
    pub on_error: OnCloudError,
    /// As of [`Request`].
    pub alternatives: Option<usize>,
}
