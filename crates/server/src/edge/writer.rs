//! Makes the texts of one request, in a task of its own.
//!
//! The task owns the seat. Whoever reads the events goes away by dropping them: that is noticed
//! while a step is under way, and the step is given up on both sides.

use std::{pin::pin, sync::Arc};

use decode::{Accepted, Constraint, FinishReason, Span, Times, Token};
use tandem::{Generation, Lease, Mode, Owner, Pair, RequestOrigin, ResolvedRequest};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::Instrument;

use super::{Server, metrics::PairMetrics, request::GenerationRequest, summary::Summary};
use crate::http::{
    ApiError,
    quota::{self, KeyId},
    request_id,
    room::AnswerRoom,
};

/// Events on their way. Bounded: a slow client must slow the model. One, so that there is room again
/// when it has been taken.
const CHANNEL_CAPACITY: usize = 1;

/// What happens while texts are made.
#[derive(Debug)]
pub enum Event {
    Tokens {
        text: usize,
        tokens: Vec<Accepted>,
    },
    End {
        text: usize,
        ending: Box<Ending>,
    },
    /// There will be no more.
    Failed(ApiError),
}

impl Event {
    /// The first of a text. Where nothing was written yet, a failure has a status of its own.
    pub async fn first(events: &mut mpsc::Receiver<Self>) -> Result<Self, ApiError> {
        match events.recv().await {
            Some(Self::Failed(error)) => Err(error),
            Some(event) => Ok(event),
            None => Err(ApiError::stopping()),
        }
    }
}

#[derive(Debug)]
pub struct Ending {
    /// What ended it: the model, a limit, the reader or a failure.
    pub reason: FinishReason,
    /// The stop string that ended it, if one did.
    pub stop: Option<String>,
    pub prompt_tokens: usize,
    /// Of them, those that were not read again.
    pub cached_tokens: usize,
    pub summary: Summary,
}

/// Texts that are being made.
pub struct Started {
    pub events: mpsc::Receiver<Event>,
    /// Room for them, where they are told all at once.
    pub room: AnswerRoom,
}

/// Takes a seat for a request and begins. Mistakes that show before the first token are errors here.
pub async fn start<P: Pair>(
    server: Arc<Server<P>>,
    request: Arc<GenerationRequest>,
) -> Result<Started, ApiError> {
    let tandem = server.pairs.get(request.pair).tandem.clone();
    // What cannot fit is refused at once; no prompt is read before there is a seat.
    request.prompts.iter().try_for_each(|prompt| tandem.check_size(prompt))?;
    let largest = request.answer_bytes(tandem.pair().context())?;
    let caller = quota::caller();
    let form = request.grammar.is_some() || !request.biases.is_empty();
    request.mode.check(&request.sampling, form)?;
    let time = server.config.time;
    let admitted = async { Ok::<_, ApiError>(tandem.admit().await?) };
    let compiled = async {
        let Some(grammar) = &request.grammar else { return Ok(None) };
        match timeout(time, tandem.constraint(grammar)).await {
            Ok(made) => Ok(Some(made?)),
            Err(_) => Err(ApiError::too_slow(time)),
        }
    };
    // While it waits for its seat: a form that makes no sense is refused at once, however long the
    // queue is. Where the queue is full, nothing is compiled.
    let (admission, constraint) = tokio::try_join!(biased; admitted, compiled)?;
    // Not before there is a seat: whoever waits for one needs none yet.
    let room = AnswerRoom::take(largest)?;
    let constraint = match request.biases.as_slice() {
        [] => constraint,
        biases => Some(engine::grammar::biased(constraint, biases.to_vec())),
    };
    let mut prompts = vec![];
    for prompt in &request.prompts {
        prompts.push(tandem.tokens(request.mode, prompt).await?);
    }
    let first = prompts.first().map_or(&[][..], Vec::as_slice);
    let lease = admission.lease(request.mode, first, Owner(caller.0 as u64)).await?;
    let (sender, events) = mpsc::channel(CHANNEL_CAPACITY);
    let origin = request_id::origin();
    let writing = async move {
        let deadline = Instant::now() + server.config.time;
        let events = sender;
        let writer = Writer { server, request, caller, origin, constraint, events, deadline };
        writer.write_all(lease, &prompts).await;
    };
    // What is logged there belongs to this request, also behind the beginning of its answer.
    tokio::spawn(writing.in_current_span());
    Ok(Started { events, room })
}

struct Writer<P: Pair> {
    server: Arc<Server<P>>,
    request: Arc<GenerationRequest>,
    caller: KeyId,
    origin: RequestOrigin,
    constraint: Option<Box<dyn Constraint>>,
    events: mpsc::Sender<Event>,
    deadline: Instant,
}

/// Why there will be no more texts.
enum Stop {
    /// Nobody listens any more.
    Gone,
    Failed(ApiError),
}

impl<E: Into<ApiError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<P: Pair> Writer<P> {
    /// The figures of the pair that writes.
    fn metrics(&self) -> &PairMetrics {
        &self.server.pairs.get(self.request.pair).metrics
    }

    async fn write_all(self, mut lease: Lease<P>, prompts: &[Vec<Token>]) {
        let mut text = 0;
        for (prompt, tokens) in prompts.iter().enumerate() {
            for choice in 0..self.request.choices {
                match self.write(lease, text, (prompt, choice), tokens).await {
                    Ok(Some(seat)) => lease = seat,
                    Ok(None) => return,
                    Err(Stop::Failed(error)) => {
                        // Whether anybody hears it matters to nobody here.
                        drop(self.events.send(Event::Failed(error)).await);
                        return;
                    }
                    Err(Stop::Gone) => {
                        self.metrics().cancelled();
                        return;
                    }
                }
                text += 1;
            }
        }
    }

    /// One text, to its end; the seat comes back for the next one.
    async fn write(
        &self,
        lease: Lease<P>,
        text: usize,
        (prompt, choice): (usize, usize),
        tokens: &[Token],
    ) -> Result<Option<Lease<P>>, Stop> {
        let Some(request) = self.request.resolved(prompt, choice, tokens) else { return Ok(None) };
        let (constraint, origin) = (self.constraint.clone(), self.origin.clone());
        let request = ResolvedRequest { constraint, origin, ..request };
        let mut generation = lease.begin(request).await?;
        let followed = self.follow(text, &mut generation).await;
        let stats = generation.transcript().stats();
        self.metrics().text(&stats);
        self.server.quotas.charge(self.caller, stats.cloud_tokens);
        followed?;
        let ending = Box::new(ending(&generation));
        self.send(Event::End { text, ending }).await?;
        Ok(generation.into_parts().0)
    }

    /// Tells one text while it is made.
    async fn follow(&self, text: usize, generation: &mut Generation<P>) -> Result<(), Stop> {
        let started = Instant::now();
        let mut last = None;
        let mut too_late = pin!(sleep_until(self.deadline));
        loop {
            let next = tokio::select! {
                // A reader that has gone is noticed even while there is always more to tell.
                biased;
                () = self.events.closed() => return Err(Stop::Gone),
                () = &mut too_late => {
                    return Err(ApiError::too_slow(self.server.config.time).into());
                }
                next = generation.next() => next?,
            };
            let Some(span) = next else { return Ok(()) };
            let now = Instant::now();
            let since = last.replace(now);
            let took = now.saturating_duration_since(since.unwrap_or(started));
            self.metrics().span(since.is_none(), took);
            let tokens = whole(span, generation.transcript().shown());
            if !tokens.is_empty() {
                self.send(Event::Tokens { text, tokens }).await?;
                self.taken().await?;
            }
        }
    }

    /// A reader that takes nothing for so long has gone, whatever its socket says.
    async fn send(&self, event: Event) -> Result<(), Stop> {
        let sent = timeout_at(self.deadline, self.events.send(event)).await;
        sent.ok().and_then(Result::ok).ok_or(Stop::Gone)
    }

    /// Lets the last event go out now, before the next step takes every core: that costs least.
    async fn taken(&self) -> Result<(), Stop> {
        let room = timeout_at(self.deadline, self.events.reserve()).await;
        room.ok().and_then(Result::ok).map(drop).ok_or(Stop::Gone)
    }
}

fn ending<P: Pair>(generation: &Generation<P>) -> Ending {
    let (transcript, request) = (generation.transcript(), generation.request());
    let summary = Summary::new(generation);
    // Where the cloud writes alone, it alone knows how long the prompt is for it.
    let usage = transcript.shown().first().and_then(|t| t.cloud);
    let usage = usage.filter(|_| request.mode == Mode::Large);
    let counted = usage.and_then(|usage| usage.prefilled.zip(usage.cached));
    let (prompt_tokens, cached_tokens) = match counted {
        Some((prefilled, cached)) => (prefilled + cached, cached),
        None => (request.tokens.len(), summary.summary.stats.edge_cached),
    };
    let reason = transcript.finish_reason().unwrap_or(FinishReason::Error);
    let stop = transcript.stop_string().map(String::from);
    Ending { reason, stop, prompt_tokens, cached_tokens, summary }
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
            speculation: None,
            logprob: None,
            alternatives: vec![],
            sent: None,
            ..last.clone()
        }),
        (None, None) => {}
    }
    tokens
}
