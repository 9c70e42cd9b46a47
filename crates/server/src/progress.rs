//! A connection that is closed when the other side takes too little of what is written.
//!
//! A client that asks and never reads would keep its connection, and what was made for it, for ever;
//! as many of them as there are connections would lock everybody out. One that reads a byte a minute
//! would do the same, so there is a least rate. It counts only while something waits to be written.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// The least that the other side has to take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub bytes: usize,
    /// In this time, while something waits to be written.
    pub within: Duration,
}

/// A stream whose writes must get on.
pub struct Progress<S> {
    stream: S,
    pace: Pace,
    /// Runs since something first had to wait, until all is written or enough was taken.
    waiting: Option<Waiting>,
}

struct Waiting {
    until: Pin<Box<Sleep>>,
    taken: usize,
}

impl<S> Progress<S> {
    pub fn new(stream: S, pace: Pace) -> Self {
        Self { stream, pace, waiting: None }
    }

    /// Passes on how many bytes a write came to, or fails if too few were taken for too long.
    fn watch_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Some(waiting), Poll::Ready(Ok(bytes))) = (&mut self.waiting, &written) {
            waiting.taken = waiting.taken.saturating_add(*bytes);
        }
        self.watch(context, written)
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            return done;
        }
        let Pace { bytes, within } = self.pace;
        loop {
            let begin =
                || Waiting { until: Box::pin(sleep_until(Instant::now() + within)), taken: 0 };
            let waiting = self.waiting.get_or_insert_with(begin);
            if waiting.until.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if waiting.taken < bytes {
                let reason = "the other side takes too little of what is written";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)));
            }
            self.waiting = None;
        }
    }

    /// All that was to be written has been taken: nobody waits any more.
    fn watch_all(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if done.is_ready() {
            self.waiting = None;
        }
        self.watch(context, done)
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
        self.watch_write(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch_all(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch_all(context, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::{sleep, timeout},
    };

    use super::*;

    const WITHIN: Duration = Duration::from_secs(1);

    /// Takes this many bytes fifty times a second, to the end.
    async fn read(mut stream: DuplexStream, bytes: usize) -> usize {
        let (mut read, mut buffer) = (0, vec![0; bytes]);
        loop {
            sleep(WITHIN / 50).await;
            match stream.read(&mut buffer).await.unwrap() {
                0 => return read,
                taken => read += taken,
            }
        }
    }

    fn pair(bytes: usize) -> (Progress<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(64);
        (Progress::new(ours, Pace { bytes, within: WITHIN }), theirs)
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (mut ours, theirs) = pair(1);
        let started = Instant::now();
        let error = ours.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= WITHIN);
        drop(theirs);
    }

    #[tokio::test]
    async fn a_reader_that_takes_next_to_nothing_is_too() {
        let (mut ours, theirs) = pair(600);
        let reader = tokio::spawn(read(theirs, 2));
        let written = timeout(WITHIN * 5, ours.write_all(&[0; 100_000])).await;
        assert_eq!(written.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(ours);
        let taken = reader.await.unwrap();
        assert!(taken > 10 && taken < 64 + 600, "{taken}");
    }

    #[tokio::test]
    async fn a_slow_reader_is_not() {
        let (mut ours, theirs) = pair(600);
        let reader = tokio::spawn(read(theirs, 60));
        let started = Instant::now();
        ours.write_all(&[0; 10_000]).await.unwrap();
        assert!(started.elapsed() > WITHIN * 2, "{:?}", started.elapsed());
        drop(ours);
        assert_eq!(reader.await.unwrap(), 10_000);
    }

    /// A stream has long pauses, and little is written at a time: that is not the reader's fault.
    #[tokio::test]
    async fn what_was_taken_late_does_not_count_once_all_is_taken() {
        let (mut ours, theirs) = pair(600);
        let reader = tokio::spawn(read(theirs, 100));
        for _ in 0..4 {
            // More than there is room for, so that it waits each time.
            ours.write_all(&[0; 200]).await.unwrap();
            ours.flush().await.unwrap();
            sleep(WITHIN * 5 / 4).await;
        }
        drop(ours);
        assert_eq!(reader.await.unwrap(), 800);
    }
}
