//! `GET /openapi.json`: what this server takes and gives.

use axum::{http::header, response::IntoResponse};

/// Written by hand beside the code; a test holds it to the routes.
pub const DOCUMENT: &str = include_str!("../openapi.json");

/// The document.
pub async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}
