//! Clouds elsewhere, as users meet them: `doctor`, failure policies, no network at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    io::Write,
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;

use crate::common::{Cloud, Done, SMALL, count, interrupt, run, slow_network::SlowNetwork, tandem};

const NOWHERE: &str = "http://127.0.0.1:9";

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn doctor_is_content_with_a_cloud_that_works() {
    let cloud = Cloud::start(&["--cloud-model", SMALL, "--key", "sesame", "--context", "1024"]);
    let with_key = ["doctor", "--cloud", &cloud.url, "--cloud-key", "sesame"];
    let report = run(&[&with_key[..], &["--json"]].concat()).json();
    assert_eq!(report["works"], true);
    for name in [
        "edge model",
        "router",
        "cloud",
        "tls",
        "vocabulary",
        "answer",
        "cache",
        "round trip",
        "joint decode",
    ] {
        assert_eq!(check(&report, name)["level"], "ok", "{report}");
    }
    assert!(check(&report, "vocabulary")["found"].as_str().unwrap().contains("ids"));
    let told = run(&with_key);
    assert_eq!(told.code, Some(0));
    assert!(told.out.ends_with("a joint decode works\n"), "{}", told.out);

    let denied = run(&["doctor", "--cloud", &cloud.url, "--json"]);
    assert_eq!(denied.code, Some(1));
    let report: Value = serde_json::from_str(&denied.out).unwrap();
    assert_eq!(report["works"], false);
    let refused = report["checks"].as_array().unwrap().iter().find(|c| c["level"] == "fail");
    assert!(refused.unwrap()["advice"].as_str().unwrap().contains("--cloud-key"), "{report}");
}

#[test]
fn doctor_says_what_to_do() {
    for (arguments, name, advice) in [
        (&["--cloud", NOWHERE][..], "cloud", "is it running"),
        (&["--edge-model", "/nowhere.gguf"], "edge model", "tandem pull"),
        (&["--cloud-model", "/nowhere.gguf"], "cloud", "tandem pull"),
        (&["--offline"], "cloud", "leave out --offline"),
    ] {
        let done = run(&[&["doctor", "--json"], arguments].concat());
        assert_eq!(done.code, Some(1), "{arguments:?}");
        let report: Value = serde_json::from_str(&done.out).unwrap();
        let failed = check(&report, name);
        assert_eq!(failed["level"], "fail");
        assert!(failed["advice"].as_str().unwrap().contains(advice), "{failed}");
    }
}

#[test]
fn offline_opens_no_socket_and_says_where_it_would_have_asked() {
    let guarded = |arguments: &[&str]| -> Done {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/no_sockets.py");
        let mut command = Command::new("python3");
        command.env("TANDEM_PAIR", "tiny");
        command.args([script, env!("CARGO_BIN_EXE_tandem")]).args(arguments);
        command.stdin(Stdio::null()).output().unwrap().into()
    };
    let base = ["run", "What is 2+2?", "--threshold", "1", "--max-tokens", "6", "--json"];
    let report = guarded(&[&base[..], &["--offline"]].concat()).json();
    assert_eq!(count(&report, "fallback"), report["tokens"].as_array().unwrap().len());
    assert!(report["cloud_error"].as_str().unwrap().contains("offline"), "{report}");
    // A cloud in the same process needs none either.
    assert_eq!(guarded(&base).code, Some(0));
    // The guard works: with a cloud elsewhere the program does not survive.
    assert_eq!(guarded(&[&base[..], &["--cloud", NOWHERE]].concat()).code, None);
}

#[test]
fn offline_and_a_cloud_exclude_each_other() {
    assert_eq!(run(&["run", "x", "--offline", "--cloud", NOWHERE]).code, Some(2));
    let done = run(&["run", "x", "--offline", "--mode", "large"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("--offline"), "{}", done.err);
}

#[test]
fn a_failure_can_be_fatal() {
    let base = ["run", "What is 2+2?", "--cloud", NOWHERE, "--max-tokens", "12", "--json"];
    let done = run(&[&base[..], &["--threshold", "1", "--on-cloud-error", "fail"]].concat());
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("cannot be reached"), "{}", done.err);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(report["finish_reason"], "error");
}

#[test]
fn a_text_can_wait_for_its_cloud() {
    // A port that is free, and will be taken by the cloud that comes late.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let url = format!("http://{listen}");
    let child = tandem(&[
        "run",
        "What is 2+2?",
        "--cloud",
        &url,
        "--threshold",
        "1",
        "--max-tokens",
        "5",
        "--json",
        "--on-cloud-error",
        "wait",
    ])
    .spawn()
    .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let late = tandem(&["cloud", "--cloud-model", SMALL, "--listen", &listen, "--context", "1024"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut late = Cloud { child: late, url };
    let done = Done::from(child.wait_with_output().unwrap());
    let report = done.json();
    assert_eq!(count(&report, "cloud"), report["tokens"].as_array().unwrap().len());
    assert!(done.err.contains("waiting for the cloud"), "{}", done.err);
    drop(late.child.kill());
}

#[test]
fn an_ask_has_a_deadline() {
    // Somebody who takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let report = run(&[
        "run",
        "What is 2+2?",
        "--cloud",
        &url,
        "--cloud-engine",
        "sglang",
        "--threshold",
        "1",
        "--max-tokens",
        "20",
        "--ask-deadline",
        "1s",
        "--json",
    ])
    .json();
    assert!(count(&report, "fallback") > 0);
    assert!(report["cloud_error"].as_str().unwrap().contains("did not answer"), "{report}");
    // One question is given up after ten seconds; the others do not wait for nothing again.
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
}

#[test]
fn a_pretended_network_shows_in_the_figures() {
    let cloud = Cloud::start(&["--cloud-model", SMALL, "--context", "1024"]);
    let base = ["run", "Tell me about the sea.", "--cloud", &cloud.url, "--threshold", "1"];
    // Every answer is waited for, so that all of its way is seen.
    let waiting =
        ["--max-tokens", "10", "--json", "--simulate-rtt", "80ms", "--asks-in-flight", "0"];
    let report = run(&[&base[..], &waiting].concat()).json();
    let (asks, network) = (&report["stats"]["asks"], &report["stats"]["network_ms"]);
    // Finding the cloud and opening it takes a round trip each, at least.
    let least = (asks.as_f64().unwrap() + 2.0) * 80.0;
    assert!((least..least + 800.0).contains(&network.as_f64().unwrap()), "{asks} {network}");
    assert_eq!(run(&[&base[..], &["--simulate-rtt", "fast"]].concat()).code, Some(2));
}

#[test]
fn a_mistaken_key_or_address_is_not_repeated() {
    let done = run(&["run", "x", "--cloud", "http://me:hunter2@host"]);
    assert_eq!(done.code, Some(2));
    assert!(!done.err.contains("hunter2") && done.err.contains("--cloud-key"), "{}", done.err);
    let arguments = ["run", "x", "--cloud", NOWHERE, "--mode", "large"];
    let done = tandem(&arguments).env("TANDEM_CLOUD_KEY", "hunter2\r").output().unwrap();
    let done = Done::from(done);
    assert_eq!(done.code, Some(2));
    assert!(!done.err.contains("hunter2") && done.err.contains("TANDEM_CLOUD_KEY"), "{}", done.err);
}

/// An empty key would leave a cloud open that looks locked.
#[test]
fn an_empty_key_is_wrong_usage() {
    for arguments in [
        &["cloud", "--key", "", "--listen", "127.0.0.1:0"][..],
        &["run", "x", "--cloud", NOWHERE, "--mode", "large", "--cloud-key", ""],
    ] {
        let done = run(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {}", done.err);
        assert!(done.err.contains("must not be empty"), "{}", done.err);
    }
    let cloud = tandem(&["cloud", "--listen", "127.0.0.1:0"]).env("TANDEM_CLOUD_KEY", "").output();
    assert_eq!(Done::from(cloud.unwrap()).code, Some(2));
}

#[test]
fn keys_are_never_told() {
    let cloud = Cloud::start(&["--cloud-model", SMALL, "--key", "hunter2", "--context", "1024"]);
    let base =
        ["-vv", "run", "Hi.", "--cloud", &cloud.url, "--threshold", "1", "--max-tokens", "3"];
    let done = tandem(&base).env("TANDEM_CLOUD_KEY", "hunter2").output().unwrap();
    let done = Done::from(done);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!done.err.contains("hunter2") && !done.out.contains("hunter2"));
    let help = tandem(&["run", "--help"]).env("TANDEM_CLOUD_KEY", "hunter2").output().unwrap();
    assert!(!Done::from(help).out.contains("hunter2"));
}

/// Both ends are this program: a certificate of one's own authority, and an edge that is told of it.
#[test]
fn a_cloud_with_a_certificate_is_asked_encrypted_and_only_by_who_trusts_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec!["localhost".into()]).unwrap();
    fs::write(file("cert.pem"), names.signed_by(&key, &authority).unwrap().pem()).unwrap();
    fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    fs::write(file("authority.pem"), authority.pem()).unwrap();

    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let encrypted = ["--tls-cert", &certificate, "--tls-key", &key];
    let usual = ["--cloud-model", SMALL, "--key", "sesame", "--context", "1024"];
    let cloud = Cloud::start(&[&usual[..], &encrypted].concat());
    let port = cloud.url.rsplit(':').next().unwrap();
    assert_eq!(cloud.url, format!("https://127.0.0.1:{port}"));
    let ask = |url: &str, trusted: &[&str]| {
        let asked = ["run", "Tell me about the sea.", "--cloud", url, "--cloud-key", "sesame"];
        let asked = [&asked[..], &["--threshold", "1", "--max-tokens", "4", "--json"], trusted];
        run(&asked.concat())
    };
    let (url, authority) = (format!("https://localhost:{port}"), file("authority.pem"));
    let done = ask(&url, &["--cloud-ca", &authority]);
    assert_eq!(count(&done.json(), "cloud"), 4, "{}", done.err);
    // Nobody vouches for it, or it has another name, or it is spoken to in plain words.
    let (renamed, plain) = (cloud.url.clone(), format!("http://localhost:{port}"));
    for (url, trusted) in [
        (&url, &[][..]),
        (&renamed, &["--cloud-ca", &authority]),
        (&plain, &["--cloud-ca", &authority]),
    ] {
        let report = ask(url, trusted).json();
        assert_eq!(count(&report, "cloud"), 0, "{url}: {report}");
        assert!(report["cloud_error"].is_string(), "{url}: {report}");
    }
}

/// Real delay on real connections, where `--simulate-rtt` only waits in the client.
#[test]
fn a_real_network_with_delay() {
    let cloud = Cloud::start(&["--cloud-model", SMALL, "--key", "k", "--context", "1024"]);
    let network = SlowNetwork::to(&cloud.url, Duration::from_millis(30));
    let base = ["run", "Tell me about the sea.", "--cloud", &network.url, "--cloud-key", "k"];
    let waiting = ["--threshold", "1", "--max-tokens", "20", "--json", "--asks-in-flight", "0"];
    let report = run(&[&base[..], &waiting].concat()).json();
    let stats = &report["stats"];
    let (asks, times) = (stats["asks"].as_f64().unwrap(), stats["network_ms"].as_f64().unwrap());
    assert!(asks >= 10.0 && count(&report, "fallback") == 0, "{report}");
    // 60 ms there and back, and little more: one connection is kept warm.
    let each = times / asks;
    assert!((60.0..110.0).contains(&each), "{each} ms an ask");
    // Finding out who answers opens a few at once.
    let connections = network.connections();
    assert!((connections as f64) < asks / 2.0, "{connections} connections for {asks} asks");
}

/// A request whose body never comes is waited for when the server stops, and for no longer than is allowed.
#[test]
fn a_cloud_that_stops_waits_for_what_is_under_way_as_long_as_it_may() {
    let mut cloud = Cloud::start(&["--cloud-model", SMALL, "--shutdown-limit", "1s"]);
    let address = cloud.url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{"
    );
    socket.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    interrupt(&cloud.child);
    assert_eq!(cloud.child.wait().unwrap().code(), Some(0));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(10), "{took:?}");
}
