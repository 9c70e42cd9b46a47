//! Encryption: a certificate and its key from files.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Speaks TLS with whoever connects.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why a server cannot encrypt.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("the certificate {} and the key {} cannot be used: {source}", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        #[source]
        source: rustls::Error,
    },
}

impl Tls {
    /// Reads a certificate, with those of its authorities behind it, and its key: both PEM.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: pem::Error| {
                let reason = match error {
                    pem::Error::NoItemsFound => "it holds no such PEM block".into(),
                    other => other.to_string(),
                };
                TlsError::File { path, reason }
            }
        };
        let chain = CertificateDer::pem_file_iter(certificate).map_err(failed(certificate))?;
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(failed(certificate))?;
        if chain.is_empty() {
            return Err(failed(certificate)(pem::Error::NoItemsFound));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(failed(key))?;
        let wrong = |source| TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(wrong)?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Makes a connection an encrypted one, by the handshake of TLS.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        self.0.accept(stream).await
    }
}
