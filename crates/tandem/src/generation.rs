//! One text while it is made.

use decode::{CloudError, Exchange, FinishReason, Router, Span, Transcript};
use futures_util::{Stream, stream};

use crate::{Answer, Error, Lease, Models, Pair, ResolvedRequest, Summary};

/// A text that is being made. It owns its seat: dropping it stops the work on both sides and gives
/// the seat back, with what its caches hold.
pub struct Generation<P: Pair = Models> {
    state: State<P>,
    /// There until the text is taken apart.
    lease: Option<Lease<P>>,
    request: ResolvedRequest,
}

type Writing<P> = decode::Generation<<P as Pair>::Edge, Box<dyn Router>, <P as Pair>::Cloud>;

enum State<P: Pair> {
    Writing(Box<Writing<P>>),
    Over(Over),
}

/// What is left of a text whose models were given back.
#[derive(Default)]
struct Over {
    transcript: Transcript,
    exchange: Option<Exchange>,
    cloud_error: Option<CloudError>,
}

impl<P: Pair> Generation<P> {
    pub(crate) fn new(writing: Writing<P>, lease: Lease<P>, request: ResolvedRequest) -> Self {
        Self { state: State::Writing(Box::new(writing)), lease: Some(lease), request }
    }

    /// Advances by one accepted span; `None` at the end of the text.
    ///
    /// A call that is dropped half-way loses its step: only [`end`](Self::end) may follow it.
    pub async fn next(&mut self) -> Result<Option<Span>, Error> {
        match &mut self.state {
            State::Writing(writing) => Ok(writing.next().await?),
            State::Over(_) => Ok(None),
        }
    }

    /// Ends it here; what was held back can be shown now.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        match &mut self.state {
            State::Writing(writing) => writing.end(reason),
            State::Over(_) => Span::default(),
        }
    }

    /// What happened so far.
    pub fn transcript(&self) -> &Transcript {
        match &self.state {
            State::Writing(writing) => writing.transcript(),
            State::Over(over) => &over.transcript,
        }
    }

    /// The cloud's last failure, whether or not it came back.
    pub fn cloud_error(&self) -> Option<&CloudError> {
        match &self.state {
            State::Writing(writing) => writing.cloud_error(),
            State::Over(over) => over.cloud_error.as_ref(),
        }
    }

    /// What travelled to the cloud, if anything did.
    pub fn exchange(&self) -> Option<Exchange> {
        match &self.state {
            State::Writing(writing) => writing.exchange(),
            State::Over(over) => over.exchange,
        }
    }

    /// What was asked for.
    pub fn request(&self) -> &ResolvedRequest {
        &self.request
    }

    /// What there is to say of the text besides its words.
    pub fn summary(&self) -> Summary {
        Summary::new(self)
    }

    /// Makes the text to its end.
    pub async fn finish(mut self) -> Result<Answer, Error> {
        while self.next().await?.is_some() {}
        Ok(Answer::new(&self))
    }

    /// The spans as a stream; it ends with the text or with the first failure.
    pub fn into_stream(self) -> impl Stream<Item = Result<Span, Error>> + Send {
        stream::unfold(Some(self), |generation| async {
            let mut generation = generation?;
            match generation.next().await {
                Ok(Some(span)) => Some((Ok(span), Some(generation))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Gives back the seat, for another text on it, and what happened.
    pub fn into_parts(mut self) -> (Option<Lease<P>>, Transcript) {
        let over = self.give_back();
        (self.lease.take(), over.transcript)
    }

    /// Puts both models back onto the seat.
    fn give_back(&mut self) -> Over {
        match std::mem::replace(&mut self.state, State::Over(Over::default())) {
            State::Over(over) => over,
            State::Writing(writing) => {
                let exchange = writing.exchange();
                let cloud_error = writing.cloud_error().cloned();
                let (edge, cloud, transcript) = writing.into_parts();
                if let Some(lease) = &mut self.lease {
                    lease.put_back((edge, cloud), &self.request, transcript.accepted_text());
                }
                Over { transcript, exchange, cloud_error }
            }
        }
    }
}

impl<P: Pair> Drop for Generation<P> {
    fn drop(&mut self) {
        self.give_back();
    }
}
