//! Makes the texts of one request, in a task of its own.
//!
//! The task owns the seat. Whoever reads the events goes away by dropping them: that is noticed
//! while a step is under way, and the step is given up on both sides.

use std::{pin::pin, sync::Arc, time::Duration};

use decode::{
    Accepted, Edge, FinishReason, Generation, Plan, Relay, Router, Routing, Session, SessionError,
    Span, Times, Token,
};
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    Server,
    config::Mode,
    error::ApiError,
    pair::{Introduction, Pair},
    pool::Lease,
    request::GenerationRequest,
    summary::Summary,
};

/// Events on their way. Bounded: a slow client must slow the model. One, so that there is room again
/// when it has been taken.
const AHEAD: usize = 1;

/// What happens while texts are made.
#[derive(Debug)]
pub enum Event {
    /// Tokens of a text.
    Tokens {
        /// Which text.
        text: usize,
        /// In request.
        tokens: Vec<Accepted>,
    },
    /// A text is over.
    End {
        /// Which text.
        text: usize,
        /// How it ended.
        ending: Box<Ending>,
    },
    /// There will be no more.
    Failed(ApiError),
}

/// How a text ended.
#[derive(Debug)]
pub struct Ending {
    /// Why.
    pub reason: FinishReason,
    /// The prompt's tokens.
    pub prompt_tokens: usize,
    /// Of them, those that were not read again.
    pub cached_tokens: usize,
    /// What it tells of itself.
    pub summary: Summary,
}

type Writing<'a, P> =
    Generation<&'a mut <P as Pair>::Edge, Box<dyn Router>, &'a mut <P as Pair>::Cloud>;

/// Takes a seat for an request and begins. Mistakes that show before the first token are errors here.
pub async fn start<P: Pair>(
    server: Arc<Server<P>>,
    request: Arc<GenerationRequest>,
) -> Result<mpsc::Receiver<Event>, ApiError> {
    let pair = server.pool.pair();
    if request.mode == Mode::Large && !pair.has_cloud() {
        let message = "there is no cloud here, and tandem-large is the cloud's alone";
        return Err(ApiError::invalid(message).param("model"));
    }
    // A long prompt takes its time, in which others want to be heard.
    let (there, ordered) = (server.clone(), request.clone());
    let prompts = spawn_blocking(move || prompts(there.pool.pair(), &ordered)).await;
    let prompts = prompts.map_err(|error| ApiError::internal(&error))??;
    let first = prompts.first().map_or(&[][..], Vec::as_slice);
    let lease = server.pool.take(first, request.mode).await?;
    let (events, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let deadline = Instant::now() + server.config.time;
        let writer = Writer { server, request, lease, prompts, events, deadline };
        writer.write_all().await;
    });
    Ok(receiver)
}

/// The prompts in the edge's tokens; each must fit.
fn prompts<P: Pair>(pair: &P, request: &GenerationRequest) -> Result<Vec<Vec<Token>>, ApiError> {
    let mut prompts = vec![];
    for prompt in &request.prompts {
        let tokens = pair.tokens(prompt)?;
        if tokens.is_empty() {
            return Err(SessionError::EmptyPrompt.into());
        }
        if request.mode != Mode::Large && tokens.len() >= pair.context() {
            let (tokens, context) = (tokens.len(), pair.context());
            return Err(SessionError::PromptTooLong { tokens, context }.into());
        }
        prompts.push(tokens);
    }
    Ok(prompts)
}

struct Writer<P: Pair> {
    server: Arc<Server<P>>,
    request: Arc<GenerationRequest>,
    lease: Lease<P>,
    prompts: Vec<Vec<Token>>,
    events: mpsc::Sender<Event>,
    deadline: Instant,
}

/// Nobody listens any more.
struct Gone;

impl<P: Pair> Writer<P> {
    async fn write_all(mut self) {
        let prompts = std::mem::take(&mut self.prompts);
        let mut text = 0;
        for (prompt, tokens) in prompts.iter().enumerate() {
            for choice in 0..self.request.choices {
                match self.write(text, prompt, choice, tokens).await {
                    Ok(Ok(())) => text += 1,
                    Ok(Err(error)) => {
                        // Whether anybody hears it matters to nobody here.
                        drop(self.events.send(Event::Failed(error)).await);
                        return;
                    }
                    Err(Gone) => {
                        self.server.metrics.cancelled();
                        return;
                    }
                }
            }
        }
    }

    /// One text, to its end.
    async fn write(
        &mut self,
        text: usize,
        prompt: usize,
        choice: usize,
        tokens: &[Token],
    ) -> Result<Result<(), ApiError>, Gone> {
        let (request, server) = (self.request.clone(), self.server.clone());
        let Some(prompt) = request.prompts.get(prompt) else { return Ok(Ok(())) };
        let pair = self.lease.pair();
        let Some(seat) = self.lease.seat() else { return Ok(Err(ApiError::busy())) };
        let edge = (request.mode != Mode::Large).then_some(tokens);
        let introduction = Introduction { prompt, edge, on_error: request.on_error };
        if request.mode != Mode::Small
            && let Err(error) = pair.introduce(seat, introduction)
        {
            return Ok(Err(error));
        }
        let vocabulary = seat.edge.vocabulary();
        let begun = begin::<P>(&request, choice, tokens, &mut seat.edge, &mut seat.cloud);
        let mut generation = match begun {
            Ok(generation) => generation,
            Err(error) => return Ok(Err(error.into())),
        };
        let (events, deadline) = (&self.events, self.deadline);
        let mut teller = TextStreamer { server: &server, events, text, deadline, last: None };
        let told = teller.follow(&mut generation).await;
        let transcript = generation.transcript();
        server.metrics.text(&transcript.stats());
        let with_cloud = request.mode != Mode::Small;
        let written = with_cloud.then(|| vocabulary.encode(transcript.accepted_text()));
        let outcome = match told {
            Ok(Ok(())) => {
                let ending = ending::<P>(&request, &generation, tokens.len());
                teller.send(Event::End { text, ending: Box::new(ending) }).await.map(Ok)
            }
            other => other,
        };
        drop(generation);
        if let Some(written) = written {
            self.lease.remember([tokens, &written].concat());
        }
        outcome
    }
}

fn begin<'a, P: Pair>(
    request: &GenerationRequest,
    choice: usize,
    tokens: &[Token],
    edge: &'a mut P::Edge,
    cloud: &'a mut P::Cloud,
) -> Result<Writing<'a, P>, SessionError> {
    let (sampling, limits) = (request.sampling(choice), request.limits.clone());
    let generation = match request.mode {
        Mode::Large => Generation::Large(Relay::new(cloud, sampling, limits)),
        mode => {
            let routing = (mode == Mode::Joint).then(|| Routing {
                router: request.judge.build(sampling.seed),
                policy: request.policy.clone(),
                cloud,
                on_error: request.on_error,
            });
            let plan = Plan { prompt: tokens.to_vec(), written: vec![], sampling, limits };
            Generation::Edge(Session::new(edge, routing, plan)?)
        }
    };
    Ok(match request.watch() {
        Some(alternatives) => generation.with_details(alternatives),
        None => generation,
    })
}

fn ending<P: Pair>(
    request: &GenerationRequest,
    generation: &Writing<'_, P>,
    prompt: usize,
) -> Ending {
    let transcript = generation.transcript();
    let summary = Summary::new(request, generation);
    // Where the cloud writes alone, it alone knows how long the prompt is for it.
    let told = transcript.shown().first().and_then(|t| t.cloud);
    let told = told.filter(|_| request.mode == Mode::Large);
    let counted = told.and_then(|usage| usage.prefilled.zip(usage.cached));
    let (prompt_tokens, cached_tokens) = match counted {
        Some((prefilled, cached)) => (prefilled + cached, cached),
        None => (prompt, summary.stats.edge_cached),
    };
    let reason = transcript.finish_reason().unwrap_or(FinishReason::Error);
    Ending { reason, prompt_tokens, cached_tokens, summary }
}

/// Tells one text while it is made.
struct TextStreamer<'a, P: Pair> {
    server: &'a Server<P>,
    events: &'a mpsc::Sender<Event>,
    text: usize,
    deadline: Instant,
    last: Option<Instant>,
}

impl<P: Pair> TextStreamer<'_, P> {
    async fn follow(
        &mut self,
        generation: &mut Writing<'_, P>,
    ) -> Result<Result<(), ApiError>, Gone> {
        let started = Instant::now();
        let mut too_late = pin!(sleep_until(self.deadline));
        loop {
            let next = tokio::select! {
                // A reader that has gone is noticed even while there is always more to tell.
                biased;
                () = self.events.closed() => return Err(Gone),
                () = &mut too_late => {
                    return Ok(Err(ApiError::too_slow(self.server.config.time)));
                }
                next = generation.next() => next,
            };
            let span = match next {
                Ok(Some(span)) => span,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error.into())),
            };
            let now = Instant::now();
            let since = self.last.replace(now);
            self.server.metrics.span(since.is_none(), gap(now, since.unwrap_or(started)));
            let tokens = whole(span, generation.transcript().shown());
            if !tokens.is_empty() {
                self.send(Event::Tokens { text: self.text, tokens }).await?;
                self.taken().await?;
            }
        }
    }

    /// A reader that takes nothing for so long has gone, whatever its socket says.
    async fn send(&self, event: Event) -> Result<(), Gone> {
        match timeout_at(self.deadline, self.events.send(event)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    /// Lets the last event go out now, before the next step takes every core: that costs least.
    async fn taken(&self) -> Result<(), Gone> {
        match timeout_at(self.deadline, self.events.reserve()).await {
            Ok(Ok(_room)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}

fn gap(now: Instant, then: Instant) -> Duration {
    now.saturating_duration_since(then)
}

/// A span's tokens, with what stands for a character that never became whole.
fn whole(span: Span, shown: &[Accepted]) -> Vec<Accepted> {
    let Span { mut tokens, rest } = span;
    if rest.is_empty() {
        return tokens;
    }
    match (tokens.last_mut(), shown.last()) {
        (Some(last), _) => last.text += &rest,
        // Its token was told before.
        (None, Some(last)) => tokens.push(Accepted {
            text: rest,
            times: Times::default(),
            cloud: None,
            logprob: None,
            alternatives: vec![],
            sent: None,
            ..last.clone()
        }),
        (None, None) => {}
    }
    tokens
}
