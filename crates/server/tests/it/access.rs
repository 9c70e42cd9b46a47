//! Who may come in, what browsers are told, and callers who mean no good.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tandem_server::{
    edge::{Config, Cors},
    http::{BodyLimits, Keys},
    listen::ServerLimits,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::scripted::{Running, Scripted, config, start, start_with, user};

const CHAT: &str = "/v1/chat/completions";

/// Sends bytes as they are; the status of what comes back, if anything does.
async fn raw(server: &Running, bytes: &[u8]) -> Option<u16> {
    let mut socket = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    // The server may hang up while we still write.
    drop(socket.write_all(bytes).await);
    let mut answer = vec![];
    let read = socket.read_to_end(&mut answer);
    drop(tokio::time::timeout(Duration::from_secs(10), read).await);
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn keys() {
    let config = Config { keys: Keys::new(["sesame", "second"]).unwrap(), ..config() };
    let server = start(Scripted::default(), config).await;
    let with = async |path: &str, key: &str| {
        let url = format!("{}{path}", server.url);
        server.client.get(url).bearer_auth(key).send().await.unwrap().status().as_u16()
    };
    for path in ["/v1/models", "/v1/tandem", "/metrics"] {
        let refused = server.get(path).await;
        assert_eq!(refused.status(), 401, "{path}");
        assert_eq!(refused.headers()["www-authenticate"], "Bearer");
        let error: Value = refused.json().await.unwrap();
        assert_eq!(error["error"]["code"], "invalid_api_key");
        assert_eq!(with(path, "wrong").await, 401);
        assert_eq!(with(path, "sesame").await, 200);
        assert_eq!(with(path, "second").await, 200);
    }
    assert_eq!(server.refused(CHAT, &json!({ "messages": user("x") })).await.0, 401);
    // The page asks for the key itself.
    for path in ["/", "/health", "/openapi.json"] {
        assert_eq!(server.get(path).await.status(), 200, "{path}");
    }
    let text = server.client.get(format!("{}/v1/tandem", server.url)).bearer_auth("sesame");
    let text = text.send().await.unwrap().text().await.unwrap();
    assert!(!text.contains("sesame") && !text.contains("second"));
}

#[tokio::test]
async fn another_hosts_name_is_refused_where_only_this_machine_is_let_in() {
    let server = start(Scripted::default(), config()).await;
    let as_host = async |server: &Running, host: &str| {
        let request = server.client.get(format!("{}/v1/models", server.url)).header("host", host);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(as_host(&server, "evil.example").await, 403);
    assert_eq!(as_host(&server, "localhost:8080").await, 200);
    let open = start(Scripted::default(), Config { loopback: false, ..config() }).await;
    assert_eq!(as_host(&open, "my-server.example").await, 200);
}

#[tokio::test]
async fn pages_of_others_are_let_in_only_where_they_are_named() {
    let preflight = async |server: &Running, origin: &str| {
        let url = format!("{}{CHAT}", server.url);
        let request = server.client.request(reqwest::Method::OPTIONS, url);
        let request = request.header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let answer = request.send().await.unwrap();
        answer.headers().get("access-control-allow-origin").map(|v| v.to_str().unwrap().to_owned())
    };
    let off = start(Scripted::default(), config()).await;
    assert_eq!(preflight(&off, "https://a.example").await, None);
    let origins = Cors::Origins(vec!["https://a.example".parse().unwrap()]);
    let some = start(Scripted::default(), Config { cors: origins, ..config() }).await;
    assert_eq!(preflight(&some, "https://a.example").await.unwrap(), "https://a.example");
    assert_eq!(preflight(&some, "https://b.example").await, None);
    // A form or a script without leave cannot send JSON.
    let form = off.client.post(format!("{}{CHAT}", off.url)).body("{\"messages\":[]}");
    assert_eq!(form.header("content-type", "text/plain").send().await.unwrap().status(), 415);
}

#[tokio::test]
async fn browsers_are_told_to_be_careful() {
    let server = start(Scripted::default(), config()).await;
    for path in ["/", "/v1/models", "/nowhere"] {
        let answer = server.get(path).await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-content-type-options"), "nosniff");
        let policy = header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let page = server.get("/").await;
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
}

#[tokio::test]
async fn a_host_that_is_no_text_is_another() {
    let server = start(Scripted::default(), config()).await;
    for (host, status) in [(&b"evil\xe9.example"[..], 403), (b"\xff", 403), (b"localhost", 200)] {
        let start = b"GET /v1/models HTTP/1.1\r\nConnection: close\r\nHost: ";
        let head = [&start[..], host, b"\r\n\r\n"].concat();
        assert_eq!(raw(&server, &head).await, Some(status), "{host:?}");
    }
}

#[tokio::test]
async fn every_kind_of_nonsense_has_its_status() {
    let server = start(Scripted::default(), config()).await;
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000));
    let long = format!("{{\"messages\":\"{}\"}}", "x".repeat(10 << 20));
    let mut invalid = b"{\"messages\":[{\"role\":\"user\",\"content\":\"".to_vec();
    invalid.extend([0xff, 0xfe, 0x80]);
    invalid.extend(b"\"}]}");
    for (name, body, status) in [
        ("nothing", &b""[..], 400),
        ("half an object", b"{\"messages\":", 400),
        ("no object", b"[1,2,3]", 400),
        ("a number", b"7", 400),
        ("no JSON", b"hello", 400),
        ("two keys the same", b"{\"n\":1,\"n\":\"x\",\"messages\":[]}", 400),
        ("a number too large", b"{\"messages\":[],\"seed\":1e400}", 400),
        ("deep nesting", deep.as_bytes(), 400),
        ("not UTF-8", &invalid, 400),
        ("ten megabytes", long.as_bytes(), 413),
    ] {
        assert_eq!(raw(&server, &post(body)).await, Some(status), "{name}");
    }
    assert_eq!(server.get("/v1/nothing").await.status(), 404);
    assert_eq!(server.get("/../../etc/passwd").await.status(), 404);
    assert_eq!(server.get("/%2e%2e%2fCargo.toml").await.status(), 404);
    assert_eq!(server.get(CHAT).await.status(), 405);
    assert_eq!(server.post("/v1/models", &json!({})).await.status(), 405);
    // Every error has the same shape.
    for path in ["/v1/nothing", CHAT] {
        let error: Value = server.get(path).await.json().await.unwrap();
        assert!(error["error"]["message"].is_string(), "{error}");
    }
    // A header flood, many and large.
    let many: String = (0..5000).map(|i| format!("X-{i}: y\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "y".repeat(1 << 20));
    for headers in [many, large] {
        let request = format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        assert_eq!(raw(&server, request.as_bytes()).await, Some(431));
    }
    assert_eq!(raw(&server, b"\x16\x03\x01 not http at all\r\n\r\n").await, Some(400));
    // It is alive and well.
    server.chat(json!({ "messages": user("still there?") })).await;
}

#[tokio::test]
async fn the_slow_are_not_waited_for() {
    let body = BodyLimits { time: Duration::from_millis(300), ..config().body };
    let config = Config { body, ..config() };
    let limits = ServerLimits { headers: Duration::from_millis(300), ..ServerLimits::default() };
    let server = start_with(Scripted::default(), config, limits).await;
    // Half a body, and then nothing.
    let mut half = post(b"{\"messages\":[]}");
    half.truncate(half.len() - 3);
    let started = Instant::now();
    assert_eq!(raw(&server, &half).await, Some(408));
    // Half the headers, and then nothing: the connection is closed.
    raw(&server, b"GET /health HTTP/1.1\r\nHost: local").await;
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(server.get("/health").await.status(), 200);
}

#[tokio::test]
async fn more_connections_than_there_are_places_wait() {
    let limits = ServerLimits {
        connections: 2,
        headers: Duration::from_millis(400),
        ..ServerLimits::default()
    };
    let server = start_with(Scripted::default(), config(), limits).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let idle =
        [TcpStream::connect(&address).await.unwrap(), TcpStream::connect(&address).await.unwrap()];
    // The two say nothing and are shown out; then there is room.
    assert_eq!(server.get("/health").await.status(), 200);
    drop(idle);
}
