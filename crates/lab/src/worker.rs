//! One of several who work side by side on the same two models.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cloud::{Clouds, protocol::Piece};
use decode::{
    AnswerLength, Ask, Exchange, Limits, Message, OnCloudError, Router, Sampling, Threshold,
    ThresholdPolicy, Token, Transcript, Vocabulary,
};
use engine::Sequence;
use tandem::{Generation, Introduction, Lease, Mode, NamedRouter, Prompt, ResolvedRequest, Tandem};
use tokio::task::JoinSet;

use crate::Error;

/// A seat of a pair, held for as long as there is work.
pub struct Worker {
    tandem: Tandem,
    /// `None` only while a text is being made on it.
    lease: Option<Lease>,
    /// What a text does where the cloud fails.
    on_cloud_error: OnCloudError,
}

/// How a text is made: greedily.
pub struct Decoding {
    pub mode: Mode,
    /// Who judges the edge. In mode small it decides nothing, but is asked at every position.
    pub router: Arc<dyn Router>,
    pub policy: ThresholdPolicy,
    pub max_tokens: usize,
}

impl Decoding {
    /// By the edge alone, while a router watches.
    pub fn edge_alone(router: Arc<dyn Router>, max_tokens: usize) -> Self {
        Self { mode: Mode::Small, router, policy: Threshold::NEVER.into(), max_tokens }
    }
}

impl Worker {
    pub async fn new(tandem: &Tandem) -> Result<Self, Error> {
        let lease = tandem.lease(Mode::Joint, &[]).await?;
        let on_cloud_error = OnCloudError::Fail;
        Ok(Self { tandem: tandem.clone(), lease: Some(lease), on_cloud_error })
    }

    /// A failure of the cloud ends a text, unless this says otherwise.
    pub fn on_cloud_error(&mut self, policy: OnCloudError) {
        self.on_cloud_error = policy;
    }

    fn lease(&mut self) -> Result<&mut Lease, Error> {
        self.lease.as_mut().ok_or_else(|| Error::internal("a worker lost its seat"))
    }

    pub async fn edge(&mut self) -> Result<&mut Sequence, Error> {
        Ok(self.lease()?.edge().await?)
    }

    pub async fn cloud(&mut self) -> Result<&mut Clouds, Error> {
        Ok(self.lease()?.cloud().await?)
    }

    pub async fn tokens(&self, messages: &[Message]) -> Result<Vec<Token>, Error> {
        Ok(self.tandem.tokens(Mode::Small, &Prompt::Messages(messages.to_vec())).await?)
    }

    /// Tells the cloud which conversation comes next: by itself, or with the edge. What it has read
    /// of the same one stays read.
    pub async fn introduce(
        &mut self,
        messages: &[Message],
        alone: bool,
    ) -> Result<&mut Clouds, Error> {
        let tokens = if alone { None } else { Some(self.tokens(messages).await?) };
        let (edge, on_error) = (tokens.as_deref(), OnCloudError::Fail);
        let prompt = &Prompt::Messages(messages.to_vec());
        Ok(self
            .lease()?
            .introduce(Introduction { prompt, edge, on_error, grammar: None, origin: None })
            .await?)
    }

    /// Has the edge hold these tokens and nothing else. They are read by themselves, or not at all if
    /// they were before, so that the numbers do not depend on what came earlier.
    pub async fn read_alone(&mut self, tokens: &[Token]) -> Result<(), Error> {
        use decode::Edge;
        let edge = self.edge().await?;
        if edge.keep_common(tokens) < tokens.len() {
            edge.truncate(0);
            edge.read(tokens, false).await?;
        }
        Ok(())
    }

    /// What the cloud, which was introduced and opened, thinks of an answer to the prompt.
    pub async fn score(
        &mut self,
        exchange: Exchange,
        answer: &str,
    ) -> Result<Vec<cloud::protocol::ScoredToken>, Error> {
        let continuation = match exchange {
            Exchange::Text => Piece::Text(answer.to_owned()),
            Exchange::Ids => Piece::Ids(self.edge().await?.model().vocabulary().encode(answer)),
        };
        self.score_behind(&[], continuation).await
    }

    /// What the cloud thinks of something behind the beginning of an answer.
    pub async fn score_behind(
        &mut self,
        before: &[Token],
        continuation: Piece,
    ) -> Result<Vec<cloud::protocol::ScoredToken>, Error> {
        let vocabulary = decode::Edge::vocabulary(self.edge().await?);
        let bytes: Vec<u8> = before.iter().flat_map(|&token| vocabulary.piece(token)).collect();
        let text = String::from_utf8_lossy(&bytes);
        let (want, sampling) = (AnswerLength::Tokens(1), &Sampling::default());
        let ask = Ask { tokens: before, text: &text, want, sampling };
        Ok(self.cloud().await?.score(ask, continuation).await?)
    }

    /// Carries an answer on to its end, from what is written of it.
    pub async fn decode(
        &mut self,
        messages: &[Message],
        written: Vec<Token>,
        decoding: Decoding,
    ) -> Result<Transcript, Error> {
        let generation = self.begin(messages, written, decoding).await?;
        self.finish(generation).await
    }

    /// An answer with every token of the large model's behind whose text the small one's own choice is
    /// less than so many times as likely; see [`decode::Verify::accepting`].
    pub async fn oracle(
        &mut self,
        messages: &[Message],
        least_ratio: f32,
        decoding: Decoding,
    ) -> Result<Transcript, Error> {
        let decoding = Decoding { mode: Mode::Verify, ..decoding };
        let generation = self.begin(messages, vec![], decoding).await?;
        self.finish(generation.accepting(least_ratio)).await
    }

    async fn begin(
        &mut self,
        messages: &[Message],
        written: Vec<Token>,
        decoding: Decoding,
    ) -> Result<Generation, Error> {
        let Decoding { mode, router, policy, max_tokens } = decoding;
        // A router that watches is asked only where it could decide.
        let (mode, policy) = match mode {
            Mode::Small => (Mode::Joint, Threshold::NEVER.into()),
            mode => (mode, policy),
        };
        let tokens = if mode == Mode::Large { vec![] } else { self.tokens(messages).await? };
        let request = ResolvedRequest {
            mode,
            prompt: Prompt::Messages(messages.to_vec()),
            tokens,
            written,
            sampling: Sampling::default(),
            limits: Limits { max_tokens, stops: vec![] },
            router: NamedRouter::custom("watched", router),
            policy,
            on_error: self.on_cloud_error,
            alternatives: None,
            grammar: None,
            constraint: None,
            origin: Default::default(),
        };
        let lease = self.lease.take().ok_or_else(|| Error::internal("a worker lost its seat"))?;
        Ok(lease.begin(request).await?)
    }

    async fn finish(&mut self, mut generation: Generation) -> Result<Transcript, Error> {
        while generation.next().await?.is_some() {}
        let (lease, transcript) = generation.into_parts();
        self.lease = lease;
        Ok(transcript)
    }

    pub async fn close(&mut self) -> Result<(), Error> {
        self.cloud().await?.close().await;
        Ok(())
    }
}

/// Lets workers take one piece of work after another until none is left, and gives them back; the
/// first failure ends it.
pub(crate) async fn share_work<W, T, F, A>(
    workers: Vec<W>,
    work: Vec<T>,
    act: F,
) -> Result<Vec<W>, Error>
where
    W: Send + 'static,
    T: Clone + Send + Sync + 'static,
    F: Fn(W, T) -> A + Clone + Send + 'static,
    A: Future<Output = Result<W, Error>> + Send,
{
    let work: Arc<[T]> = work.into();
    let next = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for mut worker in workers {
        let (work, next, act) = (work.clone(), next.clone(), act.clone());
        running.spawn(async move {
            while let Some(piece) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                worker = act(worker, piece.clone()).await?;
            }
            Ok::<_, Error>(worker)
        });
    }
    let mut done = vec![];
    while let Some(worker) = running.join_next().await {
        done.push(worker.map_err(Error::internal)??);
    }
    Ok(done)
}
