//! Gathers what a connection writes in one go.
//!
//! HTTP/2 flushes after every frame, and a change that a hundred watches of a connection see is a hundred frames: each would
//! be a record of TLS and a call of the system of its own. Here a flush is put off until the connection has nothing more to
//! say for now.

use std::future::Future;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is gathered before it is written without a flush.
const LIMIT: usize = 128 * 1024;

/// A stream whose flushes are those of its [`Gathered`]; clones are the same.
#[derive(Debug)]
pub(super) struct Gathering<S>(Arc<Mutex<Inner<S>>>);

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    waiting: Vec<u8>,
    /// How much of it is written.
    written: usize,
}

impl<S> Clone for Gathering<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

// === impl Gathering ===

impl<S> Gathering<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Inner { stream, waiting: Vec::new(), written: 0 })))
    }
}

// === impl Inner ===

impl<S: AsyncWrite + Unpin> Inner<S> {
    /// Writes what is waiting.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(rest) = self.waiting.get(self.written..).filter(|rest| !rest.is_empty()) {
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.written = 0;
        // An idle connection keeps nothing.
        self.waiting = Vec::new();
        Poll::Ready(Ok(()))
    }

    fn poll_gather<'b>(&mut self, cx: &mut Context<'_>, parts: impl Iterator<Item = &'b [u8]>) -> Poll<Result<usize>> {
        if self.waiting.len() >= LIMIT {
            ready!(self.poll_drain(cx))?;
        }
        let before = self.waiting.len();
        for part in parts {
            self.waiting.extend_from_slice(part);
        }
        Poll::Ready(Ok(self.waiting.len() - before))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.0.lock().poll_gather(cx, std::iter::once(buf))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        self.0.lock().poll_gather(cx, bufs.iter().map(|part| &**part))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_drain(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}

/// A connection over a [`Gathering`]: each time that it has done what it can, what it wrote goes out.
pub(super) struct Gathered<C, S> {
    connection: Pin<Box<C>>,
    socket: Gathering<S>,
}

impl<C, S> Gathered<C, S> {
    pub(super) fn new(connection: C, socket: Gathering<S>) -> Self {
        Self { connection: Box::pin(connection), socket }
    }
}

impl<C: Future, S: AsyncWrite + Unpin> Future for Gathered<C, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let is_over = self.connection.as_mut().poll(cx).is_ready();
        let mut inner = self.socket.0.lock();
        let drained = inner.poll_drain(cx);
        let flushed = match drained {
            Poll::Ready(Ok(())) => Pin::new(&mut inner.stream).poll_flush(cx),
            other => other,
        };
        match flushed {
            // Nobody is there to write to.
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ if is_over => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Counts what is written to it.
    #[derive(Default)]
    struct Counting {
        writes: Arc<std::sync::atomic::AtomicUsize>,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl AsyncWrite for Counting {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
            self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.text.lock().extend_from_slice(buf);
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_is_written_and_flushed_many_times_goes_out_once_and_in_order() {
        let far = Counting::default();
        let (count, text) = (far.writes.clone(), far.text.clone());
        let socket = Gathering::new(far);
        let mut writer = socket.clone();
        let connection = async move {
            for n in 0..50_u8 {
                writer.write_all(&[n; 10]).await.unwrap();
                writer.flush().await.unwrap();
            }
        };
        Gathered::new(connection, socket).await;
        let expected: Vec<u8> = (0..50).flat_map(|n| [n; 10]).collect();
        assert_eq!(*text.lock(), expected);
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_reader_that_is_slow_gets_everything() {
        let (near, mut far) = tokio::io::duplex(100);
        let socket = Gathering::new(near);
        let mut writer = socket.clone();
        let text: Vec<u8> = (0..3 * LIMIT).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let sent = text.clone();
        let connection = async move {
            for part in sent.chunks(1000) {
                writer.write_all(part).await.unwrap();
            }
            writer.shutdown().await.unwrap();
        };
        tokio::spawn(Gathered::new(connection, socket));
        let mut found = Vec::new();
        far.read_to_end(&mut found).await.unwrap();
        assert_eq!(found, text);
    }
}
