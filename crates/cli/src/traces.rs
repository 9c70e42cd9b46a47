//! Traces of requests, sent to a collector that speaks OTLP over HTTP.
//!
//! A trace has the spans `request`, `step` and `ask`: where the time of a request went, and which of it was the
//! cloud's. What is written stays here: spans tell numbers and positions, and no text.

use std::time::Duration;

use anyhow::Context;
use cloud::Address;
use opentelemetry::{global, trace::TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use reqwest::{blocking::Client, redirect};
use tracing_subscriber::{Layer, Registry, filter::filter_fn};

use crate::config::UsageError;

/// Where collectors take traces, behind the address that they are known by.
const ROUTE: &str = "/v1/traces";

/// The spans that are sent; others tell what is too small to be looked at in a trace.
const SPANS: [&str; 3] = ["request", "step", "ask"];

/// How long a collector may take for one batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends spans until it is dropped, and then those that are left.
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Sends to the collector at this address, as the service of this name unless `OTEL_SERVICE_NAME` says
    /// another.
    pub fn to(address: &str, service: &str) -> anyhow::Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| UsageError(format!("--otel-endpoint: {error}"));
        let address = address.parse::<Address>().map_err(|error| wrong(&error))?;
        cloud::http::provide_cryptography();
        let mut client =
            Client::builder().timeout(EXPORT_TIMEOUT).redirect(redirect::Policy::none());
        if address.is_loopback() {
            client = client.no_proxy();
        }
        let client = client.build().context("no client for --otel-endpoint")?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(format!("{address}{ROUTE}"))
            .build()
            .map_err(|error| wrong(&error))?;
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
        let resource = Resource::builder();
        let resource =
            if named { resource } else { resource.with_service_name(service.to_owned()) };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Self { provider })
    }

    /// What notices spans.
    pub fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let tracer = self.provider.tracer("tandem");
        let layer =
            tracing_opentelemetry::layer::<Registry>().with_tracer(tracer).with_location(false);
        layer.with_threads(false).with_filter(filter_fn(|metadata| {
            let ours = metadata.target().starts_with("tandem");
            metadata.is_span() && ours && SPANS.contains(&metadata.name())
        }))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "some traces could not be sent");
        }
    }
}
