//! Connections: who is let in, how long they may take, and how it ends.

use std::{error::Error, future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    progress::{Pace, Progress},
    tls::Tls,
};

/// Headers one request may have, and the bytes they may take.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 << 10;

/// What the system may keep of what is written to a connection and was not taken yet. Left to itself it
/// keeps megabytes of each, and tells of room again only when much of that was taken.
const SEND_BUFFER: usize = 128 << 10;

/// How long to leave a machine alone that has no more sockets to give.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Files of a process that are not connections: models, libraries, the log, and what asks the cloud.
const OTHER_FILES: u64 = 192;

/// How long the server waits for clients, and how many it serves at once.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// How long the headers of a request may take, and how long a connection may be idle.
    pub headers: Duration,
    /// How long the other side may take too little of what is written.
    pub stalled: Duration,
    /// The bytes that it has to take in that time, while more waits to be written.
    pub least_taken: usize,
    /// How long what runs may take to finish, once the server is to stop.
    pub shutdown: Duration,
    /// Connections at once; more of them wait.
    pub connections: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let (client, shutdown) = (Duration::from_secs(60), Duration::from_secs(30));
        let least_taken = 64 << 10;
        Self { headers: client, stalled: client, least_taken, shutdown, connections: 1024 }
    }
}

impl ServerLimits {
    /// No more connections than this process may have open, with room for its other files. The usual
    /// limit is as many files as there may be connections, so it is raised as far as it goes.
    fn within_file_limit(self) -> Self {
        let most = connections_of(raised_file_limit());
        if most < self.connections {
            tracing::warn!("the limit on open files allows only {most} connections: ulimit -n");
        }
        Self { connections: self.connections.min(most), ..self }
    }
}

/// How many connections leave a process enough of its files for everything else.
fn connections_of(files: Option<u64>) -> usize {
    let most = files.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES));
    usize::try_from(most).unwrap_or(usize::MAX).max(1)
}

/// The most files this process may have open; `None` where there is no limit.
#[cfg(unix)]
fn raised_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit on open files stays as it is");
            current
        }
    }
}

#[cfg(not(unix))]
fn raised_file_limit() -> Option<u64> {
    None
}

/// Serves until `shutdown`; what runs then is finished, within limits.
pub async fn listen(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    listen_with(listener, None, app, limits, shutdown).await
}

/// The same, encrypted where there is a certificate.
pub async fn listen_with(
    listener: TcpListener,
    tls: Option<Tls>,
    app: Router,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let limits = limits.within_file_limit();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES);
    let connections = Arc::new(Semaphore::new(limits.connections));
    let running = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let permit = connections.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((accept(&listener).await, permit))
        };
        let (stream, permit) = tokio::select! {
            next = next => next?,
            () = &mut shutdown => break,
        };
        let service = Connection { builder: builder.clone(), app: app.clone(), limits };
        let (watcher, tls) = (running.watcher(), tls.clone());
        tokio::spawn(async move {
            // A client that breaks off is no failure of ours.
            if let Err(error) = service.serve(stream, tls, watcher).await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if timeout(limits.shutdown, running.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
    Ok(())
}

/// What a connection is served with.
struct Connection {
    builder: http1::Builder,
    app: Router,
    limits: ServerLimits,
}

impl Connection {
    async fn serve(
        self,
        stream: TcpStream,
        tls: Option<Tls>,
        watcher: Watcher,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let ServerLimits { stalled, least_taken, .. } = self.limits;
        let stream = Progress::new(stream, Pace { bytes: least_taken, within: stalled });
        let service = TowerToHyperService::new(self.app);
        match tls {
            None => {
                let connection = self.builder.serve_connection(TokioIo::new(stream), service);
                watcher.watch(connection).await?;
            }
            Some(tls) => {
                let stream = timeout(self.limits.headers, tls.accept(stream)).await??;
                let connection = self.builder.serve_connection(TokioIo::new(stream), service);
                watcher.watch(connection).await?;
            }
        }
        Ok(())
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small answers must not wait until more can be sent with them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
                }
                if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER) {
                    tracing::debug!(%error, "the system keeps as much as it likes for a client");
                }
                return stream;
            }
            // Out of sockets, or a client that was gone before it was let in.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        // The usual limit is as many files as there may be connections.
        assert_eq!(connections_of(Some(1024)), 1024 - 192);
        assert_eq!((connections_of(Some(3)), connections_of(None)), (1, usize::MAX));
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_on_files_is_raised_before_connections_are_counted() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        let lowered = before.maximum.map_or(512, |most| most.min(512));
        setrlimit(Resource::Nofile, Rlimit { current: Some(lowered), ..before }).unwrap();
        let limits = ServerLimits::default().within_file_limit();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, before.maximum);
        assert!(limits.connections <= connections_of(before.maximum));
    }
}
