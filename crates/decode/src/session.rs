//! The joint loop. For every position:
//!
//! 1. the edge reads what was accepted and not yet read: a *step*;
//! 2. the router *scores* its proposal;
//! 3. a score below the *threshold* asks, if this is a place where the cloud can answer;
//! 4. otherwise the edge's own choice is *kept*;
//! 5. an *ask* brings the cloud's token, or its word in the edge's tokens;
//! 6. what was written is *accepted*: into the text, the trace, and the edge's next step.
//!
//! An overruled proposal is never read by anyone, so neither side has anything to undo.

use std::{sync::Arc, time::Instant};

use thiserror::Error;

use crate::{
    Ask, Cloud, CloudError, Decision, Edge, EdgeError, Exchange, Limits, Router, Sampling,
    SamplingError, Score, Step, Threshold, Token, Transcript, Vocabulary, Want, boundary,
    trace::{FinishReason, Source, Span, Times, Usage},
    transcript::Written,
};

/// Why a generation cannot begin or go on.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Nothing to begin with.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt alone fills the context.
    #[error(
        "the prompt has {tokens} tokens and the context holds {context}: shorten it, or raise --context"
    )]
    PromptTooLong {
        /// The prompt's tokens.
        tokens: usize,
        /// What fits.
        context: usize,
    },
    /// The small model failed.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// No token could be chosen.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// There is no edge to fall back to.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

/// What is asked of one generation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The edge's tokens of the prompt.
    pub prompt: Vec<Token>,
    /// How tokens are chosen, on both sides.
    pub sampling: Sampling,
    /// When to end.
    pub limits: Limits,
}

/// Who judges the edge, and who is asked instead.
#[derive(Debug)]
pub struct Routing<R, C> {
    /// Gives the score.
    pub router: R,
    /// Below it, the cloud is asked.
    pub threshold: Threshold,
    /// Opened by the first ask.
    pub cloud: C,
}

/// What is known of the cloud.
#[derive(Debug)]
enum Link {
    Unopened,
    Open(Exchange),
    /// It failed; the edge finishes alone.
    Lost {
        error: CloudError,
        exchange: Option<Exchange>,
    },
}

impl Link {
    fn exchange(&self) -> Option<Exchange> {
        match self {
            Self::Unopened => None,
            Self::Open(exchange) => Some(*exchange),
            Self::Lost { exchange, .. } => *exchange,
        }
    }
}

/// One generation on the edge, with or without a cloud behind it.
pub struct Session<E, R, C> {
    edge: E,
    vocabulary: Arc<dyn Vocabulary>,
    routing: Option<Routing<R, C>>,
    link: Link,
    sampling: Sampling,
    /// Accepted, and not yet read by the edge.
    unread: Vec<Token>,
    read: usize,
    prompt: usize,
    transcript: Transcript,
}

impl<E: Edge, R: Router, C: Cloud> Session<E, R, C> {
    /// Begins a generation; without routing it is the edge's alone. What the edge's cache shares
    /// with the prompt is not read again.
    pub fn new(
        mut edge: E,
        routing: Option<Routing<R, C>>,
        plan: Plan,
    ) -> Result<Self, SessionError> {
        let prompt = plan.prompt;
        if prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        if prompt.len() >= edge.context() {
            let (tokens, context) = (prompt.len(), edge.context());
            return Err(SessionError::PromptTooLong { tokens, context });
        }
        // The last token is read in any case: it gives the first logits.
        let read = edge.keep_common(&prompt[..prompt.len() - 1]);
        Ok(Self {
            vocabulary: edge.vocabulary(),
            edge,
            routing,
            link: Link::Unopened,
            sampling: plan.sampling,
            unread: prompt[read..].to_vec(),
            read,
            prompt: prompt.len(),
            transcript: Transcript::new(plan.limits),
        })
    }

    /// Advances by one accepted span; `None` at the end of the text.
    ///
    /// A call that is dropped half-way loses its step: only [`end`](Self::end) may follow it.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        if self.transcript.finish_reason().is_some() {
            return Ok(None);
        }
        if self.read + self.unread.len() > self.edge.context() {
            return Ok(Some(self.transcript.end(FinishReason::Length)));
        }
        let step = self.edge.step(&self.unread).await?;
        self.read += self.unread.len();
        self.unread.clear();

        let (score, mut times) = self.judge(&step);
        let written = match self.decide(&step, score, &mut times).await {
            Decision::Keep => self.keep(&step)?,
            Decision::Ask => self.ask(&step, &mut times).await?,
        };
        Ok(Some(self.accept(written, score, times)))
    }

    /// What happened so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The caller's word that this is the end; what was held back can be shown now.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        self.transcript.end(reason)
    }

    /// What travels to the cloud, once it has been opened.
    pub fn exchange(&self) -> Option<Exchange> {
        self.link.exchange()
    }

    /// Why the cloud was given up, if it was.
    pub fn cloud_error(&self) -> Option<&CloudError> {
        match &self.link {
            Link::Lost { error, .. } => Some(error),
            Link::Unopened | Link::Open(_) => None,
        }
    }

    fn judge(&self, step: &Step) -> (Option<Score>, Times) {
        let started = Instant::now();
        let score = self.routing.as_ref().map(|r| r.router.score(step));
        let times = Times {
            edge_prefill: step.reading.prefill,
            edge_decode: step.reading.decode,
            router: started.elapsed(),
            ..Times::default()
        };
        (score, times)
    }

    async fn decide(&mut self, step: &Step, score: Option<Score>, times: &mut Times) -> Decision {
        let (Some(routing), Some(score)) = (&mut self.routing, score) else {
            return Decision::Keep;
        };
        if routing.threshold.decide(score) == Decision::Keep {
            return Decision::Keep;
        }
        if matches!(self.link, Link::Unopened) {
            self.link = match routing.cloud.open().await {
                Ok(opened) => {
                    *times += opened.times;
                    Link::Open(opened.exchange)
                }
                Err(error) => Link::Lost { error, exchange: None },
            };
        }
        if self.eligible(step) == Some(false) { Decision::Keep } else { Decision::Ask }
    }

    /// Whether the cloud can answer here; `None` where it was never heard of.
    fn eligible(&self, step: &Step) -> Option<bool> {
        match self.link.exchange()? {
            Exchange::Ids => Some(true),
            Exchange::Text => {
                let proposal = self.vocabulary.piece(step.proposed);
                let text = self.transcript.accepted_text();
                let whole = !self.transcript.is_inside_character();
                Some(whole && boundary::eligible(text, &proposal))
            }
        }
    }

    fn keep(&self, step: &Step) -> Result<Draft, SessionError> {
        let history = self.transcript.tokens();
        let token = if self.sampling.is_greedy() {
            step.proposed
        } else {
            self.sampling.choose(&step.logits, history, history.len())?
        };
        let tokens = if self.vocabulary.is_end(token) { vec![] } else { vec![token] };
        Ok(Draft { tokens, source: Source::Edge, eligible: self.eligible(step), usage: None })
    }

    async fn ask(&mut self, step: &Step, times: &mut Times) -> Result<Draft, SessionError> {
        match self.answer(times).await {
            Ok(draft) => Ok(draft),
            Err(error) => {
                self.link = Link::Lost { error, exchange: self.link.exchange() };
                Ok(Draft { source: Source::Fallback, ..self.keep(step)? })
            }
        }
    }

    async fn answer(&mut self, times: &mut Times) -> Result<Draft, CloudError> {
        let (routing, want) = match (&mut self.routing, &self.link) {
            (Some(routing), Link::Open(Exchange::Ids)) => (routing, Want::Tokens(1)),
            (Some(routing), Link::Open(Exchange::Text)) => (routing, Want::Word),
            (_, Link::Lost { error, .. }) => return Err(error.clone()),
            (_, Link::Unopened) | (None, _) => return Err(CloudError::NotOpened),
        };
        let ask = Ask {
            tokens: self.transcript.tokens(),
            text: self.transcript.accepted_text(),
            want,
            sampling: &self.sampling,
        };
        let answer = routing.cloud.next(ask).await?;
        *times += answer.times;
        if answer.tokens.is_empty() && !answer.end {
            return Err(CloudError::ContextFull);
        }
        let tokens = match want {
            Want::Tokens(_) => self.check(answer.tokens.iter().map(|t| t.id).collect())?,
            Want::Word => self.translate(answer.text())?,
        };
        let (source, eligible) = (Source::Cloud, Some(true));
        Ok(Draft { tokens, source, eligible, usage: Some(answer.usage) })
    }

    fn check(&self, tokens: Vec<Token>) -> Result<Vec<Token>, CloudError> {
        match tokens.iter().find(|t| t.index() >= self.vocabulary.len()) {
            Some(&id) => Err(CloudError::UnknownToken { id }),
            None => Ok(tokens),
        }
    }

    /// The cloud's word in the edge's tokens.
    fn translate(&self, word: String) -> Result<Vec<Token>, CloudError> {
        let tokens = self.vocabulary.encode(&word);
        let written: Vec<u8> = tokens.iter().flat_map(|&t| self.vocabulary.piece(t)).collect();
        if written == word.as_bytes() {
            Ok(tokens)
        } else {
            Err(CloudError::Untranslatable { word })
        }
    }

    fn accept(&mut self, draft: Draft, score: Option<Score>, times: Times) -> Span {
        if draft.tokens.is_empty() {
            self.transcript.spend(times, draft.usage);
            return self.transcript.end(FinishReason::Stop);
        }
        let piece = |t: &Token| (*t, self.vocabulary.piece(*t));
        let written = Written {
            tokens: draft.tokens.iter().map(piece).collect(),
            source: draft.source,
            score,
            eligible: draft.eligible,
            times,
            usage: draft.usage,
        };
        let span = self.transcript.accept(written);
        self.unread.clone_from(&draft.tokens);
        // A span cut short by a limit is read only as far as it was accepted.
        self.unread.truncate(self.prompt + self.transcript.tokens().len() - self.read);
        span
    }
}

/// What the next tokens are to be; none for end-of-text.
struct Draft {
    tokens: Vec<Token>,
    source: Source,
    eligible: Option<bool>,
    usage: Option<Usage>,
}
