//! The layer: a service around a service.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower_service::Service;

use super::lines;
use super::{Faults, Trouble};
use crate::latest::Latest;
use crate::reply::{Body, refuse};
use crate::status::ApiError;

/// Answers that are remembered for stale reads.
const REMEMBERED: usize = 1024;

/// The connection broke, or nobody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer (a fault on purpose)")]
pub struct Gone;

/// A service with faults. Clones share the seed, and are gone together.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    service: S,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    faults: Faults,
    outage: Outage,
    /// The last answers by what was asked.
    answers: Mutex<BTreeMap<(Method, String), (u16, Bytes)>>,
}

/// When the server is back, and how often it was gone: watches end as that changes.
#[derive(Debug)]
struct Outage {
    back: Mutex<Option<Instant>>,
    count: Latest,
}

// === impl Faulty ===

impl<S> Faulty<S> {
    pub(super) fn new(service: S, faults: Faults) -> Self {
        let outage = Outage { back: Mutex::default(), count: Latest::default() };
        Self { service, shared: Arc::new(Shared { faults, outage, answers: Mutex::default() }) }
    }

    /// Makes the server go for a time: requests fail, and all watches end.
    pub fn interrupt(&self, time: Duration) {
        self.shared.outage.begin(time);
    }
}

impl<S, B> Service<Request<B>> for Faulty<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = std::convert::Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Gone;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Gone>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut service, shared) = (self.service.clone(), self.shared.clone());
        if shared.faults.dice.is_none() && !shared.outage.was_ever() {
            let answer = service.call(request);
            return Box::pin(async move { Ok(unwrapped(answer.await)) });
        }
        Box::pin(async move { shared.serve(&mut service, request).await })
    }
}

/// The service never fails.
fn unwrapped<T>(result: Result<T, std::convert::Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

// === impl Shared ===

impl Shared {
    async fn serve<S, B>(self: Arc<Self>, service: &mut S, request: Request<B>) -> Result<Response<Body>, Gone>
    where
        S: Service<Request<B>, Response = Response<Body>, Error = std::convert::Infallible>,
    {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
        let asked = format!("{path}?{query}");
        let fate = self.faults.fate(&method, &path, is_watch);
        if let Some(delay) = fate.delay {
            tokio::time::sleep(delay).await;
        }
        if let Some(time) = fate.outage {
            self.outage.begin(time);
        }
        if self.outage.is_on() {
            return Err(Gone);
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some(trouble) = fate.before {
            return trouble.answer("before", name);
        }
        let is_read = method == Method::GET && !is_watch && self.faults.rates.stale_read > 0;
        let known = (method, asked);
        if fate.is_stale
            && let Some((code, body)) = self.answers.lock().get(&known).cloned()
        {
            return Ok(again(code, body));
        }
        let count = self.outage.count.follow();
        let mut response = unwrapped(service.call(request).await);
        if let Some(trouble) = fate.after {
            return trouble.answer("after", name);
        }
        if is_read && let Some(body) = response.body().bytes() {
            let mut answers = self.answers.lock();
            if answers.len() >= REMEMBERED {
                answers.pop_first();
            }
            answers.insert(known, (response.status().as_u16(), body));
        }
        if is_watch && response.status().is_success() {
            response = response.map(|body| lines::troubled(body, self.faults.clone(), count));
        }
        Ok(response)
    }
}

fn again(code: u16, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::OK);
    let kind = http::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

// === impl Trouble ===

impl Trouble {
    fn answer(self, when: &str, name: &str) -> Result<Response<Body>, Gone> {
        Ok(refuse(&match self {
            Self::TooManyRequests => {
                ApiError::too_many_requests("The server is currently unable to handle the request", 1)
            }
            Self::Conflict => ApiError::modified("", "objects", name),
            Self::Error => ApiError::internal(format!("injected {when} the request was handled")),
            Self::Timeout => ApiError::timeout(),
            Self::Lost => return Err(Gone),
        }))
    }
}

// === impl Outage ===

impl Outage {
    fn begin(&self, time: Duration) {
        *self.back.lock() = Instant::now().checked_add(time);
        self.count.count();
    }

    fn is_on(&self) -> bool {
        self.back.lock().is_some_and(|back| Instant::now() < back)
    }

    fn was_ever(&self) -> bool {
        self.count.get() > 0
    }
}
