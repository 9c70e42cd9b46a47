//! `GET /`: the page and its files, inside the program.

use axum::{
    extract::Path,
    http::header,
    response::{IntoResponse, Response},
};

use super::openapi::OpenErrors;
use crate::http::error::not_found;

/// Everything in `page/`, by name; made by the build script.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page
#[utoipa::path(
    get,
    path = "/",
    responses(
        (status = 200, description = "To chat on", body = String, content_type = "text/html"),
        OpenErrors
    ),
    security(())
)]
pub async fn page() -> Response {
    serve("index.html")
}

/// Files of the page
#[utoipa::path(
    get,
    path = "/{file}",
    params(("file" = String, Path, description = "The file's name")),
    responses(
        (
            status = 200,
            description = "One of them",
            content(
                (String = "text/javascript"),
                (String = "text/css"),
                (String = "image/svg+xml")
            )
        ),
        (status = 404, description = "No such file", body = crate::http::error::ErrorResponse),
        OpenErrors
    ),
    security(())
)]
pub async fn file(Path(name): Path<String>) -> Response {
    serve(&name)
}

fn serve(name: &str) -> Response {
    let Some((name, text)) = FILES.iter().find(|(n, _)| *n == name) else {
        return not_found().into_response();
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
