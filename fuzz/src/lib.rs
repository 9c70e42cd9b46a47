//! What the targets share.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use tower::ServiceExt;

/// A folder for this process' files. `scripts/fuzz.sh` puts it into memory and removes it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("tandem-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        folder
    })
}

/// A file in that folder with these bytes.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("room for a small file");
    path
}

/// Sends a body to a route of a server, and returns the status and the answer.
///
/// What is asked may be served, refused, or too much to wait for, in JSON or as events; it is never a failure
/// of ours.
pub async fn post(app: &Router, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let request = Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Body::from(body.to_vec()))
        .expect("a request");
    let response = app.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = response.status().as_u16();
    let answer = to_bytes(response.into_body(), usize::MAX).await.expect("a whole answer");
    let shown = String::from_utf8_lossy(&answer);
    assert!(status == 200 || (400..=431).contains(&status), "{path}: {status} {shown}");
    assert!(
        status == 200 || serde_json::from_slice::<serde_json::Value>(&answer).is_ok(),
        "{path}: {status} {shown}"
    );
    (status, answer.to_vec())
}
