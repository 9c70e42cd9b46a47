//! Certificates are verified, always.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use decode::Cloud;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tandem_cloud::{Address, Endpoint, Engine, Opening, Remote, Settings, protocol::Prompt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// A server with a certificate for these names, and the authority that vouches for it.
async fn start(names: &[&str]) -> (u16, Vec<u8>) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = [0; 8192];
                while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {
                    let body = r#"{"data":[{"id":"x"}]}"#;
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                    let reply = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                    drop(stream.write_all(reply.as_bytes()).await);
                }
            });
        }
    });
    (port, authority.pem().into_bytes())
}

async fn meet(address: &str, authority: Option<Vec<u8>>) -> Result<(), String> {
    let address: Address = address.parse().unwrap();
    let settings = Settings {
        engine: Some(Engine::OpenAi),
        deadline: Duration::from_secs(3),
        ..Settings::new(Endpoint { address, key: None, authority })
    };
    let remote = Remote::new(settings, Opening::alone(Prompt::Text("x".into())));
    let mut remote = remote.map_err(|e| e.to_string())?;
    remote.open().await.map(drop).map_err(|e| e.to_string())
}

#[tokio::test]
async fn only_who_is_vouched_for_is_spoken_to() {
    let (port, authority) = start(&["localhost"]).await;
    let here = format!("https://localhost:{port}");
    assert_eq!(meet(&here, Some(authority.clone())).await, Ok(()));

    let stranger = meet(&here, None).await.unwrap_err();
    assert!(stranger.contains("certificate"), "{stranger}");

    // Vouched for, but under another name.
    let other = meet(&format!("https://127.0.0.1:{port}"), Some(authority)).await.unwrap_err();
    assert!(other.contains("certificate"), "{other}");

    let (_, wrong) = start(&["localhost"]).await;
    let error = meet(&here, Some(wrong)).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_certificate_is_named() {
    let error = meet("https://localhost:1", Some(b"hello".to_vec())).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
}
