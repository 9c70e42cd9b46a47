//! `GET /v1/tandem`: what the page needs to know. No addresses, no paths, no keys.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::KeyErrors;
use ::tandem::{CloudState, Pair, summary::plain};

use crate::edge::{Server, config::CloudLocation};

#[derive(Debug, Serialize, ToSchema)]
pub struct ServerDescription {
    version: &'static str,
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

/// Models, router and limits of this server
#[utoipa::path(
    get,
    path = "/v1/tandem",
    responses((status = 200, description = "As it was started", body = ServerDescription), KeyErrors)
)]
pub async fn tandem<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<ServerDescription> {
    let (config, routers) = (&server.config, server.tandem.routers());
    let (own, about) = (routers.own(), &config.about);
    Json(ServerDescription {
        version: env!("CARGO_PKG_VERSION"),
        edge: EdgeDescription { name: about.edge.clone() },
        cloud: CloudDescription { name: about.cloud.clone(), place: about.location },
        cloud_state: server.tandem.pair().cloud_state(),
        router: RouterDescription { name: own.name().to_owned(), trained: own.is_trained() },
        routers: routers.names(),
        tables: routers
            .tables()
            .map(|(name, table)| {
                let pair = |&(share, threshold): &(f32, f32)| vec![plain(share), plain(threshold)];
                (name.to_owned(), table.iter().map(pair).collect())
            })
            .collect(),
        policy: match routers.policy().current_budget() {
            Some(budget) => DefaultPolicy::Budget(plain(budget.share())),
            None => DefaultPolicy::Threshold(plain(routers.policy().threshold().value())),
        },
        preset: about.preset.clone(),
        limits: LimitsDescription {
            context: server.tandem.pair().context(),
            max_tokens: server.tandem.defaults().limits.max_tokens,
        },
    })
}
