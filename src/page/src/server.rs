//! The page on loopback: itself, a stream of what changes, and the details of a node or a workload.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body::Frame;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::watch::{Page, Shared};

/// Who may look at a time.
const CONNECTIONS: usize = 32;
/// A stream without news says that it is there, so that one that nobody reads any more is noticed.
const ALIVE: Duration = Duration::from_secs(15);
/// The most pods of a workload that its details list.
const LISTED: usize = 200;
/// The page has its own style and script, and speaks to nobody else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is open to others.
    #[error("unable to serve the page on {0}: expected an address of this machine alone, such as 127.0.0.1:8080")]
    NotLoopback(SocketAddr),
    /// Nothing can listen there.
    #[error("unable to listen on {address} for the page: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A server of a page. It stops when it is dropped.
#[derive(Debug)]
pub struct Server(berth_listen::Server);

// === impl Server ===

impl Server {
    /// Serves a page on an address of loopback. Port 0 takes a free one.
    ///
    /// # Errors
    /// Where the address is not one of loopback, or cannot be listened on.
    pub async fn start(address: SocketAddr, page: Page) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let answer = move |request| {
            let page = page.clone();
            async move { answer(&request, &page).await }
        };
        let server = berth_listen::Server::start(address, CONNECTIONS, answer).await;
        server.map(Self).map_err(|source| ServeError::Listen { address, source })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

async fn answer(request: &Request<Incoming>, page: &Page) -> Response<Body> {
    if !is_local(request.headers()) {
        // A page elsewhere whose name leads here must not read what is here.
        return reply(StatusCode::FORBIDDEN, "text/plain", "expected a request for localhost\n".to_owned());
    }
    if request.method() != Method::GET {
        return reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET alone\n".to_owned());
    }
    match request.uri().path() {
        "/" => {
            let html = crate::html(&escaped(&page.shared.title), "null");
            let mut response = reply(StatusCode::OK, "text/html; charset=utf-8", html);
            let policy = header::HeaderValue::from_static(POLICY);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        "/events" => {
            let mut response = Response::new(Body::Stream(events(Arc::clone(&page.shared))));
            set(&mut response, "text/event-stream");
            response
        }
        "/node" => {
            let name = query(request.uri(), "name");
            let pods = json!({"pods": page.shared.view.lock().pods_on(&name)});
            reply(StatusCode::OK, "application/json", pods.to_string())
        }
        "/explain" => explain(&page.shared, query(request.uri(), "of")).await,
        "/waiting" => {
            let of = query(request.uri(), "of");
            let pods = json!({"pods": page.shared.view.lock().pods_waiting(&of, LISTED)});
            reply(StatusCode::OK, "application/json", pods.to_string())
        }
        _ => reply(StatusCode::NOT_FOUND, "text/plain", "there is / alone\n".to_owned()),
    }
}

/// The story of an object, from the cluster as it is now.
async fn explain(shared: &Shared, of: String) -> Response<Body> {
    let Some(explain) = &shared.explain else {
        return reply(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "nobody here explains\n".to_owned());
    };
    // Nobody closes it.
    let Ok(_telling) = shared.telling.acquire().await else {
        return reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", String::new());
    };
    let (status, text) = match explain(of).await {
        Ok(story) => (StatusCode::OK, story),
        Err(why) => (StatusCode::UNPROCESSABLE_ENTITY, why),
    };
    reply(status, "text/plain; charset=utf-8", text)
}

/// Whether a request is for this machine by a name that leads nowhere else.
fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

/// A value of the query, decoded.
fn query(uri: &Uri, key: &str) -> String {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(own, _)| *own == key).map_or("", |(_, value)| value);
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else { return String::new() };
        bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// All that there is, and then what changes. Whoever reads more slowly than things change is told everything anew, so that
/// no reader holds more than so many differences.
fn events(shared: Arc<Shared>) -> BoxStream<'static, Bytes> {
    let begin = |shared: &Shared| {
        // Under the lock, nothing is missed between the two, nor told twice.
        let mut view = shared.view.lock();
        shared.tick_with(&mut view);
        let receiver = shared.differences.subscribe();
        (event(&serde_json::to_string(&view.whole(shared.at())).unwrap_or_default()), receiver)
    };
    let (first, receiver) = begin(&shared);
    let stream =
        futures::stream::unfold((shared, receiver, Some(first)), move |(shared, mut receiver, first)| async move {
            if let Some(first) = first {
                return Some((first, (shared, receiver, None)));
            }
            let told = match tokio::time::timeout(ALIVE, receiver.recv()).await {
                Err(_) => Bytes::from_static(b":\n\n"),
                Ok(Ok(difference)) => event(&difference),
                Ok(Err(RecvError::Lagged(_))) => {
                    let (whole, anew) = begin(&shared);
                    receiver = anew;
                    whole
                }
                Ok(Err(RecvError::Closed)) => return None,
            };
            Some((told, (shared, receiver, None)))
        });
    Box::pin(stream)
}

fn event(json: &str) -> Bytes {
    // JSON has no line break of its own.
    format!("data: {json}\n\n").into()
}

/// Text within an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn reply(status: StatusCode, content: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(body.into())));
    *response.status_mut() = status;
    set(&mut response, content);
    response
}

fn set(response: &mut Response<Body>, content: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
}

enum Body {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let asked = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, header::HeaderValue::from_static(host));
            is_local(&headers)
        };
        assert!(asked("localhost:8080") && asked("127.0.0.1") && asked("[::1]:80"));
        assert!(!asked("evil.example:8080") && !asked("127.0.0.1.evil.example") && !asked("localhost.evil.example:80"));
        assert!(!is_local(&HeaderMap::new()));
    }

    #[test]
    fn values_of_a_query_are_decoded_and_nonsense_is_nothing() {
        let of = |text: &str| query(&text.parse().unwrap(), "name");
        assert_eq!(of("/node?x=1&name=a%2Fb%20%C3%A4"), "a/b ä");
        for nonsense in ["/node", "/node?name=%", "/node?name=%zz", "/node?name=%ff", "/node?name=%f"] {
            assert_eq!(of(nonsense), "");
        }
    }
}
