//! Connections: who is let in, how long they may take, and how it ends.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

/// Headers one request may have, and the bytes they may take.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 << 10;

/// How long to leave a machine alone that has no more sockets to give.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How patient the server is.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// How long the headers of a request may take, and how long a connection may be idle.
    pub headers: Duration,
    /// How long what runs may take to finish, once the server is to stop.
    pub shutdown: Duration,
    /// Connections at once; more of them wait.
    pub connections: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let (headers, shutdown) = (Duration::from_secs(60), Duration::from_secs(30));
        Self { headers, shutdown, connections: 1024 }
    }
}

/// Serves until `shutdown`; what runs then is finished, within limits.
pub async fn listen(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
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
        let service = TowerToHyperService::new(app.clone());
        let connection = running.watch(builder.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that breaks off is no failure of ours.
            if let Err(error) = connection.await {
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

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small answers must not wait for company.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
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
