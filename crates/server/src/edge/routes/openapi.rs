//! `GET /openapi.json`: what this server takes and gives, made from the types that do it.

use std::{collections::BTreeMap, marker::PhantomData, sync::LazyLock};

use axum::{http::header, response::IntoResponse};
use utoipa::{
    IntoResponses, Modify, OpenApi, ToSchema,
    openapi::{
        Content, OpenApi as Document, Ref, RefOr, Response,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{chat, completions, health, metrics, models, page, tandem};
use crate::{
    edge::apis::{
        anthropic::{self, wire::MessagesError},
        embeddings,
        ollama::{self, wire::OllamaError},
        responses,
    },
    http::error::ErrorResponse,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tandem",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        description = "OpenAI's API over a small model on this device and a large one in the cloud, \
            and Anthropic's and Ollama's over the same. A model's name is a mode. Parameters that would change the answer and are not listed \
            here are refused with status 400; harmless ones (user, metadata, store, service_tier, \
            parallel_tool_calls and the like) are ignored. Null is the same as absent."
    ),
    paths(
        chat::chat,
        completions::completions,
        responses::responses,
        embeddings::embeddings,
        anthropic::messages,
        anthropic::count_tokens,
        ollama::chat,
        ollama::generate,
        ollama::models::tags,
        ollama::models::ps,
        ollama::models::show,
        ollama::models::version,
        embeddings::embed,
        embeddings::old_embeddings,
        models::models,
        models::model,
        tandem::tandem,
        metrics::metrics,
        health::health,
        health::ready,
        openapi,
        page::page,
        page::file,
    ),
    components(schemas(ErrorResponse, MessagesError, OllamaError)),
    security(("key" = []), ()),
    modifiers(&Keys)
)]
struct Described;

/// Says how keys travel.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses((status = 200, description = "OpenAPI 3.1", body = Object), OpenErrors),
    security(())
)]
pub async fn openapi() -> impl IntoResponse {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| Described::openapi().to_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

fn errors<T: ToSchema>(errors: &[(u16, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let response = |&(status, description): &(u16, &str)| {
        let schema = Ref::from_schema_name(T::name());
        let content = RefOr::T(Content::new(Some(schema)));
        let mut response = Response::new(description);
        response.content.insert("application/json".into(), content);
        (status.to_string(), RefOr::T(response))
    };
    errors.iter().map(response).collect()
}

const WRONG_HOST: (u16, &str) = (403, "Another host's name, where only this machine is let in");
const NO_KEY: (u16, &str) = (401, "No valid key");

/// What routes without a key answer instead. `T` is the shape of errors here, as below.
pub struct OpenErrors<T = ErrorResponse>(PhantomData<T>);

impl<T: ToSchema> IntoResponses for OpenErrors<T> {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors::<T>(&[WRONG_HOST])
    }
}

/// What routes behind a key answer instead.
pub struct KeyErrors<T = ErrorResponse>(PhantomData<T>);

impl<T: ToSchema> IntoResponses for KeyErrors<T> {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors::<T>(&[NO_KEY, WRONG_HOST])
    }
}

/// What routes answer that only say why there is nothing here.
pub struct Refused<T>(PhantomData<T>);

impl<T: ToSchema> IntoResponses for Refused<T> {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors::<T>(&[(400, "Always"), NO_KEY, WRONG_HOST])
    }
}

/// What requests for texts are answered instead.
pub struct GenerationErrors<T = ErrorResponse>(PhantomData<T>);

impl<T: ToSchema> IntoResponses for GenerationErrors<T> {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        errors::<T>(&[
            (400, "A mistake in the request, which names the field by its full path"),
            NO_KEY,
            (403, "What the operator does not allow, or another host's name"),
            (404, "No such model"),
            (408, "The body came too slowly"),
            (413, "The body is too large"),
            (415, "Not application/json"),
            (429, "The key has no requests or tokens of the cloud left for now; see Retry-After"),
            (500, "A model failed"),
            (502, "The cloud failed"),
            (
                503,
                "Too many requests wait, the server stops, or the cloud is down; see Retry-After",
            ),
            (504, "The answer took too long"),
        ])
    }
}
