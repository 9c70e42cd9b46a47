//! A pair that is ready to write.

use std::sync::Arc;

use decode::{Limits, Message, OnCloudError, Role, Sampling, SessionError, Token};
use tokio::task::spawn_blocking;

use crate::{
    Answer, Builder, Error, Generation, Lease, Mode, Models, Pair, Prompt, Request,
    ResolvedRequest, RouterRegistry, pool::Pool,
};

/// What a request that says nothing gets.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Who writes.
    pub mode: Mode,
    /// How tokens are chosen; its seed is used only if `seeded`.
    pub sampling: Sampling,
    /// Whether every text has the same seed. Otherwise each draws its own.
    pub seeded: bool,
    /// When to end.
    pub limits: Limits,
    /// The system message of conversations that have none.
    pub system: String,
    /// What a failure of the cloud means.
    pub on_error: OnCloudError,
}

/// A small model on this device, a large one in the cloud, and a router between them.
///
/// Clones share the models. As many texts as it has seats are made at once; the next ones wait.
pub struct Tandem<P: Pair = Models> {
    shared: Arc<Shared<P>>,
}

struct Shared<P: Pair> {
    pool: Arc<Pool<P>>,
    routers: RouterRegistry,
    defaults: Defaults,
}

impl<P: Pair> Clone for Tandem<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl Tandem {
    /// Says what it is made of; see [`Builder`].
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<P: Pair> Tandem<P> {
    /// Any pair: as many texts at once as `seats`, as many requests waiting as `queue`.
    pub fn new(
        pair: P,
        routers: RouterRegistry,
        defaults: Defaults,
        (seats, queue): (usize, usize),
    ) -> Self {
        let pool = Arc::new(Pool::new(pair, seats, queue));
        Self { shared: Arc::new(Shared { pool, routers, defaults }) }
    }

    /// The models.
    pub fn pair(&self) -> &Arc<P> {
        self.shared.pool.pair()
    }

    /// Who judges, and whom requests may name instead.
    pub fn routers(&self) -> &RouterRegistry {
        &self.shared.routers
    }

    /// What a request that says nothing gets.
    pub fn defaults(&self) -> &Defaults {
        &self.shared.defaults
    }

    /// Texts that are being made.
    pub fn running(&self) -> usize {
        self.shared.pool.running()
    }

    /// Requests that wait for a seat.
    pub fn waiting(&self) -> usize {
        self.shared.pool.waiting()
    }

    /// Loads the small model and opens every seat's sequence, so that no request waits for that.
    pub async fn load(&self) -> Result<(), Error> {
        self.shared.pool.open_edges().await
    }

    /// Begins a text. Mistakes that show before the first token are errors here.
    pub async fn generate(&self, request: impl Into<Request>) -> Result<Generation<P>, Error> {
        let request = self.resolve(request.into()).await?;
        self.lease(request.mode, &request.tokens).await?.begin(request).await
    }

    /// A text, from its first token to its last.
    pub async fn answer(&self, request: impl Into<Request>) -> Result<Answer, Error> {
        self.generate(request).await?.finish().await
    }

    /// Fills in what a request left open, and finds its mistakes. Loads the small model if it has a
    /// part in it.
    pub async fn resolve(&self, request: Request) -> Result<ResolvedRequest, Error> {
        let defaults = &self.shared.defaults;
        let mode = request.mode.unwrap_or(defaults.mode);
        let (router, policy) = self.shared.routers.choose(&request.routing)?;
        let sampling = request.sampling.unwrap_or_else(|| self.usual_sampling()).validate()?;
        let prompt = with_system(request.prompt, &defaults.system);
        let tokens = self.tokens(mode, &prompt).await?;
        Ok(ResolvedRequest {
            mode,
            prompt,
            tokens,
            written: vec![],
            sampling,
            limits: request.limits.unwrap_or_else(|| defaults.limits.clone()),
            router,
            policy,
            on_error: request.on_error.unwrap_or(defaults.on_error),
            alternatives: request.alternatives,
        })
    }

    /// How tokens are chosen where a request does not say, with the seed it gets.
    pub fn usual_sampling(&self) -> Sampling {
        let Defaults { sampling, seeded, .. } = self.shared.defaults;
        let seed = if seeded { sampling.seed } else { random_seed() };
        Sampling { seed, ..sampling }
    }

    /// A prompt in the edge's tokens, if the edge has a part in the text or is loaded anyway; it
    /// must fit.
    pub async fn tokens(&self, mode: Mode, prompt: &Prompt) -> Result<Vec<Token>, Error> {
        let pair = self.pair();
        if mode == Mode::Large && !pair.has_cloud() {
            return Err(Error::NoCloud("mode large"));
        }
        if mode != Mode::Large {
            pair.load_edge().await?;
        } else if !pair.has_edge() {
            return Ok(vec![]);
        }
        // A long prompt takes its time, in which others want to be heard.
        let (there, prompt) = (pair.clone(), prompt.clone());
        let tokens = spawn_blocking(move || there.tokens(&prompt)).await;
        let tokens = tokens.map_err(|e| Error::Internal(e.to_string()))??;
        if tokens.is_empty() {
            return Err(SessionError::EmptyPrompt.into());
        }
        if mode != Mode::Large && tokens.len() >= pair.context() {
            let (tokens, context) = (tokens.len(), pair.context());
            return Err(SessionError::PromptTooLong { tokens, context }.into());
        }
        Ok(tokens)
    }

    /// A seat, for whoever makes several texts on one or works with the models themselves: the free
    /// one that remembers most of this prompt.
    pub async fn lease(&self, mode: Mode, prompt: &[Token]) -> Result<Lease<P>, Error> {
        self.shared.pool.take(prompt, mode).await
    }

    /// Forgets every conversation that is not being written, on both sides.
    pub async fn forget(&self) {
        self.shared.pool.forget().await;
    }

    /// Lets no new text begin, and says goodbye to the cloud.
    pub async fn close(&self) {
        self.shared.pool.close().await;
    }
}

/// Conversations without a system message get the pair's: the models' own defaults differ.
fn with_system(prompt: Prompt, system: &str) -> Prompt {
    match prompt {
        Prompt::Messages(mut messages)
            if messages.first().is_none_or(|m| m.role != Role::System) =>
        {
            messages.insert(0, Message::system(system));
            Prompt::Messages(messages)
        }
        other => other,
    }
}

/// Small enough to be typed again.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("seed") >> 32
}
