//! Trouble between the controllers and the API server: lost requests, lost answers, delays, and crashes at single writes; and
//! at any write all that can befall one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_apiserver::ApiServer;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tower_service::Service;

use crate::guard::Guard;

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A splitmix64 sequence: the same seed, the same trouble.
#[derive(Debug, Clone, Default)]
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
    /// Of writes alone: whether one of [`FAULTS`] befalls it, times how seldom its step is.
    pub(crate) at_writes: u64,
}

/// What can befall a write.
pub(crate) const FAULTS: [&str; 12] = [
    "conflict",
    "request lost",
    "answer lost",
    "late",
    "throttled",
    "server gone",
    "crash before",
    "crash after",
    "watch gap",
    "relist",
    "stale reads",
    "lease lost",
];

/// How often a step is taken in a play: what is seldom is hit more often, so that each is hit about twice.
fn seldom(step: &str) -> u64 {
    match step {
        "POST events" | "PATCH events" => 3,
        "PATCH nodeclaims/status" => 4,
        "PATCH nodepools/status" | "PATCH nodeclaims" | "PATCH nodes" => 9,
        "PUT leases" => 11,
        "POST pods/binding" => 16,
        "PATCH pods/status" => 18,
        "POST nodeclaims" => 25,
        "POST pods/eviction" | "DELETE nodes" => 70,
        "PATCH reservations/status" => 45,
        "PATCH persistentvolumeclaims" => 55,
        "PATCH nodepools" => 85,
        "DELETE reservations" => 105,
        // Nearly all there are.
        "DELETE nodeclaims" | "POST leases" => 120,
        _ => 100,
    }
}

/// Slots are taken away while a write is sent.
pub(crate) const SLOTS_GO: &str = "slots go";

/// What can befall a call of the cloud that changes something.
pub(crate) const FAULTS_OF_CLOUD: [&str; 5] =
    ["Throttled", "Unavailable", "OutcomeUnknown", "crash before", "crash after"];
/// The same of a launch, beside these: nothing is left of what it asks for, or is paid for.
pub(crate) const FAULTS_OF_LAUNCH: [&str; 2] = [SOLD_OUT, "InsufficientCapacity"];
/// Nothing is left of the offerings of a launch for a while.
pub(crate) const SOLD_OUT: &str = "sold out";

/// What befell which write, so many times.
pub(crate) type Table = BTreeMap<(String, &'static str), u32>;

/// Trouble that processes share; each crashes for itself.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    inner: Arc<Inner>,
    crashed: Arc<Notify>,
    /// Whether the process cannot reach its Lease, and all else it can.
    is_lease_cut: Arc<AtomicBool>,
    /// Its watches are cut.
    cut: Arc<Notify>,
    spells: Arc<Mutex<Spells>>,
}

/// What lasts for a while.
#[derive(Debug, Clone, Copy, Default)]
struct Spells {
    /// Nothing answers.
    gone: Option<Instant>,
    /// The server has forgotten what watches ask for.
    forgets: Option<Instant>,
    /// Watches tell nothing; later they tell all.
    stale: Option<Instant>,
    /// The Lease is out of reach.
    lease: Option<Instant>,
}

fn lasts(spell: Option<Instant>) -> bool {
    spell.is_some_and(|until| Instant::now() < until)
}

#[derive(Debug, Default)]
struct Inner {
    dice: Mutex<Dice>,
    rates: Mutex<Rates>,
    table: Mutex<Table>,
    /// Where among the kinds of faults the play begins and by which stride it goes on, and where each step is: each kind has
    /// its turn.
    turns: (u64, u64, Mutex<BTreeMap<String, u64>>),
    /// How many requests came since when: time that stands still would otherwise never end.
    pace: Mutex<Option<(Instant, u32)>>,
    /// What befalls the write that comes after so many others.
    armed: Mutex<Option<(u32, &'static str)>>,
    /// That write came.
    reached: Notify,
}

/// More requests than this in a second are a process that does not rest.
const MOST_A_SECOND: u32 = 20_000;

impl Trouble {
    pub(crate) fn new(seed: u64, rates: Rates) -> Self {
        // Seeds that are even and odd play different things: both begin at each kind.
        let stride = [1, 5, 7, 11][usize::try_from(seed / 24 % 4).unwrap()];
        let turns = (seed / 2 * 7, stride, Mutex::default());
        let (dice, rates) = (Mutex::new(Dice::new(seed)), Mutex::new(rates));
        Self::around(Arc::new(Inner { dice, rates, turns, ..Inner::default() }))
    }

    fn around(inner: Arc<Inner>) -> Self {
        let (crashed, is_lease_cut, cut, spells) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        Self { inner, crashed, is_lease_cut, cut, spells }
    }

    /// The trouble of another process.
    pub(crate) fn of_another(&self) -> Self {
        Self::around(Arc::clone(&self.inner))
    }

    /// A number below this one, of the play's own dice.
    pub(crate) fn roll(&self, sides: u64) -> u64 {
        self.inner.dice.lock().roll(sides)
    }

    /// Whether something is meant to befall processes still.
    pub(crate) fn is_on(&self) -> bool {
        self.inner.rates.lock().at_writes > 0
    }

    /// Takes in one more request; whether there are too many.
    fn is_restless(&self) -> bool {
        let mut pace = self.inner.pace.lock();
        let known = pace.filter(|(since, _)| since.elapsed() < Duration::from_secs(1));
        let (since, n) = known.unwrap_or_else(|| (Instant::now(), 0));
        *pace = Some((since, n + 1));
        n >= MOST_A_SECOND
    }

    /// Cuts the watches that are open.
    fn cut_watches(&self) {
        self.cut.notify_waiters();
    }

    /// Something lasts from now on, for at most so many seconds.
    fn begin(&self, spell: impl Fn(&mut Spells) -> &mut Option<Instant>, seconds: u64) {
        let lasts = Duration::from_millis(500 + self.roll(seconds * 1000 - 500));
        *spell(&mut self.spells.lock()) = Some(Instant::now() + lasts);
    }

    /// What befalls a write now, if anything.
    fn fault_at(&self, step: &str) -> Option<&'static str> {
        let at_writes = self.inner.rates.lock().at_writes;
        if at_writes > 0 {
            self.note(step, "writes");
        }
        if !self.hits(at_writes * seldom(step)) {
            return None;
        }
        let fault = FAULTS[self.turn_of(step, FAULTS.len())];
        self.note(step, fault);
        Some(fault)
    }

    /// Which of so many kinds of faults befalls a step now.
    fn turn_of(&self, step: &str, n_kinds: usize) -> usize {
        let (begin, stride, befell) = &self.inner.turns;
        let mut befell = befell.lock();
        let turn = befell.entry(step.to_owned()).or_insert_with(|| begin + step.bytes().map(u64::from).sum::<u64>());
        *turn += stride;
        usize::try_from(*turn % n_kinds as u64).unwrap()
    }

    /// One thing befalls the write, or the call of the cloud that changes something, that comes after so many others; Leases
    /// and events do not count.
    pub(crate) fn arm(&self, after: u32, fault: &'static str) {
        *self.inner.armed.lock() = Some((after, fault));
    }

    /// How many must come yet before that; `None` where it has come.
    pub(crate) fn to_come(&self) -> Option<u32> {
        self.inner.armed.lock().map(|(left, _)| left)
    }

    /// The write at which [`SLOTS_GO`] was to befall it is being sent.
    pub(crate) async fn reached(&self) {
        self.inner.reached.notified().await;
    }

    fn armed_fault(&self, step: &str) -> Option<&'static str> {
        let mut armed = self.inner.armed.lock();
        let (left, fault) = armed.as_mut().filter(|_| !step.ends_with(" leases") && !step.ends_with(" events"))?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let fault = *fault;
        *armed = None;
        drop(armed);
        self.note(step, fault);
        if fault == SLOTS_GO {
            self.inner.reached.notify_one();
        }
        Some(fault)
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

    /// The same of a call of the cloud that changes something.
    pub(crate) fn fault_of_cloud(&self, step: &str) -> Option<&'static str> {
        if let Some(fault) = self.armed_fault(step) {
            return Some(fault);
        }
        let rate = self.inner.rates.lock().at_writes * 8;
        if !self.hits(rate) {
            return None;
        }
        let faults = ["crash before", "crash after", SOLD_OUT];
        let n = if step == "cloud create" { faults.len() } else { 2 };
        let fault = faults[self.turn_of(step, n)];
        self.note(step, fault);
        Some(fault)
    }

    fn hits(&self, share: u64) -> bool {
        share > 0 && self.inner.dice.lock().roll(1000) < share
    }

    pub(crate) fn note(&self, step: &str, what: &'static str) {
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
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (mut server, trouble, guard) = (self.server.clone(), self.trouble.clone(), self.guard.clone());
        Box::pin(async move {
            if trouble.is_restless() {
                guard.saw(format!("more than {MOST_A_SECOND} requests in a second, {} the last", request.uri().path()));
                return std::future::pending().await;
            }
            let rates = *trouble.inner.rates.lock();
            let is_write = request.method() != Method::GET;
            let step = if is_write { step_of(request.method(), request.uri().path()) } else { "read".to_owned() };
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let spells = *trouble.spells.lock();
            if lasts(spells.gone) {
                return Err("connection refused".into());
            }
            if is_watch && lasts(spells.forgets) {
                return Ok(status(410, "Expired", "too old resource version"));
            }
            let fault = if is_write { trouble.armed_fault(&step).or_else(|| trouble.fault_at(&step)) } else { None };
            match fault {
                Some("conflict") => return Ok(status(409, "Conflict", "the object has been modified")),
                Some("throttled") => return Ok(status(429, "TooManyRequests", "too many requests")),
                Some("request lost") => return Err("the request was lost".into()),
                Some("server gone") => {
                    trouble.begin(|spells| &mut spells.gone, 5);
                    trouble.cut_watches();
                    return Err("connection refused".into());
                }
                Some("crash before") => {
                    trouble.crashed.notify_one();
                    return std::future::pending().await;
                }
                Some("watch gap") => trouble.cut_watches(),
                Some("relist") => {
                    trouble.begin(|spells| &mut spells.forgets, 2);
                    trouble.cut_watches();
                }
                Some("stale reads") => trouble.begin(|spells| &mut spells.stale, 8),
                Some("lease lost") => trouble.begin(|spells| &mut spells.lease, 40),
                Some(SLOTS_GO) => tokio::time::sleep(Duration::from_millis(1)).await,
                Some("late") => tokio::time::sleep(Duration::from_millis(trouble.roll(40_000))).await,
                _ => {}
            }
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
                if trouble.is_lease_cut.load(Ordering::Relaxed) || lasts(spells.lease) {
                    trouble.note(&step, "lease cut");
                    let believed = guard.believed_lease().await.ok_or("the Lease is out of reach")?;
                    return Ok(Response::new(whole(serde_json::to_vec(&believed)?)));
                }
                guard.sees_lease();
            } else if is_write {
                guard.look_at(request.method(), request.uri().path(), server.now()).await;
            }
            let request = guard.spoil(request);
            if is_write && trouble.hits(rates.crash) {
                trouble.note(&step, "crash before");
                trouble.crashed.notify_one();
                return std::future::pending().await;
            }
            let answer = match Service::call(&mut server, request).await {
                Ok(answer) if is_watch => Ok(answer.map(|body| trouble.watched(body))),
                Ok(answer) => Ok(answer.map(BodyExt::boxed_unsync)),
                Err(never) => match never {},
            };
            match fault {
                Some("crash after") => {
                    trouble.crashed.notify_one();
                    return std::future::pending().await;
                }
                Some("answer lost") => return Err("the answer was lost".into()),
                _ => {}
            }
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

impl Trouble {
    /// A watch as the process sees it: it may be cut, and it may be late.
    fn watched(&self, body: berth_apiserver::Body) -> Body {
        let (spells, cut) = (Arc::clone(&self.spells), Box::pin(Arc::clone(&self.cut).notified_owned()));
        let frames = futures::stream::unfold((body, cut), move |(mut body, mut cut)| {
            let spells = Arc::clone(&spells);
            async move {
                let frame = tokio::select! {
                    biased;
                    () = &mut cut => return None,
                    frame = body.frame() => frame?,
                };
                let until = spells.lock().stale;
                if let Some(until) = until {
                    tokio::select! {
                        biased;
                        () = &mut cut => return None,
                        () = tokio::time::sleep_until(until) => {}
                    }
                }
                Some((frame, (body, cut)))
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

fn whole(text: Vec<u8>) -> Body {
    Full::from(text).boxed_unsync()
}

/// What an API server says of a request that it does not carry out.
fn status(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": code});
    let mut response = Response::new(whole(status.to_string().into_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
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
