//! Keys in the header that Anthropic's clients use.

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::Response,
};

/// `x-api-key: KEY` is the same as `Authorization: Bearer KEY`.
pub async fn translate(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    if !headers.contains_key(header::AUTHORIZATION)
        && let Some(key) = headers.get("x-api-key").and_then(|key| key.to_str().ok())
        && let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {key}"))
    {
        bearer.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, bearer);
    }
    next.run(request).await
}
