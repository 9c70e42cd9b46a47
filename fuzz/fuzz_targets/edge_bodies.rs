//! Bodies of requests at the edge server's routes, up to the answer: over scripted models, without a socket.
//! The first byte is the route.
#![no_main]

extern crate server as tandem_server;

#[path = "../../crates/server/tests/it/scripted/mod.rs"]
mod scripted;

use std::sync::OnceLock;

use axum::Router;
use libfuzzer_sys::fuzz_target;
use scripted::{Scripted, config, defaults, routers};
use tandem::Tandem;
use tandem_server::edge::{Server, app};
use tokio::runtime::{Builder, Runtime};

const ROUTES: [&str; 10] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/api/chat",
    "/api/generate",
    "/api/show",
    "/v1/embeddings",
    "/api/embed",
];

fn server() -> &'static (Runtime, Router) {
    static SERVER: OnceLock<(Runtime, Router)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let tandem = Tandem::new(Scripted::default(), routers(0.5), defaults(), (2, 16));
        let server = runtime.block_on(Server::new(tandem, config())).expect("a server");
        let app = app(&server);
        (runtime, app)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((route, body)) = bytes.split_first() else { return };
    let path = ROUTES[usize::from(route.wrapping_sub(b'0')) % ROUTES.len()];
    let (runtime, app) = server();
    runtime.block_on(fuzz::post(app, path, body));
});
