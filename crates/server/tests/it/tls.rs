//! The servers with a certificate.

use std::{fs, time::Duration};

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::{Certificate, Client};
use tandem::Tandem;
use tandem_server::{
    edge::{Server, app},
    listen::{ServerLimits, listen_with},
    tls::Tls,
};
use tokio::net::{TcpListener, TcpStream};

use crate::scripted::{Scripted, config, defaults, routers};

#[tokio::test]
async fn a_server_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let certificate = names.signed_by(&key, &authority).unwrap();
    fs::write(file("cert.pem"), certificate.pem()).unwrap();
    fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    let tls = Tls::read(&file("cert.pem"), &file("key.pem")).unwrap();

    let tandem = Tandem::new(Scripted::default(), routers(0.5), defaults(), (2, 2));
    let server = Server::new(tandem, config()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let limits = ServerLimits { headers: Duration::from_secs(5), ..ServerLimits::default() };
    let never = std::future::pending();
    tokio::spawn(listen_with(listener, Some(tls), app(&server), limits, never));

    cloud::http::provide_cryptography();
    let trusted = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    let client = Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    // Somebody who never shakes hands keeps nobody else waiting.
    let _silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let health = client.get(format!("https://localhost:{port}/health")).send().await.unwrap();
    assert_eq!(health.status(), 200);
    let plain = client.get(format!("http://localhost:{port}/health")).send().await;
    assert!(plain.is_err());
    let stranger = Client::builder().no_proxy().build().unwrap();
    assert!(stranger.get(format!("https://localhost:{port}/health")).send().await.is_err());
}

#[test]
fn files_that_are_no_pair_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let params = || CertificateParams::new(vec!["localhost".into()]).unwrap();
    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    fs::write(file("cert.pem"), params().self_signed(&one).unwrap().pem()).unwrap();
    fs::write(file("other.pem"), other.serialize_pem()).unwrap();
    fs::write(file("empty.pem"), "").unwrap();
    for (certificate, key) in [
        ("none.pem", "other.pem"),
        ("empty.pem", "other.pem"),
        ("cert.pem", "none.pem"),
        ("cert.pem", "empty.pem"),
        ("cert.pem", "other.pem"),
    ] {
        let error = Tls::read(&file(certificate), &file(key)).err().unwrap().to_string();
        let wrong = if certificate == "cert.pem" { key } else { certificate };
        assert!(error.contains(wrong), "{error}");
    }
}
