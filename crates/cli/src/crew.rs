//! Several edges and clouds at work side by side, on one model each.

use std::sync::Arc;

use anyhow::Context;
use cloud::{Opening, Remote, Settings, protocol::Prompt};
use decode::{
    Limits, Message, Plan, Relay, Router, Routing, Sampling, Session, ThresholdPolicy, Transcript,
};
use engine::{Compute, LoadOptions, Model, Sequence};

use crate::{
    args::{CloudModelArgs, EdgeArgs, MachineArgs},
    config::{self, Store},
    pair::{edge_side, embed, rendered, warn_of_plain_key},
};

/// The models, loaded for several conversations at once.
pub struct Workers {
    edge: Model,
    options: LoadOptions,
    cloud: Option<Clouds>,
}

/// Where the clouds of all workers are.
struct Clouds {
    settings: Settings,
    name: String,
    /// How it was loaded, if it is in this process.
    here: Option<LoadOptions>,
    /// The chat template the user named for it.
    template: Option<Arc<str>>,
}

/// One of several: a sequence of the edge, and a cloud of its own.
pub struct Worker {
    pub edge: Sequence,
    pub remote: Remote,
    template: Option<Arc<str>>,
}

impl Workers {
    /// Loads the edge, and the cloud if one is wanted, for this many workers.
    pub async fn new(
        edge: &EdgeArgs,
        cloud: Option<&CloudModelArgs>,
        machine: &MachineArgs,
        workers: usize,
    ) -> anyhow::Result<Self> {
        let store = Store::open(None)?;
        let many = |options: LoadOptions| LoadOptions {
            sequences: workers,
            cells: options.context * workers,
            ..options
        };
        let options = many(config::edge_options(&store, edge, machine)?);
        let compute = Compute::start().context("no compute thread")?;
        let model = Model::load(&compute, options.clone()).await?;
        let cloud = match cloud {
            None => None,
            Some(args) => {
                let (settings, name, here) = match config::address(&args.place)? {
                    Some(address) => {
                        warn_of_plain_key(args, &address);
                        let name = address.to_string();
                        (config::cloud_settings(args, address)?, name, None)
                    }
                    None => {
                        let options = many(config::cloud_options(&store, args, machine)?);
                        options.check()?;
                        let settings = embed(&compute, options.clone(), args, true)?;
                        (settings, options.name(), Some(options))
                    }
                };
                let template = config::cloud_template(&args.place)?.map(Arc::from);
                Some(Clouds { settings, name, here, template })
            }
        };
        Ok(Self { edge: model, options, cloud })
    }

    /// The edge's model.
    pub fn edge(&self) -> &Model {
        &self.edge
    }

    /// How the edge was loaded.
    pub fn edge_options(&self) -> &LoadOptions {
        &self.options
    }

    /// How the cloud is reached, if there is one.
    pub fn cloud_settings(&self) -> Option<&Settings> {
        self.cloud.as_ref().map(|cloud| &cloud.settings)
    }

    /// What people call the cloud.
    pub fn cloud_name(&self) -> &str {
        self.cloud.as_ref().map_or("none", |cloud| &cloud.name)
    }

    /// Which cloud it is: name and hash of the model here, or the address of another.
    pub fn cloud_description(&self) -> anyhow::Result<String> {
        Ok(match &self.cloud {
            Some(Clouds { name, here: Some(options), .. }) => {
                format!("{name} {}", options.fingerprint()?)
            }
            Some(Clouds { name, .. }) => name.clone(),
            None => "none".into(),
        })
    }

    /// One more worker.
    pub async fn worker(&self) -> anyhow::Result<Worker> {
        let opening = Opening::alone(Prompt::Messages(vec![]));
        let remote = match &self.cloud {
            Some(cloud) => Remote::new(cloud.settings.clone(), opening)?,
            None => Remote::offline(opening),
        };
        let template = self.cloud.as_ref().and_then(|cloud| cloud.template.clone());
        Ok(Worker { edge: self.edge.open().await?, remote, template })
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
        let edge = (!alone).then(|| edge_side(self.edge.model(), messages)).transpose()?;
        let rendered = self.template.as_deref().map(|t| rendered(t, messages)).transpose()?;
        let prompt = Prompt::Messages(messages.to_vec());
        self.remote.reopen(Opening { prompt, edge, rendered });
        Ok(())
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
