//! The two models, each loaded when it is first needed.

use std::sync::Arc;

use anyhow::Context;
use cloud::{
    Address, EdgeSide, Opening, Remote, Service, ServiceConfig, Settings,
    protocol::{EdgeModel, Prompt},
    service::LazyModel,
};
use decode::{Message, Plan, Relay, Routing, Session};
use engine::{Compute, LoadOptions, Model, Sequence, template};

use crate::{
    args::{CloudModelArgs, EdgeArgs, MachineArgs, Mode},
    config::{self, Generate, Store},
    generation::Generation,
    show::say,
};

/// Where the cloud is, or how to have one.
enum CloudPlace {
    Nowhere,
    Elsewhere(Box<Settings>),
    Here { options: anyhow::Result<LoadOptions>, args: Box<CloudModelArgs> },
}

/// An edge and a cloud.
pub struct Pair {
    compute: Compute,
    edge_options: anyhow::Result<LoadOptions>,
    place: CloudPlace,
    /// The chat template the user named for the cloud.
    template: Option<String>,
    edge: Option<Sequence>,
    remote: Option<Remote>,
    sharing: Sharing,
}

/// Whether a cloud that collects is offered what the edge sees.
enum Sharing {
    Off,
    Wanted,
    /// The remote has been told whose states they are.
    Offered,
}

impl Pair {
    /// Nothing is loaded yet, and a missing model is a failure only when it is needed.
    pub fn new(
        edge: &EdgeArgs,
        cloud: &CloudModelArgs,
        machine: &MachineArgs,
    ) -> anyhow::Result<Self> {
        let store = Store::open(None)?;
        let place = match config::address(&cloud.place)? {
            _ if cloud.place.offline => CloudPlace::Nowhere,
            Some(address) => {
                warn_of_plain_key(cloud, &address);
                CloudPlace::Elsewhere(Box::new(config::cloud_settings(cloud, address)?))
            }
            None => CloudPlace::Here {
                options: config::cloud_options(&store, cloud, machine),
                args: Box::new(cloud.clone()),
            },
        };
        Ok(Self {
            compute: Compute::start().context("no compute thread")?,
            edge_options: config::edge_options(&store, edge, machine),
            place,
            template: config::cloud_template(&cloud.place)?,
            edge: None,
            remote: None,
            sharing: Sharing::Off,
        })
    }

    /// Offers what the edge sees to a cloud that collects, if that is wanted.
    pub fn sharing(mut self, wanted: bool) -> Self {
        self.sharing = if wanted { Sharing::Wanted } else { Sharing::Off };
        self
    }

    /// Loads what a mode needs at once: the edge, and of the cloud only its address.
    pub async fn prepare(&mut self, mode: Mode) -> anyhow::Result<()> {
        if mode != Mode::Large && self.edge.is_none() {
            let options = taken(&self.edge_options)?;
            self.edge = Some(Model::load(&self.compute, options).await?.open().await?);
        }
        if mode != Mode::Small && self.remote.is_none() {
            let opening = Opening::alone(Prompt::Messages(vec![]));
            self.remote = Some(match &self.place {
                CloudPlace::Nowhere => Remote::offline(opening),
                CloudPlace::Elsewhere(settings) => Remote::new(settings.as_ref().clone(), opening)?,
                CloudPlace::Here { options, args } => {
                    let options = taken(options)?;
                    // It is loaded later; a file that is no model should not wait till then.
                    options.check()?;
                    Remote::new(embed(&self.compute, options, args, true)?, opening)?
                }
            });
        }
        Ok(())
    }

    /// The edge, once it is loaded.
    pub fn edge(&self) -> Option<&Sequence> {
        self.edge.as_ref()
    }

    /// A cloud that has been told of this conversation, and the edge it writes with.
    pub fn introduce(&mut self, mode: Mode, messages: &[Message]) -> anyhow::Result<&mut Remote> {
        let edge = self.edge.as_ref().filter(|_| mode != Mode::Large);
        let edge = edge.map(|edge| edge_side(edge.model(), messages)).transpose()?;
        let rendered = self.template.as_deref().map(|t| rendered(t, messages)).transpose()?;
        let remote = self.remote.as_mut().context("the cloud was not prepared")?;
        if let (Sharing::Wanted, Some(edge)) = (&self.sharing, &self.edge) {
            remote.share(edge_model(&taken(&self.edge_options)?, edge.model())?);
            self.sharing = Sharing::Offered;
        }
        remote.reopen(Opening { prompt: Prompt::Messages(messages.to_vec()), edge, rendered });
        Ok(remote)
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
        if generate.mode != Mode::Small {
            self.introduce(generate.mode, messages)?;
        }
        match (generate.mode, &mut self.edge, &mut self.remote) {
            (Mode::Large, _, Some(remote)) => {
                Ok(Generation::Large(Relay::new(remote, sampling, limits)))
            }
            (Mode::Small | Mode::Joint, Some(edge), remote) => {
                let prompt = edge.model().vocabulary().prompt(messages)?;
                let routing =
                    remote.as_mut().filter(|_| generate.mode == Mode::Joint).map(|cloud| Routing {
                        router: generate.judge.build(sampling.seed),
                        policy: generate.policy.clone(),
                        cloud,
                        on_error: generate.on_cloud_error,
                    });
                let plan = Plan { prompt, written: vec![], sampling, limits };
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

/// A conversation in the template the user named for the cloud.
pub fn rendered(template: &str, messages: &[Message]) -> anyhow::Result<String> {
    let parts = template::render(template, &template::Specials::default(), messages);
    parts.map(|parts| template::joined(&parts)).context("--cloud-template")
}

/// Says so where a key would travel unencrypted.
pub fn warn_of_plain_key(cloud: &CloudModelArgs, address: &Address) {
    if cloud.place.cloud_key.is_some() && !address.is_encrypted() && !address.is_loopback() {
        say(&format!("warning: the key travels to {address} for all to read"));
    }
}

/// Options that were resolved earlier; their error is kept for when it matters.
fn taken(options: &anyhow::Result<LoadOptions>) -> anyhow::Result<LoadOptions> {
    options.as_ref().cloned().map_err(|e| anyhow::anyhow!("{e:#}"))
}

/// Whose states are shared. Reads the model's files from end to end.
pub fn edge_model(options: &LoadOptions, edge: &Model) -> anyhow::Result<EdgeModel> {
    let (name, fingerprint) = (options.name(), options.fingerprint()?);
    Ok(EdgeModel { name, fingerprint, hidden: edge.hidden_len() })
}

/// What an edge tells a cloud of itself.
pub fn edge_side(edge: &Model, messages: &[Message]) -> anyhow::Result<EdgeSide> {
    Ok(server::edge::models::edge_side(edge, edge.vocabulary().prompt(messages)?))
}

/// A cloud inside this process. Its model is loaded by the first session, and its memory is free
/// again when the last of these settings and of the clouds made from them is gone.
pub fn embed(
    compute: &Compute,
    options: LoadOptions,
    args: &CloudModelArgs,
    reuse: bool,
) -> anyhow::Result<Settings> {
    let config = ServiceConfig { reuse, ..ServiceConfig::default() };
    let service = Service::new(LazyModel::new(compute.clone(), options), config);
    Ok(Settings {
        deadline: args.place.ask_deadline,
        on_error: config::on_error(&args.place),
        delay: config::delay(&args.place)?,
        ..Settings::in_process(Arc::new(service))
    })
}
