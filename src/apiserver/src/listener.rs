//! HTTPS for clients outside the process: kubectl, and anything else that reads a kubeconfig.
//!
//! ```no_run
//! # async fn f() -> Result<(), berth_apiserver::listener::ListenerError> {
//! use berth_apiserver::{ApiServer, Config, listener::Listener};
//!
//! let listener = Listener::start(ApiServer::new(Config::default()), "127.0.0.1:0".parse().unwrap()).await?;
//! println!("{}", listener.kubeconfig());
//! # Ok(()) }
//! ```

mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::fault::{Faults, Faulty, Gone};
use crate::reply::{Body, refuse};
use crate::server::{ApiServer, User};
use crate::status::ApiError;

/// A client has so long for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection may idle so long before the next request's head is there, as with the real server.
const IDLE: Duration = Duration::from_secs(90);
/// After so long without a word a client of HTTP/2 is asked whether it is there.
const PING: Duration = Duration::from_secs(30);

/// Why no listener could be started.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The address could not be listened on.
    #[error("unable to listen on {address}")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// No certificate could be made.
    #[error("unable to make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("unable to set up TLS")]
    Tls(#[from] rustls::Error),
    /// The system has no randomness for a token.
    #[error("unable to make a token")]
    Token,
}

/// A server that listens. It stops, and its connections end, when this is dropped.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    token: String,
    certificate: String,
    task: JoinHandle<()>,
    server: ApiServer,
}

// === impl Listener ===

impl Listener {
    /// Listens on an address, with a new certificate and a new token. Port 0 takes a free one.
    pub async fn start(server: ApiServer, address: SocketAddr) -> Result<Self, ListenerError> {
        Self::start_with(server, Faults::default(), address).await
    }

    /// The same, with faults for who connects here.
    pub async fn start_with(server: ApiServer, faults: Faults, address: SocketAddr) -> Result<Self, ListenerError> {
        let socket = TcpListener::bind(address).await.map_err(|source| ListenerError::Bind { address, source })?;
        let address = socket.local_addr().map_err(|source| ListenerError::Bind { address, source })?;
        let names = vec![address.ip().to_string(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (mut random, mut account_key) = ([0; 24], [0; 32]);
        for secret in [random.as_mut_slice(), account_key.as_mut_slice()] {
            provider.secure_random.fill(secret).map_err(|_| ListenerError::Token)?;
        }
        let token = crate::defaults::hex(&random);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        server.inner.tokens.lock().accept(&token, account_key);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let service = Authenticated { server: server.clone(), service: faults.around(server.clone()) };
        let task = tokio::spawn(accept(socket, acceptor, service));
        Ok(Self { address, token, certificate: made.cert.pem(), task, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to tell whoever starts it, where other machines can reach the address.
    pub fn exposure(&self) -> Option<String> {
        let address = self.address;
        (!address.ip().is_loopback()).then(|| {
            format!("{address} is not a loopback address: whoever can reach it and has the token is administrator of this cluster")
        })
    }

    /// The base of all paths.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The bearer token that every request must bring.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The certificate, in PEM. It is its own authority.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A kubeconfig with all of this.
    pub fn kubeconfig(&self) -> String {
        let authority = crate::defaults::base64(self.certificate.as_bytes());
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "berth",
            "clusters": [{"name": "berth", "cluster": {"server": self.url(), "certificate-authority-data": authority}}],
            "users": [{"name": "berth", "user": {"token": self.token}}],
            "contexts": [{"name": "berth", "context": {"cluster": "berth", "user": "berth"}}],
        })
        .to_string()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        self.server.inner.tokens.lock().forget(&self.token);
    }
}

/// Accepts connections until it is dropped; they are dropped with it.
async fn accept(socket: TcpListener, acceptor: TlsAcceptor, service: Authenticated) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, acceptor.clone(), service.clone()));
                }
                // Out of files, for instance: connections that end make room.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves one connection. What goes wrong with it concerns nobody else.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, service: Authenticated) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    speak(stream, service).await;
}

/// Speaks HTTP on a stream until it ends.
async fn speak<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S, service: Authenticated) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| service.clone().answer(request));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000).keep_alive_interval(PING);
    let socket = socket::Gathering::new(stream);
    let connection = builder.serve_connection(TokioIo::new(socket.clone()), service);
    socket::Gathered::new(connection, socket).await;
}

/// The server behind its tokens, with its faults.
#[derive(Debug, Clone)]
struct Authenticated {
    server: ApiServer,
    service: Faulty<ApiServer>,
}

// === impl Authenticated ===

impl Authenticated {
    /// That the server is gone ends the connection.
    async fn answer(mut self, mut request: Request<Incoming>) -> Result<Response<Body>, Gone> {
        let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let is_health = matches!(request.uri().path(), "/healthz" | "/livez" | "/readyz");
        match self.server.token_user(token.trim()) {
            Some(user) => {
                request.extensions_mut().insert::<User>(user);
                self.service.call(request).await
            }
            None if is_health => self.service.call(request).await,
            None => Ok(refuse(&ApiError::unauthorized())),
        }
    }
}

#[cfg(test)]
mod tests;
