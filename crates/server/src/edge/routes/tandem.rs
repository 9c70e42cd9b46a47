//! `GET /v1/tandem`: what the page needs to know. No addresses, no paths, no keys.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::KeyErrors;
use ::tandem::{CloudState, Pair, summary::plain};

use crate::edge::{Server, config::CloudLocation, pairs::ServedPair};

#[derive(Debug, Serialize, ToSchema)]
pub struct ServerDescription {
    version: &'static str,
    /// The server's own pair.
    #[serde(flatten)]
    own: PairDescription,
    /// All pairs that requests may name: the server's own, then the further ones.
    pairs: Vec<NamedPair>,
}

/// A pair, with what the names of its models begin with.
#[derive(Debug, Serialize, ToSchema)]
struct NamedPair {
    name: String,
    #[serde(flatten)]
    pair: PairDescription,
}

/// Both models of a pair, and how they work together.
#[derive(Debug, Serialize, ToSchema)]
struct PairDescription {
    edge: EdgeDescription,
    cloud: CloudDescription,
    /// Whether the large model can be asked at this moment; null where there is none, or nobody asked yet.
    #[schema(required = true)]
    cloud_state: Option<CloudState>,
    router: RouterDescription,
    /// Routers a request may name.
    routers: Vec<String>,
    /// For those that are calibrated, pairs of a share of tokens and the threshold that asks for it.
    tables: BTreeMap<String, Vec<Vec<f64>>>,
    policy: DefaultPolicy,
    #[schema(required = true)]
    preset: Option<String>,
    limits: LimitsDescription,
}

#[derive(Debug, Serialize, ToSchema)]
struct EdgeDescription {
    name: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct CloudDescription {
    /// Null where it is not known here.
    #[schema(required = true)]
    name: Option<String>,
    place: CloudLocation,
}

#[derive(Debug, Serialize, ToSchema)]
struct RouterDescription {
    name: String,
    trained: bool,
}

/// When the cloud is asked, where a request does not say.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum DefaultPolicy {
    /// Near this share of tokens.
    Budget(f64),
    /// Where trust is below this.
    Threshold(f64),
}

#[derive(Debug, Serialize, ToSchema)]
struct LimitsDescription {
    /// Tokens a conversation may have.
    context: usize,
    /// Tokens of an answer, where a request does not say.
    max_tokens: usize,
}

/// Models, routers and limits of this server
#[utoipa::path(
    get,
    path = "/v1/tandem",
    responses((status = 200, description = "As it was started", body = ServerDescription), KeyErrors)
)]
pub async fn tandem<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<ServerDescription> {
    let named = |pair: &ServedPair<P>| NamedPair { name: pair.name.clone(), pair: described(pair) };
    Json(ServerDescription {
        version: env!("CARGO_PKG_VERSION"),
        own: described(server.pairs.own()),
        pairs: server.pairs.iter().map(named).collect(),
    })
}

fn described<P: Pair>(pair: &ServedPair<P>) -> PairDescription {
    let ServedPair { tandem, about, .. } = pair;
    let (models, routers) = (tandem.pair(), tandem.routers());
    let own = routers.own();
    PairDescription {
        edge: EdgeDescription { name: about.edge.clone() },
        cloud: CloudDescription { name: about.cloud.clone(), place: about.location },
        cloud_state: models.cloud_state(),
        router: RouterDescription { name: own.name().to_owned(), trained: own.is_trained() },
        routers: routers.names(),
        tables: routers
            .tables()
            .map(|(name, table)| {
                let point = |&(share, threshold): &(f32, f32)| vec![plain(share), plain(threshold)];
                (name.to_owned(), table.iter().map(point).collect())
            })
            .collect(),
        policy: match routers.policy().current_budget() {
            Some(budget) => DefaultPolicy::Budget(plain(budget.share())),
            None => DefaultPolicy::Threshold(plain(routers.policy().threshold().value())),
        },
        preset: about.preset.clone(),
        limits: LimitsDescription {
            context: models.context(),
            max_tokens: tandem.defaults().limits.max_tokens,
        },
    }
}
