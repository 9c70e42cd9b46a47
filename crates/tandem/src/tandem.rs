//! The pair of models with its router, ready to generate.

use std::sync::Arc;

use cloud::RequestOrigin;
use decode::{Constraint, Limits, Message, OnCloudError, Role, Sampling, SessionError, Token};
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    Admission, Answer, Builder, Error, Generation, Grammar, Lease, Mode, Models, Owner, Pair,
    Prompt, Request, ResolvedRequest, RouterRegistry,
    builder::{MOST_ALTERNATIVES, MOST_TOKENS, within},
    pool::Pool,
};

/// The options of requests that leave them open.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Which models write.
    pub mode: Mode,
    /// Sampling parameters; the seed is used only if `seeded`.
    pub sampling: Sampling,
    /// Whether all texts have the same seed. Otherwise each gets a random one.
    pub seeded: bool,
    /// Where a text ends at the latest.
    pub limits: Limits,
    /// The system message for conversations without one.
    pub system: String,
    /// What to do when the cloud fails in the middle of a text.
    pub on_error: OnCloudError,
}

/// A small model on this device, a large one in the cloud, and a router between them.
///
/// Clones share the models. It generates as many texts at the same time as it has seats; further
/// requests wait.
pub struct Tandem<P: Pair = Models> {
    shared: Arc<Shared<P>>,
}

/// Prompts that are tokenized at the same time. It takes a core each, which the models need too.
const MOST_TOKENIZING: usize = 2;

/// Grammars that are compiled at the same time, for the same reason.
const MOST_COMPILING: usize = 2;

struct Shared<P: Pair> {
    pool: Arc<Pool<P>>,
    tokenizing: Arc<Semaphore>,
    compiling: Arc<Semaphore>,
    routers: RouterRegistry,
    defaults: Defaults,
}

impl<P: Pair> Clone for Tandem<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl Tandem {
    /// Starts with the defaults of all options.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<P: Pair> Tandem<P> {
    /// Uses any pair of models: `seats` texts at the same time, and `queue` requests may wait.
    pub fn new(
        pair: P,
        routers: RouterRegistry,
        defaults: Defaults,
        (seats, queue): (usize, usize),
    ) -> Self {
        let pool = Arc::new(Pool::new(pair, seats, queue));
        let tokenizing = Arc::new(Semaphore::new(MOST_TOKENIZING));
        let compiling = Arc::new(Semaphore::new(MOST_COMPILING));
        Self { shared: Arc::new(Shared { pool, tokenizing, compiling, routers, defaults }) }
    }

    /// Both models, for what is about them and not about a text: names, vocabularies, templates.
    pub fn pair(&self) -> &Arc<P> {
        self.shared.pool.pair()
    }

    /// The pair's router, and those that requests may name instead.
    pub fn routers(&self) -> &RouterRegistry {
        &self.shared.routers
    }

    /// The options of requests that leave them open.
    pub fn defaults(&self) -> &Defaults {
        &self.shared.defaults
    }

    /// The number of texts that are being generated.
    pub fn running(&self) -> usize {
        self.shared.pool.running()
    }

    /// The number of requests that wait for a seat.
    pub fn waiting(&self) -> usize {
        self.shared.pool.waiting()
    }

    /// Loads the small model and opens every seat's sequence, so that no request waits for that.
    pub async fn load(&self) -> Result<(), Error> {
        self.shared.pool.open_edges().await
    }

    /// Starts a text. Mistakes that are found before the first token are errors here.
    pub async fn generate(&self, request: impl Into<Request>) -> Result<Generation<P>, Error> {
        let admission = self.admit().await?;
        let request = self.resolve(request.into()).await?;
        let lease = admission.lease(request.mode, &request.tokens, Owner::default());
        lease.await?.begin(request).await
    }

    /// Generates a text to its end.
    pub async fn answer(&self, request: impl Into<Request>) -> Result<Answer, Error> {
        self.generate(request).await?.finish().await
    }

    /// Decides the options that a request leaves open, and checks them. Loads the small model if the
    /// mode needs it.
    pub async fn resolve(&self, mut request: Request) -> Result<ResolvedRequest, Error> {
        let defaults = &self.shared.defaults;
        let mode = request.mode.unwrap_or(defaults.mode);
        if !self.shared.routers.allows(mode) {
            let reason = format!("mode {mode} keeps to no share of tokens from the cloud");
            return Err(Error::Usage(format!("{reason}, and this pair has a largest one")));
        }
        let most = request.limits.as_ref().map(|limits| limits.max_tokens);
        within("max_tokens", most, 1..=MOST_TOKENS)?;
        within("alternatives", request.alternatives, 0..=MOST_ALTERNATIVES)?;
        let (router, policy) = self.shared.routers.choose(&request.routing)?;
        let sampling = request.sampling.unwrap_or_else(|| self.usual_sampling()).validate()?;
        add_system(&mut request.prompt, &defaults.system);
        let constraint = match &request.grammar {
            Some(grammar) => Some(self.constraint(grammar).await?),
            None => None,
        };
        let tokens = self.tokens(mode, &request.prompt).await?;
        Ok(ResolvedRequest {
            mode,
            prompt: request.prompt,
            tokens,
            written: vec![],
            sampling,
            limits: request.limits.unwrap_or_else(|| defaults.limits.clone()),
            router,
            policy,
            on_error: request.on_error.unwrap_or(defaults.on_error),
            alternatives: request.alternatives,
            grammar: request.grammar,
            constraint,
            origin: RequestOrigin::default(),
        })
    }

    /// How tokens are chosen where a request does not say, with the seed it gets.
    pub fn usual_sampling(&self) -> Sampling {
        let Defaults { sampling, seeded, .. } = self.shared.defaults;
        let seed = if seeded { sampling.seed } else { random_seed() };
        Sampling { seed, ..sampling }
    }

    /// The prompt in the edge's tokens; empty if the mode needs no edge and none is loaded. Fails if
    /// the prompt does not fit the context.
    pub async fn tokens(&self, mode: Mode, prompt: &Prompt) -> Result<Vec<Token>, Error> {
        let pair = self.pair();
        match mode {
            Mode::Large if !pair.has_cloud() => return Err(Error::NoCloud("mode large")),
            Mode::Verify if !pair.has_cloud() => return Err(Error::NoCloud("mode verify")),
            _ => {}
        }
        if mode != Mode::Large {
            pair.load_edge().await?;
        } else if !pair.has_edge() {
            return Ok(vec![]);
        }
        self.check_size(prompt)?;
        let permit = self.shared.tokenizing.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Error::Stopping)?;
        // Tokenizing a long prompt takes so long that it would delay other tasks of this thread. It
        // keeps its permit to its end, also where nobody waits for it any more.
        let (there, prompt) = (pair.clone(), prompt.clone());
        let work = move || {
            let tokens = there.tokens(&prompt);
            drop(permit);
            tokens
        };
        let tokens = spawn_blocking(work).await.map_err(|e| Error::Internal(e.to_string()))??;
        if tokens.is_empty() {
            return Err(SessionError::EmptyPrompt.into());
        }
        if mode != Mode::Large && tokens.len() >= pair.context() {
            let (tokens, context) = (tokens.len(), pair.context());
            return Err(SessionError::PromptTooLong { tokens, context }.into());
        }
        Ok(tokens)
    }

    /// Refuses a prompt that cannot fit the context, whatever its tokens are. That costs nothing, so
    /// it is asked before anything is done for a prompt.
    pub fn check_size(&self, prompt: &Prompt) -> Result<(), Error> {
        let context = self.pair().context();
        let (parts, bytes) = match prompt {
            Prompt::Messages(messages) => {
                (messages.len(), messages.iter().map(|m| m.content.len()).sum())
            }
            Prompt::Text(text) => (1, text.len()),
            Prompt::Tokens(tokens) => (tokens.len(), 0),
        };
        // Each message and each id is a token at least, and no token is longer than the longest.
        let longest = if bytes > context { self.pair().longest_token() } else { usize::MAX };
        let tokens = parts.max(bytes.div_ceil(longest));
        match tokens > context {
            true => Err(Error::PromptTooLarge { tokens, context }),
            false => Ok(()),
        }
    }

    /// Waits for a free seat, in the order of requests.
    pub async fn admit(&self) -> Result<Admission<P>, Error> {
        self.shared.pool.admit().await
    }

    /// Waits until a model cannot be used any more, and says why.
    pub async fn failure(&self) -> String {
        self.pair().failure().await
    }

    /// What holds a text to a grammar. Loads the small model, whose tokens it speaks of, in every mode.
    pub async fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, Error> {
        let pair = self.pair();
        pair.load_edge().await?;
        let permit = self.shared.compiling.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Error::Stopping)?;
        // A large grammar takes so long that it would delay other tasks of this thread. It keeps its
        // permit to its end, also where nobody waits for it any more.
        let (there, grammar) = (pair.clone(), grammar.clone());
        let work = move || {
            let made = there.constraint(&grammar);
            drop(permit);
            made
        };
        let made = spawn_blocking(work).await;
        made.map_err(|e| Error::Internal(e.to_string()))?
    }

    /// Takes the free seat whose cache has most of this prompt, to generate several texts on it or to
    /// use the models directly.
    pub async fn lease(&self, mode: Mode, prompt: &[Token]) -> Result<Lease<P>, Error> {
        self.admit().await?.lease(mode, prompt, Owner::default()).await
    }

    /// Empties the caches of all free seats, on both sides.
    pub async fn forget(&self) {
        self.shared.pool.forget().await;
    }

    /// Starts no new text, and closes the sessions at the cloud.
    pub async fn close(&self) {
        self.shared.pool.close().await;
    }
}

/// Adds the pair's system message to conversations without one, because the models' own defaults
/// differ.
fn add_system(prompt: &mut Prompt, system: &str) {
    if let Prompt::Messages(messages) = prompt
        && messages.first().is_none_or(|message| message.role != Role::System)
    {
        messages.insert(0, Message::system(system));
    }
}

/// A random seed of 32 bits, short enough to be typed again.
pub fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("seed") >> 32
}
