//! `GET /`: the page and its files, inside the program.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::edge::error::ApiError;

/// Everything in `page/`, by name; made by the build script.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page itself.
pub async fn page() -> Response {
    serve("index.html")
}

/// One of its files.
pub async fn file(Path(name): Path<String>) -> Response {
    serve(&name)
}

fn serve(name: &str) -> Response {
    let Some((name, text)) = FILES.iter().find(|(n, _)| *n == name) else {
        let message = "there is nothing at this address";
        return ApiError::new(StatusCode::NOT_FOUND, message).into_response();
    };
    let kind = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    };
    // A new version of the program brings a new page.
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (headers, *text).into_response()
}
