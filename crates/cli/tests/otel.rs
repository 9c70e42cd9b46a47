//! Traces of one request through edge and cloud, as a collector receives them.
#![cfg(feature = "otel")]
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/common/mod.rs"]
mod common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use common::{SMALL, interrupt, run, tandem};

/// What the caller's own trace is, and the span in it that asks.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A span as it was received.
#[derive(Clone, Debug)]
struct Span {
    service: String,
    trace: String,
    id: String,
    parent: String,
    name: String,
}

/// The length-delimited fields of a message in protobuf, with their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = vec![];
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => {
                varint(&mut bytes);
            }
            1 => bytes = &bytes[8..],
            2 => {
                let length = varint(&mut bytes) as usize;
                let (field, rest) = bytes.split_at(length);
                found.push((key >> 3, field));
                bytes = rest;
            }
            5 => bytes = &bytes[4..],
            kind => panic!("no such kind of field: {kind}"),
        }
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

fn all(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter_map(move |(n, field)| (n == number).then_some(field))
}

fn one(bytes: &[u8], number: u64) -> &[u8] {
    all(bytes, number).next().unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Vec<Span> {
    let mut found = vec![];
    for resource_spans in all(request, 1) {
        let mut attributes = all(one(resource_spans, 1), 1);
        let service = attributes.find(|attribute| one(attribute, 1) == b"service.name").unwrap();
        let service = text(one(one(service, 2), 1));
        for span in all(resource_spans, 2).flat_map(|scope_spans| all(scope_spans, 2)) {
            let hex = |number| decode::hex(one(span, number));
            let (trace, id, parent) = (hex(1), hex(2), hex(4));
            found.push(Span {
                service: service.clone(),
                trace,
                id,
                parent,
                name: text(one(span, 5)),
            });
        }
    }
    found
}

/// Takes one request of an exporter after the other.
fn take(stream: TcpStream, tell: &Sender<Span>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        assert!(line.starts_with("POST /v1/traces "), "{line}");
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let header = line.to_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        spans(&body).into_iter().for_each(|span| drop(tell.send(span)));
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

/// A collector on loopback: its address, and what it receives.
fn collector() -> (String, Receiver<Span>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tell = tell.clone();
            std::thread::spawn(move || take(stream.unwrap(), &tell));
        }
    });
    (address, told)
}

/// A server that sends its traces; killed when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(collector: &str, arguments: &[&str]) -> Self {
        let own = ["--listen", "127.0.0.1:0", "--otel-endpoint", collector, "--context", "1024"];
        let mut child = tandem(&[arguments, &own].concat()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = lines.by_ref().map_while(Result::ok);
        let url = said.find_map(|line| line.strip_prefix("listening on ").map(String::from));
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: url.unwrap() }
    }

    /// Stops it, which sends what is left.
    fn stop(mut self) {
        interrupt(&self.child);
        let until = Instant::now() + Duration::from_secs(60);
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn one_request_is_one_trace_through_edge_and_cloud() {
    let (address, told) = collector();
    let cloud = Server::start(&address, &["cloud", "--cloud-model", SMALL]);
    let edge = Server::start(&address, &["serve", "--cloud", &cloud.url, "--threshold", "1"]);
    let body = r#"{"messages":[{"role":"user","content":"Hi"}],"max_tokens":4}"#;
    let traceparent = format!("traceparent: 00-{TRACE}-{CALLER}-01");
    let chat = format!("{}/v1/chat/completions", edge.url);
    let json = ["-H", "Content-Type: application/json", "-H", &traceparent, "-d", body];
    let mut curl = Command::new("curl");
    let asked = curl
        .args(["-q", "-sS", "-m", "60", "--noproxy", "*"])
        .args(json)
        .arg(chat)
        .output()
        .unwrap();
    assert!(asked.status.success(), "{asked:?}");
    edge.stop();
    cloud.stop();
    let spans: Vec<Span> =
        std::iter::from_fn(|| told.recv_timeout(Duration::from_secs(2)).ok()).collect();
    let trace: Vec<&Span> = spans.iter().filter(|span| span.trace == TRACE).collect();
    let named = |service: &str, name: &str| -> Vec<&Span> {
        let of = trace.iter().filter(|span| span.service == service && span.name == name);
        of.copied().collect()
    };
    let [request] = named("tandem-serve", "request")[..] else { panic!("{spans:?}") };
    assert_eq!(request.parent, CALLER);
    for part in ["step", "ask"] {
        assert!(!named("tandem-serve", part).is_empty(), "no {part} in {trace:?}");
    }
    // The session was opened and asked for this request: each is a part of it.
    let answered = named("tandem-cloud", "request");
    assert!(answered.len() >= 2, "{trace:?}");
    assert!(answered.iter().all(|span| span.parent == request.id), "{trace:?}");
    assert!(trace.iter().all(|span| span.id != CALLER));
}

#[test]
fn an_endpoint_that_is_no_address_is_wrong_usage() {
    let done = run(&["serve", "--otel-endpoint", "nonsense"]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("--otel-endpoint"), "{}", done.err);
}
