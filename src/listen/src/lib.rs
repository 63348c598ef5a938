//! A small HTTP/1 server: it accepts so many connections at a time, and a function answers each request.
//!
//! Metrics, health and the page are served by it. It has no TLS and asks nobody who they are: who may reach the address
//! decides who may ask.
//!
//! ```no_run
//! # async fn f() -> std::io::Result<()> {
//! use http::Response;
//! let server = berth_listen::Server::start(([127, 0, 0, 1], 0).into(), 8, |_| async { Response::new(String::new()) }).await?;
//! println!("http://{}/", server.address());
//! # Ok(()) }
//! ```

mod patient;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use patient::Patient;

/// A request's head must be there within this time.
const HEAD: Duration = Duration::from_secs(10);
/// Whoever takes nothing of an answer for so long is given up, so that another has the place.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nobody is accepted after the system refused to.
const PAUSE: Duration = Duration::from_millis(100);

/// A server. It stops, and its connections end, when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

// === impl Server ===

impl Server {
    /// Listens on an address and answers requests of at most `connections` clients at a time; others wait. Port 0 takes a
    /// free one.
    ///
    /// # Errors
    /// Where the address cannot be listened on.
    pub async fn start<A, F, B>(address: SocketAddr, connections: usize, answer: A) -> io::Result<Self>
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: tokio::spawn(accept(listener, connections, answer)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<A, F, B>(listener: TcpListener, connections: usize, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let places = Arc::new(Semaphore::new(connections));
    let mut served = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while served.try_join_next().is_some() {}
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                // Out of file descriptors, most likely.
                tracing::debug!(%error, "unable to accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let answer = answer.clone();
        served.spawn(async move {
            let service = service_fn(|request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // Whoever asked may have gone.
            drop(builder.serve_connection(TokioIo::new(Patient::new(socket, PATIENCE)), service).await);
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn ask(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /it HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        stream
    }

    #[tokio::test]
    async fn who_comes_beyond_the_connections_is_answered_once_another_has_gone() {
        let answer = |request: Request<Incoming>| async move { Response::new(request.uri().path().to_owned()) };
        let server = Server::start(([127, 0, 0, 1], 0).into(), 1, answer).await.unwrap();
        // It holds the one connection, and says nothing.
        let silent = TcpStream::connect(server.address()).await.unwrap();
        let mut second = ask(server.address()).await;
        let mut text = String::new();
        let waits = tokio::time::timeout(Duration::from_millis(50), second.read_to_string(&mut text)).await;
        assert!(waits.is_err(), "{text}");
        drop(silent);
        second.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("/it"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_reads_its_answer_gives_up_its_place() {
        // More than the system keeps for a reader.
        let answer = |_| async { Response::new("a".repeat(64 << 20)) };
        let server = Server::start(([127, 0, 0, 1], 0).into(), 1, answer).await.unwrap();
        let _silent = ask(server.address()).await;
        let mut second = ask(server.address()).await;
        let mut byte = [0];
        // Time passes at once where nobody has anything to do.
        let read = tokio::time::timeout(PATIENCE * 4, second.read(&mut byte)).await;
        assert_eq!(read.unwrap().unwrap(), 1);
    }
}
