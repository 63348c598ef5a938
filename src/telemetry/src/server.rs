//! `/metrics`, `/healthz` and `/readyz`.

use std::net::SocketAddr;

use berth_controllers::metrics::{Metric, Metrics, Values};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};

/// Connections at a time: a few scrapers and probes.
const CONNECTIONS: usize = 64;
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
pub struct Server(berth_listen::Server);

// === impl Server ===

impl Server {
    /// Serves metrics and health of controllers on an address. Port 0 takes a free one.
    ///
    /// # Errors
    /// Where the address cannot be listened on.
    pub async fn start(address: SocketAddr, metrics: Metrics) -> Result<Self, ServeError> {
        let answer = move |request| answer(request, metrics.clone());
        let server = berth_listen::Server::start(address, CONNECTIONS, answer).await;
        server.map(Self).map_err(|source| ServeError { address, source })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

async fn answer(request: Request<Incoming>, metrics: Metrics) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET alone\n".to_owned());
    }
    match request.uri().path() {
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
    }
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
