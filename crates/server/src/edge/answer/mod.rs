//! Answers in OpenAI's shapes, whole or in chunks.
//!
//! - [`wire`]: the types that travel
//! - [`calls`]: the words of a text, and the calls of tools in it
//! - [`shape`]: what a choice looks like on each route
//! - [`stream`]: chunks as server-sent events

pub mod calls;
pub mod shape;
pub mod stream;
pub mod wire;

use std::{marker::PhantomData, sync::Arc};

use decode::Accepted;
use tokio::sync::mpsc;

use self::{
    calls::Assembled,
    shape::{Part, Shape},
    wire::{ChunkDetails, Completion, CompletionChunk, FinishReason, Usage},
};
use super::{
    request::{Delivery, GenerationRequest},
    writer::{Ending, Event},
};
use crate::{clock::since_1970, http::ApiError, random::random_id};

/// An answer's frame: what all its chunks have in common.
#[derive(Debug)]
pub struct Answer<S> {
    id: String,
    created: u64,
    request: Arc<GenerationRequest>,
    shape: PhantomData<S>,
}

impl Usage {
    fn add(&mut self, ending: &Ending) {
        self.prompt_tokens += ending.prompt_tokens;
        self.prompt_tokens_details.cached_tokens += ending.cached_tokens;
        self.completion_tokens += ending.summary.summary.stats.tokens;
        self.total_tokens = self.prompt_tokens + self.completion_tokens;
    }
}

impl<S: Shape> Answer<S> {
    pub fn new(request: Arc<GenerationRequest>) -> Self {
        let id = random_id(&format!("{}-", S::ID));
        Self { id, created: since_1970().as_secs(), request, shape: PhantomData }
    }

    /// Waits for every text and tells them at once.
    pub async fn whole(
        &self,
        mut events: mpsc::Receiver<Event>,
    ) -> Result<Completion<S::Choice>, ApiError> {
        let mut usage = Usage::default();
        let mut texts: Vec<(Vec<Accepted>, Ending)> = vec![];
        let mut open: Vec<Accepted> = vec![];
        while let Some(event) = events.recv().await {
            match event {
                Event::Tokens { tokens, .. } => open.extend(tokens),
                Event::End { ending, .. } => {
                    usage.add(&ending);
                    texts.push((std::mem::take(&mut open), *ending));
                }
                Event::Failed(error) => return Err(error),
            }
        }
        if texts.len() < self.request.texts() {
            return Err(ApiError::stopping());
        }
        let alone = texts.len() == 1;
        let mut tandem = None;
        let choice = |(index, (tokens, ending)): (usize, (Vec<Accepted>, Ending))| {
            let Ending { reason, mut summary, .. } = ending;
            let told = Assembled::whole(self.request.tools, &tokens);
            let finish = FinishReason::of(reason, !told.calls.is_empty());
            let mut choice = S::choice(&self.part(index, &tokens, (told, 0)), finish);
            summary.trace = self.request.trace.then_some(tokens);
            // Several texts have several accounts of themselves.
            if alone {
                tandem = Some(summary);
            } else {
                S::describe(&mut choice, summary);
            }
            choice
        };
        let choices = texts.into_iter().enumerate().map(choice).collect();
        let (id, model) = (self.id.clone(), self.request.model.clone());
        let (object, created) = (S::OBJECT, self.created);
        Ok(Completion { id, object, created, model, choices, usage, tandem })
    }

    fn part<'a>(
        &self,
        index: usize,
        tokens: &'a [Accepted],
        (told, offset): (Assembled, usize),
    ) -> Part<'a> {
        Part { index, tokens, logprobs: self.request.logprobs, offset, told }
    }

    fn frame(&self, choice: Option<S::ChunkChoice>) -> CompletionChunk<S::ChunkChoice> {
        CompletionChunk {
            id: self.id.clone(),
            object: S::CHUNK_OBJECT,
            created: self.created,
            model: self.request.model.clone(),
            choices: choice.into_iter().collect(),
            usage: self.counts_usage().then_some(None),
            tandem: None,
        }
    }

    fn counts_usage(&self) -> bool {
        self.request.delivery == (Delivery::Stream { usage: true })
    }

    /// The chunk that opens a text, where the route has one.
    fn opening(&self, index: usize) -> Option<CompletionChunk<S::ChunkChoice>> {
        S::opening(index).map(|choice| self.frame(Some(choice)))
    }

    /// A chunk with tokens; `None` where it would tell nothing. With what they tell comes where it
    /// stands in the text.
    fn chunk(
        &self,
        index: usize,
        tokens: Vec<Accepted>,
        told: (Assembled, usize),
    ) -> Option<CompletionChunk<S::ChunkChoice>> {
        if told.0.is_empty() && !self.request.trace && self.request.logprobs.is_none() {
            return None;
        }
        let mut chunk = self.frame(Some(S::more(&self.part(index, &tokens, told))));
        chunk.tandem = self.request.trace.then_some(ChunkDetails::Tokens { tokens });
        Some(chunk)
    }

    fn last(&self, index: usize, ending: Ending, calls: bool) -> CompletionChunk<S::ChunkChoice> {
        let finish = FinishReason::of(ending.reason, calls);
        let mut chunk = self.frame(Some(S::end(index, finish)));
        chunk.tandem = Some(ChunkDetails::Summary(Box::new(ending.summary)));
        chunk
    }

    fn count(&self, usage: Usage) -> CompletionChunk<S::ChunkChoice> {
        CompletionChunk { usage: Some(Some(usage)), ..self.frame(None) }
    }
}

impl FinishReason {
    /// Why a text ended, with or without calls of tools in it.
    pub fn of(reason: decode::FinishReason, calls: bool) -> Self {
        use decode::FinishReason as Decoded;
        match reason {
            Decoded::Length => Self::Length,
            Decoded::Stop | Decoded::Cancelled | Decoded::Error if calls => Self::ToolCalls,
            Decoded::Stop | Decoded::Cancelled | Decoded::Error => Self::Stop,
        }
    }
}
