//! Stands between an edge and its cloud, whatever that is, and has answers go wrong on request.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

/// What befalls asks. Everything else a cloud is asked passes, unless the line is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// As if nobody listened; connections that are there end.
    Cut,
    /// Half of the answer comes, then a reset.
    Resets,
    /// Half of the answer comes, then an end.
    Half,
    /// The ask arrives, and its answer never does.
    Hangs,
    /// The answer comes later than it was given.
    Late(Duration),
    /// The answer comes a few bytes at a time.
    Dribbles,
    /// The answer names ids that no vocabulary has.
    WrongIds,
    /// Somebody else answers: the cloud never hears of the ask.
    Says(&'static str),
}

pub const GARBAGE: Fault =
    Fault::Says("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 8\r\n\r\n<h1>oops");
pub const NO_HTTP: Fault = Fault::Says("\x16\x03\x01 what is this\r\n\r\n");
pub const NOT_JSON: Fault =
    Fault::Says("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{]");
pub const FAILS: Fault =
    Fault::Says("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n");
pub const BUSY: Fault =
    Fault::Says("HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n");
pub const TOO_MANY: Fault =
    Fault::Says("HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n");

impl Fault {
    /// The name it has in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cut => "the line is cut",
            Self::Resets => "resets in the middle",
            Self::Half => "half an answer",
            Self::Hangs => "hangs",
            Self::Late(_) => "late",
            Self::Dribbles => "slow writer",
            Self::WrongIds => "wrong ids",
            fault if *fault == GARBAGE || *fault == NO_HTTP => "garbage",
            fault if *fault == NOT_JSON => "not JSON",
            fault if *fault == FAILS => "status 500",
            fault if *fault == BUSY => "status 503",
            fault if *fault == TOO_MANY => "status 429",
            Self::Says(_) => "another answer",
        }
    }
}

/// How many bytes a slow writer sends at once.
const DRIBBLE: usize = 16;

/// A request or an answer as it travels, and where its body begins.
struct Message {
    bytes: Vec<u8>,
    body: usize,
}

impl Message {
    /// The next one; `None` where the connection ends before it.
    async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut bytes = vec![];
        let mut buffer = [0; 1 << 14];
        loop {
            if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                assert!(
                    !head.contains("transfer-encoding"),
                    "only whole messages are read: {head}"
                );
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
                let body = end + 4;
                if bytes.len() >= body + length {
                    return Ok(Some(Self { bytes, body }));
                }
            }
            match stream.read(&mut buffer).await? {
                0 if bytes.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => bytes.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Whether it asks for what comes next, of `tandem cloud` or of llama-server.
    fn is_ask(&self) -> bool {
        let line = self.bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let path = line.split(' ').nth(1).unwrap_or_default();
        let asks = path.ends_with("/next") || path == "/completion";
        // An empty question only tells whether the route is there.
        asks && self.bytes[self.body..] != *b"{}"
    }

    /// The same answer with an id that no vocabulary has.
    fn with_wrong_ids(self) -> Self {
        let Ok(mut answer) = serde_json::from_slice::<Value>(&self.bytes[self.body..]) else {
            return self;
        };
        for path in ["/tokens/0/id", "/tokens/0"] {
            if let Some(id) = answer.pointer_mut(path).filter(|id| id.is_number()) {
                *id = 9_999_999.into();
            }
        }
        let body = answer.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self { body: head.len(), bytes: (head + &body).into_bytes() }
    }
}

struct Shared {
    target: Mutex<SocketAddr>,
    fault: watch::Sender<Fault>,
    /// How many asks met which fault.
    met: Mutex<BTreeMap<&'static str, usize>>,
}

/// Such a line to a cloud.
#[derive(Clone)]
pub struct Proxy {
    pub url: String,
    shared: Arc<Shared>,
}

impl Proxy {
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (target, fault) = (Mutex::new(target), watch::channel(Fault::None).0);
        let shared = Arc::new(Shared { target, fault, met: Mutex::default() });
        let proxy = Self { url, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let shared = shared.clone();
                // An error is what was wanted, or a side that went away.
                tokio::spawn(async move { drop(shared.carry(near).await) });
            }
        });
        proxy
    }

    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// Asks go elsewhere from now on: the cloud has started again.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// How many asks met which fault.
    pub fn met(&self) -> BTreeMap<&'static str, usize> {
        self.shared.met.lock().unwrap().clone()
    }
}

impl Shared {
    async fn carry(&self, mut near: TcpStream) -> io::Result<()> {
        near.set_nodelay(true)?;
        let mut faults = self.fault.subscribe();
        let mut far = None;
        loop {
            let request = tokio::select! {
                request = Message::read(&mut near) => request?,
                _ = faults.wait_for(|fault| *fault == Fault::Cut) => return near.set_zero_linger(),
            };
            let Some(request) = request else { return Ok(()) };
            let fault = *faults.borrow_and_update();
            let asks = request.is_ask();
            if asks {
                *self.met.lock().unwrap().entry(fault.name()).or_default() += 1;
            }
            match fault {
                Fault::Cut => return near.set_zero_linger(),
                Fault::Says(answer) if asks => {
                    near.write_all(answer.as_bytes()).await?;
                    continue;
                }
                _ => {}
            }
            if far.is_none() {
                let target = *self.target.lock().unwrap();
                let connection = TcpStream::connect(target).await?;
                connection.set_nodelay(true)?;
                far = Some(connection);
            }
            let Some(there) = &mut far else { return Ok(()) };
            there.write_all(&request.bytes).await?;
            let answer = tokio::select! {
                answer = Message::read(there) => answer?,
                // Who gave up takes its question back.
                () = gone(&near) => return Ok(()),
            };
            let Some(answer) = answer else { return Ok(()) };
            let fault = if asks { fault } else { Fault::None };
            match fault {
                Fault::Hangs => {
                    let healed = faults.wait_for(|fault| *fault != Fault::Hangs);
                    tokio::select! {
                        _ = healed => {}
                        () = gone(&near) => {}
                    }
                    return Ok(());
                }
                Fault::Resets | Fault::Half => {
                    near.write_all(&answer.bytes[..(answer.body + answer.bytes.len()) / 2]).await?;
                    return if fault == Fault::Resets { near.set_zero_linger() } else { Ok(()) };
                }
                Fault::Late(late) => {
                    sleep(late).await;
                    near.write_all(&answer.bytes).await?;
                }
                Fault::Dribbles => {
                    for piece in answer.bytes.chunks(DRIBBLE) {
                        near.write_all(piece).await?;
                        sleep(Duration::from_millis(1)).await;
                    }
                }
                Fault::WrongIds => near.write_all(&answer.with_wrong_ids().bytes).await?,
                Fault::None | Fault::Cut | Fault::Says(_) => near.write_all(&answer.bytes).await?,
            }
        }
    }
}

/// Waits until the other side has hung up.
async fn gone(stream: &TcpStream) {
    if matches!(stream.peek(&mut [0]).await, Ok(1..)) {
        std::future::pending::<()>().await;
    }
}
