//! The real models with something put around them: so that another edge or another cloud is driven by the
//! same library as everything else.

use std::sync::Arc;

use cloud::Clouds;
use decode::{Cloud, Edge, ThresholdPolicy, Token};
use engine::Sequence;
use tandem::{Error, Introduction, Models, Pair, Prompt, RouterRegistry, Tandem};

/// What is put around the models of a pair.
pub(super) trait Wrapping: Send + Sync + 'static {
    type Edge: Edge + 'static;
    type Cloud: Cloud + 'static;

    fn edge(&self, edge: Sequence) -> Self::Edge;

    fn cloud(&self, cloud: Clouds) -> Self::Cloud;

    /// The real cloud within, if that is what is asked.
    fn inner(cloud: &mut Self::Cloud) -> Option<&mut Clouds>;

    /// Prepares a cloud for the text that has this prompt.
    fn begin(&self, _cloud: &mut Self::Cloud, _prompt: &[Token]) {}

    /// How many asks may be on their way; `None` asks for a token at a time and waits for it.
    fn asks_in_flight(&self) -> Option<usize> {
        None
    }
}

/// The models of a pair, so wrapped.
pub(super) struct Wrapped<W> {
    models: Arc<Models>,
    wrapping: W,
}

/// The same models and router, so wrapped, for one text at a time.
pub(super) fn wrap<W: Wrapping>(
    tandem: &Tandem,
    wrapping: W,
    policy: ThresholdPolicy,
) -> Tandem<Wrapped<W>> {
    let models = tandem.pair().clone();
    let routers = RouterRegistry::new(tandem.routers().own().clone(), policy);
    Tandem::new(Wrapped { models, wrapping }, routers, tandem.defaults().clone(), (1, 0))
}

impl<W: Wrapping> Pair for Wrapped<W> {
    type Edge = W::Edge;
    type Cloud = W::Cloud;

    fn has_cloud(&self) -> bool {
        self.models.has_cloud()
    }

    fn context(&self) -> usize {
        self.models.context()
    }

    fn tokens(&self, prompt: &Prompt) -> Result<Vec<Token>, Error> {
        self.models.tokens(prompt)
    }

    async fn load_edge(&self) -> Result<(), Error> {
        self.models.load_edge().await
    }

    fn has_edge(&self) -> bool {
        self.models.has_edge()
    }

    async fn open_edge(&self) -> Result<W::Edge, Error> {
        Ok(self.wrapping.edge(self.models.open_edge().await?))
    }

    fn asks_in_flight(&self) -> usize {
        self.wrapping.asks_in_flight().unwrap_or(0)
    }

    fn branches(&self) -> usize {
        self.wrapping.asks_in_flight().map_or(0, |_| self.models.branches())
    }

    fn ask_tokens(&self) -> usize {
        self.wrapping.asks_in_flight().map_or(1, |_| self.models.ask_tokens())
    }

    fn judges_asks(&self) -> bool {
        self.wrapping.asks_in_flight().is_some() && self.models.judges_asks()
    }

    async fn open_cloud(&self) -> Result<W::Cloud, Error> {
        Ok(self.wrapping.cloud(self.models.open_cloud().await?))
    }

    fn introduce(&self, cloud: &mut W::Cloud, to: Introduction<'_>) -> Result<(), Error> {
        self.wrapping.begin(cloud, to.edge.unwrap_or_default());
        W::inner(cloud).map_or(Ok(()), |cloud| self.models.introduce(cloud, to))
    }

    async fn close(&self, cloud: &mut W::Cloud) {
        if let Some(cloud) = W::inner(cloud) {
            self.models.close(cloud).await;
        }
    }
}
