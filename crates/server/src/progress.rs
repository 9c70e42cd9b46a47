//! A connection that is closed when the other side takes nothing of what is written.
//!
//! A client that asks and never reads would keep its connection, and what was made for it, for ever;
//! as many of them as there are connections would lock everybody out.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// A stream whose writes must get on.
pub struct Progress<S> {
    stream: S,
    /// The longest time in which nothing may be taken.
    stall_limit: Duration,
    /// Runs while something waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Progress<S> {
    pub fn new(stream: S, stall_limit: Duration) -> Self {
        Self { stream, stall_limit, stalled: None }
    }

    /// Passes on what a write came to, or fails if nothing was taken for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let until = || Box::pin(sleep_until(Instant::now() + self.stall_limit));
        let stalled = self.stalled.get_or_insert_with(until);
        ready!(stalled.as_mut().poll(context));
        let reason = "the other side takes nothing of what is written";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Progress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Progress<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (ours, theirs) = duplex(64);
        let stall_limit = Duration::from_millis(200);
        let mut ours = Progress::new(ours, stall_limit);
        let started = Instant::now();
        let error = ours.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= stall_limit);
        drop(theirs);
    }

    #[tokio::test]
    async fn a_slow_reader_is_not() {
        let (ours, mut theirs) = duplex(64);
        let stall_limit = Duration::from_secs(2);
        let mut ours = Progress::new(ours, stall_limit);
        let reader = tokio::spawn(async move {
            let (mut read, mut buffer) = (0, [0; 64]);
            // Twice as long in all as it may take nothing.
            while read < 640 {
                tokio::time::sleep(stall_limit / 5).await;
                read += theirs.read(&mut buffer).await.unwrap();
            }
        });
        ours.write_all(&[0; 640]).await.unwrap();
        drop(ours);
        reader.await.unwrap();
    }
}
