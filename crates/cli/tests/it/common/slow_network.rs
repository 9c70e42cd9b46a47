//! A network that is far away: it needs no privileges, so the test that uses it runs everywhere.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A relay to a server, `one_way` from here: every byte arrives that much later than it was sent, and
/// a new connection takes the round trip of its handshake before the first byte moves.
pub struct SlowNetwork {
    pub url: String,
    connections: Arc<AtomicUsize>,
}

impl SlowNetwork {
    pub fn to(server: &str, one_way: Duration) -> Self {
        let server = server.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let opened = connections.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                opened.fetch_add(1, Ordering::SeqCst);
                let (near, far) = (near.unwrap(), TcpStream::connect(&server).unwrap());
                let ready = Instant::now() + 2 * one_way;
                carry(near.try_clone().unwrap(), far.try_clone().unwrap(), one_way, ready);
                carry(far, near, one_way, ready);
            }
        });
        Self { url, connections }
    }

    /// How many connections were made through it so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Carries bytes one way in the background. Reading and writing are apart, so that bytes sent close
/// together are late together and not one after the other.
fn carry(mut from: TcpStream, mut to: TcpStream, one_way: Duration, ready: Instant) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    to.set_nodelay(true).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let arrives = Instant::now().max(ready) + one_way;
            if sender.send((arrives, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (arrives, bytes) in receiver {
            thread::sleep(arrives.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // An error only says that the other side has hung up already.
        drop(to.shutdown(Shutdown::Write));
    });
}
