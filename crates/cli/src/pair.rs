//! The two models, each loaded when it is first needed.

use anyhow::Context;
use cloud::{Address, Opening, Remote, protocol::Prompt};
use decode::{Message, Plan, Relay, Routing, Session, Vocabulary};
use engine::{Compute, LoadOptions, Model, Sequence};
use serve::cloud::{Config, LazyModel, app, run};
use tokio::net::TcpListener;

use crate::{
    args::{GenerateArgs, Mode},
    config::{self, Generate, Store},
    generation::Generation,
};

/// Where the cloud is, or how to have one.
enum CloudPlace {
    Elsewhere { address: Address, key: Option<String> },
    Here { options: anyhow::Result<LoadOptions> },
}

/// An edge and a cloud.
pub struct Pair {
    compute: Compute,
    edge_options: anyhow::Result<LoadOptions>,
    place: CloudPlace,
    edge: Option<Sequence>,
    remote: Option<Remote>,
}

impl Pair {
    /// Nothing is loaded yet, and a missing model is a failure only when it is needed.
    pub fn new(args: &GenerateArgs) -> anyhow::Result<Self> {
        let store = Store::open(None)?;
        let place = match &args.cloud.cloud {
            Some(address) => CloudPlace::Elsewhere {
                address: address.clone(),
                key: args.cloud.cloud_key.clone(),
            },
            None => CloudPlace::Here {
                options: config::cloud_options(&store, &args.cloud, &args.machine),
            },
        };
        Ok(Self {
            compute: Compute::start().context("no compute thread")?,
            edge_options: config::edge_options(&store, &args.edge, &args.machine),
            place,
            edge: None,
            remote: None,
        })
    }

    /// Loads what a mode needs at once: the edge, and of the cloud only its address.
    pub async fn prepare(&mut self, mode: Mode) -> anyhow::Result<()> {
        if mode != Mode::Large && self.edge.is_none() {
            let options = taken(&self.edge_options)?;
            self.edge = Some(Model::load(&self.compute, options).await?.open().await?);
        }
        if mode != Mode::Small && self.remote.is_none() {
            let (address, key) = match &self.place {
                CloudPlace::Elsewhere { address, key } => (address.clone(), key.clone()),
                CloudPlace::Here { options } => {
                    let (options, key) = (taken(options)?, key());
                    // It is loaded later; a file that is no model should not wait till then.
                    options.check()?;
                    let address = embed(&self.compute, options, key.clone(), true).await?;
                    (address, Some(key))
                }
            };
            let opening = Opening { prompt: Prompt::Messages(vec![]), vocabulary: None };
            self.remote = Some(Remote::new(address, key, opening)?);
        }
        Ok(())
    }

    /// Begins a text behind these messages. What either side still has of an earlier one is not
    /// read again.
    pub async fn begin(
        &mut self,
        generate: &Generate,
        messages: &[Message],
    ) -> anyhow::Result<Generation<'_>> {
        self.prepare(generate.mode).await?;
        let (sampling, limits) = (generate.sampling, generate.limits.clone());
        let vocabulary = match (generate.mode, &self.edge) {
            (Mode::Large, _) | (_, None) => None,
            (_, Some(edge)) => Some(edge.model().vocabulary().fingerprint()),
        };
        if let Some(remote) = &mut self.remote {
            remote.reopen(Opening { prompt: Prompt::Messages(messages.to_vec()), vocabulary });
        }
        match (generate.mode, &mut self.edge, &mut self.remote) {
            (Mode::Large, _, Some(remote)) => {
                Ok(Generation::Large(Relay::new(remote, sampling, limits)))
            }
            (Mode::Small | Mode::Joint, Some(edge), remote) => {
                let prompt = edge.model().vocabulary().prompt(messages)?;
                let routing =
                    remote.as_mut().filter(|_| generate.mode == Mode::Joint).map(|cloud| {
                        let router = generate.router.build(sampling.seed);
                        Routing { router, threshold: generate.threshold, cloud }
                    });
                let plan = Plan { prompt, sampling, limits };
                Ok(Generation::Edge(Session::new(edge, routing, plan)?))
            }
            _ => anyhow::bail!("the models of this mode are not loaded"),
        }
    }

    /// Forgets every conversation, on both sides.
    pub async fn forget(&mut self) {
        self.close().await;
        if let Some(edge) = &mut self.edge {
            edge.truncate(0);
        }
    }

    /// Says goodbye to the cloud.
    pub async fn close(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.close().await;
        }
    }
}

/// Options that were resolved earlier; their error is kept for when it matters.
fn taken(options: &anyhow::Result<LoadOptions>) -> anyhow::Result<LoadOptions> {
    options.as_ref().cloned().map_err(|e| anyhow::anyhow!("{e:#}"))
}

/// Starts a cloud inside this process. It speaks over loopback as any other, and its model is
/// loaded by the first session.
pub async fn embed(
    compute: &Compute,
    options: LoadOptions,
    key: String,
    reuse: bool,
) -> anyhow::Result<Address> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("no port on loopback")?;
    let address = format!("http://{}", listener.local_addr()?);
    let config = Config { key: Some(key), reuse };
    let app = app(LazyModel::new(compute.clone(), options), config);
    tokio::spawn(run(listener, app, std::future::pending()));
    Ok(address.parse()?)
}

/// Others on this machine can reach loopback too.
pub fn key() -> String {
    use std::hash::{BuildHasher, RandomState};
    (0..4).map(|i| format!("{:016x}", RandomState::new().hash_one(i))).collect()
}
