//! `GET /v1/tandem`: what the page needs to know. No addresses, no paths, no keys.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use ::tandem::{Pair, summary::plain};

use crate::edge::Server;

/// Which models, which router, how strict.
pub async fn tandem<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<Value> {
    let (config, judges) = (&server.config, server.tandem.routers());
    let bar = match judges.policy().current_budget() {
        Some(budget) => json!({ "budget": plain(budget.share()) }),
        None => json!({ "threshold": plain(judges.policy().threshold().value()) }),
    };
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "edge": { "name": config.about.edge },
        "cloud": { "name": config.about.cloud, "place": config.about.place },
        "router": { "name": judges.own().name(), "trained": judges.own().is_trained() },
        "routers": judges.names(),
        "bar": bar,
        "preset": config.about.preset,
        "limits": {
            "context": server.tandem.pair().context(),
            "max_tokens": server.tandem.defaults().limits.max_tokens,
        },
    }))
}
