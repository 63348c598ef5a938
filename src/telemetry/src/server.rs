//! `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_controllers::metrics::{Metric, Metrics, Values};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

/// Connections at a time: a few scrapers and probes.
const CONNECTIONS: usize = 64;
/// A request's head must be there within this time.
const HEAD: Duration = Duration::from_secs(10);
/// OpenMetrics, which Prometheus asks for and understands.
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[error("unable to listen on {address} for metrics: {source}")]
pub struct ServeError {
    address: SocketAddr,
    source: std::io::Error,
}

/// A server of metrics and health. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

// === impl Server ===

impl Server {
    /// Serves metrics and health of controllers on an address. Port 0 takes a free one.
    ///
    /// # Errors
    /// Where the address cannot be listened on.
    pub async fn start(address: SocketAddr, metrics: Metrics) -> Result<Self, ServeError> {
        let failed = |source| ServeError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { address, task: tokio::spawn(accept(listener, metrics)) })
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

async fn accept(listener: TcpListener, metrics: Metrics) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::debug!(%error, "unable to accept a connection");
                // Out of file descriptors, most likely.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let metrics = metrics.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, metrics.clone()));
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // Whoever asked may have gone.
            drop(builder.serve_connection(TokioIo::new(socket), service).await);
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, metrics: Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET alone\n".to_owned()));
    }
    Ok(match request.uri().path() {
        "/metrics" => {
            let mut all = metrics.read().await.unwrap_or_default();
            all.extend(of_process(&metrics));
            all.sort_by_key(|metric| metric.name);
            reply(StatusCode::OK, CONTENT, crate::text(all))
        }
        // Who answers is alive.
        "/healthz" => reply(StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if metrics.is_ready() => reply(StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => {
            let why = "not everything in the cluster was seen yet\n".to_owned();
            reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain", why)
        }
        _ => reply(StatusCode::NOT_FOUND, "text/plain", "there are /metrics, /healthz and /readyz\n".to_owned()),
    })
}

fn of_process(metrics: &Metrics) -> [Metric; 2] {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let leads = f64::from(u8::from(metrics.leads()));
    [
        Metric { name: "berth_build_info", help: "1, of this version", values: Values::Gauge(vec![(version, 1.0)]) },
        Metric {
            name: "berth_leads",
            help: "1 where this process leads",
            values: Values::Gauge(vec![(vec![], leads)]),
        },
    ]
}

fn reply(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content));
    response
}
