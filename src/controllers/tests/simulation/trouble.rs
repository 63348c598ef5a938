//! Trouble between the controllers and the API server: lost requests, lost answers, delays, and crashes at single writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_apiserver::ApiServer;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{Either, Full};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower_service::Service;

use crate::guard::Guard;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A splitmix64 sequence: the same seed, the same trouble.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// What befalls the requests of one process, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) lost_request: u64,
    pub(crate) lost_answer: u64,
    pub(crate) late: u64,
    /// Of writes alone.
    pub(crate) crash: u64,
}

/// What befell which write, so many times.
pub(crate) type Table = BTreeMap<(String, &'static str), u32>;

/// Trouble that processes share; each crashes for itself.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    inner: Arc<Inner>,
    crashed: Arc<Notify>,
    /// Whether the process cannot reach its Lease, and all else it can.
    is_lease_cut: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Inner {
    dice: Mutex<Dice>,
    rates: Mutex<Rates>,
    table: Mutex<Table>,
}

impl Trouble {
    pub(crate) fn new(seed: u64, rates: Rates) -> Self {
        let inner =
            Inner { dice: Mutex::new(Dice::new(seed)), rates: Mutex::new(rates), table: Mutex::new(Table::new()) };
        Self { inner: Arc::new(inner), crashed: Arc::default(), is_lease_cut: Arc::default() }
    }

    /// The trouble of another process.
    pub(crate) fn of_another(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), crashed: Arc::default(), is_lease_cut: Arc::default() }
    }

    /// Cuts the process off from its Lease, or no longer.
    pub(crate) fn cut_lease(&self, is_cut: bool) {
        self.is_lease_cut.store(is_cut, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        *self.inner.rates.lock() = Rates::default();
    }

    /// The process dies now.
    pub(crate) fn crash(&self) {
        self.crashed.notify_one();
    }

    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    pub(crate) fn table(&self) -> Table {
        self.inner.table.lock().clone()
    }

    fn hits(&self, share: u64) -> bool {
        share > 0 && self.inner.dice.lock().roll(1000) < share
    }

    fn note(&self, step: &str, what: &'static str) {
        *self.inner.table.lock().entry((step.to_owned(), what)).or_default() += 1;
    }
}

/// An API server as a process in trouble sees it.
#[derive(Debug, Clone)]
pub(crate) struct Troubled {
    pub(crate) server: ApiServer,
    pub(crate) trouble: Trouble,
    pub(crate) guard: Guard,
}

impl Service<Request<kube::client::Body>> for Troubled {
    type Response = Response<Either<berth_apiserver::Body, Full<Bytes>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (mut server, trouble, guard) = (self.server.clone(), self.trouble.clone(), self.guard.clone());
        Box::pin(async move {
            let rates = *trouble.inner.rates.lock();
            let is_write = request.method() != Method::GET;
            let step = if is_write { step_of(request.method(), request.uri().path()) } else { "read".to_owned() };
            if trouble.hits(rates.late) {
                trouble.note(&step, "late");
                let wait = trouble.inner.dice.lock().roll(3_000);
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            if trouble.hits(rates.lost_request) {
                trouble.note(&step, "request lost");
                return Err("the request was lost".into());
            }
            if request.uri().path().contains("/leases") {
                if trouble.is_lease_cut.load(Ordering::Relaxed) {
                    trouble.note(&step, "lease cut");
                    let believed = guard.believed_lease().await.ok_or("the Lease is out of reach")?;
                    return Ok(Response::new(Either::Right(Full::from(serde_json::to_vec(&believed)?))));
                }
                guard.sees_lease();
            } else if is_write {
                guard.look_at(request.method(), request.uri().path()).await;
            }
            let request = guard.spoil(request);
            if is_write && trouble.hits(rates.crash) {
                trouble.note(&step, "crash before");
                trouble.crashed.notify_one();
                return std::future::pending().await;
            }
            let answer = match Service::call(&mut server, request).await {
                Ok(answer) => Ok(answer.map(Either::Left)),
                Err(never) => match never {},
            };
            if is_write && trouble.hits(rates.crash) {
                trouble.note(&step, "crash after");
                trouble.crashed.notify_one();
                return std::future::pending().await;
            }
            if trouble.hits(rates.lost_answer) {
                trouble.note(&step, "answer lost");
                return Err("the answer was lost".into());
            }
            answer
        })
    }
}

/// `PATCH nodeclaims/status`: the method, and what it is about without names.
fn step_of(method: &Method, path: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let at = if parts.first() == Some(&"api") { 2 } else { 3 };
    let rest = parts.get(at..).unwrap_or_default();
    let rest = if rest.first() == Some(&"namespaces") && rest.len() > 2 { &rest[2..] } else { rest };
    match rest {
        [plural] | [plural, _] => format!("{method} {plural}"),
        [plural, _, subresource, ..] => format!("{method} {plural}/{subresource}"),
        [] => method.to_string(),
    }
}
