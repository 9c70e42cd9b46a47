//! Bodies of requests at the cloud server's routes, up to the answer: with a model of one tiny layer, without a
//! socket. The first byte is the route.
#![no_main]

#[path = "../../crates/engine/tests/it/gguf/mod.rs"]
mod gguf;

use std::sync::OnceLock;

use axum::{Router, body::Body, http::Request};
use engine::{Compute, LoadOptions};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use server::cloud::{Config, LazyModel, app};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

fn server() -> &'static (Runtime, Router) {
    static SERVER: OnceLock<(Runtime, Router)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let path = fuzz::folder().join("model.gguf");
        gguf::model(&path, "default");
        let options = LoadOptions { sequences: 3, cells: 768, ..LoadOptions::new(&path, 256, 1) };
        let model = LazyModel::new(Compute::start().expect("a compute thread"), options);
        (runtime, app(model, Config::default()))
    })
}

/// The session that an answer names.
fn session(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    Some(answer.get("session")?.as_str()?.to_owned())
}

async fn close(app: &Router, session: &str) {
    let path = format!("/v1/sessions/{session}");
    let request = Request::delete(path).header("host", "localhost").body(Body::empty());
    let response = app.clone().oneshot(request.expect("a request")).await;
    assert_eq!(response.map(|response| response.status().as_u16()), Ok(204));
}

async fn try_out(app: &Router, route: u8, body: &[u8]) {
    if route % 3 == 0 {
        let (_, answer) = fuzz::post(app, "/v1/sessions", body).await;
        if let Some(session) = session(&answer) {
            close(app, &session).await;
        }
        return;
    }
    // Where text travels and where ids do.
    let open: &[u8] = match route % 2 {
        0 => br#"{"prompt": {"text": "ab 7"}, "vocabulary": "another"}"#,
        _ => br#"{"prompt": {"text": "ab 7"}}"#,
    };
    let (_, answer) = fuzz::post(app, "/v1/sessions", open).await;
    let session = session(&answer).expect("a session");
    let what = if route % 3 == 1 { "next" } else { "score" };
    fuzz::post(app, &format!("/v1/sessions/{session}/{what}"), body).await;
    // Whatever that was, the session is still there.
    close(app, &session).await;
}

fuzz_target!(|bytes: &[u8]| {
    let Some((route, body)) = bytes.split_first() else { return };
    let (runtime, app) = server();
    runtime.block_on(try_out(app, route.wrapping_sub(b'0'), body));
});
