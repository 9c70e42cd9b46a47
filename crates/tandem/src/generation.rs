//! One text while it is generated.

use decode::{
    CloudError, Exchange, FinishReason, Relay, Router, Session, Span, Transcript, Verify,
};
use futures_util::{Stream, stream};

use crate::{Answer, Error, Lease, Models, Pair, ResolvedRequest, Summary};

/// A text that is being generated. It owns its seat: dropping it stops the work on both sides and
/// gives the seat back with its caches.
pub struct Generation<P: Pair = Models> {
    state: State<P>,
    /// `None` after [`into_parts`](Self::into_parts).
    lease: Option<Lease<P>>,
    request: ResolvedRequest,
}

type PairSession<P> = Session<<P as Pair>::Edge, Box<dyn Router>, <P as Pair>::Cloud>;

pub(crate) enum State<P: Pair> {
    /// Modes `small` and `joint`: the edge writes, with or without a cloud behind it.
    Session(Box<PairSession<P>>),
    /// Mode `large`: the cloud writes everything.
    Relay(Box<Relay<P::Cloud>>),
    /// Mode `verify`: the edge drafts, and the cloud judges.
    Verify(Box<Verify<P::Edge, P::Cloud>>),
    /// The models were given back: nobody but `drop` sees it.
    Over(Box<Transcript>),
}

impl<P: Pair> Generation<P> {
    pub(crate) fn new(state: State<P>, lease: Lease<P>, request: ResolvedRequest) -> Self {
        Self { state, lease: Some(lease), request }
    }

    /// In mode `verify`, accepts a draft too where it is less than the large model's own choice; see
    /// [`Verify::accepting`].
    pub fn accepting(mut self, least_ratio: f32) -> Self {
        self.state = match std::mem::replace(&mut self.state, State::Over(Box::default())) {
            State::Verify(verify) => State::Verify(Box::new(verify.accepting(least_ratio))),
            other => other,
        };
        self
    }

    /// Advances by one accepted span; `None` at the end of the text.
    ///
    /// A call that is dropped before it is done loses its step: only [`end`](Self::end) may follow.
    pub async fn next(&mut self) -> Result<Option<Span>, Error> {
        match &mut self.state {
            State::Session(session) => Ok(session.next().await?),
            State::Relay(relay) => Ok(relay.next().await?),
            State::Verify(verify) => Ok(verify.next().await?),
            State::Over(_) => Ok(None),
        }
    }

    /// Ends the text here and returns what was held back, for example half a stop string.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        match &mut self.state {
            State::Session(session) => session.end(reason),
            State::Relay(relay) => relay.end(reason),
            State::Verify(verify) => verify.end(reason),
            State::Over(_) => Span::default(),
        }
    }

    /// Everything accepted so far, with its trace and statistics.
    pub fn transcript(&self) -> &Transcript {
        match &self.state {
            State::Session(session) => session.transcript(),
            State::Relay(relay) => relay.transcript(),
            State::Verify(verify) => verify.transcript(),
            State::Over(transcript) => transcript,
        }
    }

    /// The cloud's last failure, even if it has recovered since. In other modes a failure ends the
    /// text and is returned by [`next`](Self::next) instead.
    pub fn cloud_error(&self) -> Option<&CloudError> {
        match &self.state {
            State::Session(session) => session.cloud_error(),
            State::Relay(_) | State::Verify(_) | State::Over(_) => None,
        }
    }

    /// Whether ids or text are exchanged with the cloud; `None` before the first ask.
    pub fn exchange(&self) -> Option<Exchange> {
        match &self.state {
            State::Session(session) => session.exchange(),
            State::Relay(relay) => relay.exchange(),
            State::Verify(verify) => verify.exchange(),
            State::Over(_) => None,
        }
    }

    /// The request with all its options decided.
    pub fn request(&self) -> &ResolvedRequest {
        &self.request
    }

    /// How the text was generated so far, without the text itself.
    pub fn summary(&self) -> Summary {
        Summary::new(self)
    }

    /// Generates the text to its end.
    pub async fn finish(mut self) -> Result<Answer, Error> {
        while self.next().await?.is_some() {}
        Ok(Answer::new(&self))
    }

    /// The spans as a stream, which ends with the text or after the first error.
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

    /// Returns the seat, for another text on it, and the transcript.
    pub fn into_parts(mut self) -> (Option<Lease<P>>, Transcript) {
        let transcript = self.give_back();
        (self.lease.take(), transcript)
    }

    /// Returns both models to the seat.
    fn give_back(&mut self) -> Transcript {
        let (models, transcript) =
            match std::mem::replace(&mut self.state, State::Over(Box::default())) {
                State::Over(transcript) => return *transcript,
                State::Session(session) => {
                    let (edge, cloud, transcript) = session.into_parts();
                    ((Some(edge), cloud), transcript)
                }
                State::Verify(verify) => {
                    let (edge, cloud, transcript) = verify.into_parts();
                    ((Some(edge), Some(cloud)), transcript)
                }
                State::Relay(relay) => {
                    let (cloud, transcript) = relay.into_parts();
                    ((None, Some(cloud)), transcript)
                }
            };
        if let Some(lease) = &mut self.lease {
            lease.put_back(models, &self.request, transcript.accepted_text());
        }
        transcript
    }
}

impl<P: Pair> Drop for Generation<P> {
    fn drop(&mut self) {
        self.give_back();
    }
}
