//! Several edges and clouds at work side by side, on one model each.

use cloud::Remote;
use decode::{
    Limits, Message, Plan, Relay, Router, Routing, Sampling, Session, ThresholdPolicy, Transcript,
};
use engine::{LoadOptions, Model, Sequence};
use tandem::{Builder, Introduction, Models, NamedRouter, Pair, Prompt, Tandem};

/// The models, loaded for several conversations at once.
pub struct Workers {
    tandem: Tandem,
    edge: Model,
    options: LoadOptions,
}

/// One of several: a sequence of the edge, and a cloud of its own.
pub struct Worker {
    pub edge: Sequence,
    pub remote: Remote,
    models: std::sync::Arc<Models>,
}

impl Workers {
    /// Loads the edge, and the cloud if one is wanted, for this many workers.
    pub async fn new(builder: Builder, workers: usize) -> anyhow::Result<Self> {
        let tandem = builder.seats(workers).build()?;
        let edge = tandem.pair().edge().await?.clone();
        let options = tandem.pair().edge_options()?;
        Ok(Self { tandem, edge, options })
    }

    /// The edge's model.
    pub fn edge(&self) -> &Model {
        &self.edge
    }

    /// How the edge was loaded.
    pub fn edge_options(&self) -> &LoadOptions {
        &self.options
    }

    /// Who judges where nobody chose.
    pub fn router(&self) -> &NamedRouter {
        self.tandem.routers().own()
    }

    /// How strictly.
    pub fn policy(&self) -> &ThresholdPolicy {
        self.tandem.routers().policy()
    }

    /// What people call the cloud.
    pub fn cloud_name(&self) -> anyhow::Result<String> {
        Ok(self.tandem.pair().cloud_name()?)
    }

    /// Which cloud it is: name and hash of the model here, or the address of another.
    pub fn cloud_description(&self) -> anyhow::Result<String> {
        Ok(self.tandem.pair().cloud_description()?)
    }

    /// One more worker.
    pub async fn worker(&self) -> anyhow::Result<Worker> {
        let models = self.tandem.pair().clone();
        let (edge, remote) = (models.open_edge().await?, models.open_cloud().await?);
        Ok(Worker { edge, remote, models })
    }
}

/// How a worker decodes.
pub enum Way<'a> {
    /// The edge alone, watched by a router that decides nothing.
    Small(&'a dyn Router),
    /// Both.
    Joint(&'a dyn Router, ThresholdPolicy),
    /// The cloud alone.
    Large,
}

impl Worker {
    /// Tells the cloud which conversation comes next. What it has read of the same one stays read.
    pub fn introduce(&mut self, messages: &[Message], alone: bool) -> anyhow::Result<()> {
        let prompt = Prompt::Messages(messages.to_vec());
        let edge = if alone { None } else { Some(self.models.tokens(&prompt)?) };
        let on_error = decode::OnCloudError::Fail;
        let to = Introduction { prompt: &prompt, edge: edge.as_deref(), on_error };
        Ok(self.models.introduce(&mut self.remote, to)?)
    }

    /// Carries an answer on to its end; greedy.
    pub async fn decode(
        &mut self,
        messages: &[Message],
        written: Vec<decode::Token>,
        way: Way<'_>,
        max_tokens: usize,
    ) -> anyhow::Result<Transcript> {
        let limits = Limits { max_tokens, stops: vec![] };
        let sampling = Sampling::default();
        if let Way::Large = way {
            self.introduce(messages, true)?;
            let mut relay = Relay::new(&mut self.remote, sampling, limits);
            while relay.next().await?.is_some() {}
            return Ok(relay.into_transcript());
        }
        let prompt = self.edge.model().vocabulary().prompt(messages)?;
        let (router, policy) = match way {
            Way::Joint(router, policy) => {
                self.introduce(messages, false)?;
                (router, policy)
            }
            Way::Small(router) => (router, decode::Threshold::NEVER.into()),
            Way::Large => anyhow::bail!("the cloud alone needs no edge"),
        };
        let on_error = decode::OnCloudError::Fail;
        let routing = Routing { router, policy, cloud: &mut self.remote, on_error };
        let plan = Plan { prompt, written, sampling, limits };
        let mut session = Session::new(&mut self.edge, Some(routing), plan)?;
        while session.next().await?.is_some() {}
        Ok(session.into_transcript())
    }
}
