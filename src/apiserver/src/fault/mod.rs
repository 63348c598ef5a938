//! Trouble on purpose, by seed, as a layer around a server: requests that are delayed, refused, lost or answered with old
//! news, watches that end or have gaps, a server that is gone for a while.
//!
//! The server itself knows nothing of it. [`Faulty`] is a `tower::Service` as the server is, so a client of one is a client
//! of the other.

mod layer;
mod lines;

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::clock::Entropy;

pub use layer::{Faulty, Gone};

/// How often what goes wrong. Shares are in thousandths of the requests that they can befall; all zero by default.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    rates: FaultRates,
    dice: Option<Arc<Entropy>>,
}

/// Shares in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Any request: answered late, by up to `latency_max`.
    pub latency: u16,
    /// The longest delay.
    pub latency_max: Duration,
    /// Any request: 429 with a second to wait.
    pub too_many_requests: u16,
    /// Updates and patches: 409 although nothing changed.
    pub conflict: u16,
    /// Any request: 500 before anything happened.
    pub error_before: u16,
    /// Writes: 500 after the write took effect.
    pub error_after: u16,
    /// Any request: 504 before anything happened.
    pub timeout_before: u16,
    /// Writes: 504 after the write took effect.
    pub timeout_after: u16,
    /// Any request: the connection breaks before anything happened.
    pub lost_before: u16,
    /// Writes: the connection breaks after the write took effect, so that nobody hears of it.
    pub lost_after: u16,
    /// Reads of one object or a list: answered as the same request was answered before, where it was.
    pub stale_read: u16,
    /// Any request: from it on the server is gone, for up to `outage_max`. Requests fail, and all watches end.
    pub outage: u16,
    /// The longest time that the server is gone.
    pub outage_max: Duration,
    /// Watch events, each: the watch ends before it, and the client starts again.
    pub watch_end: u16,
    /// Watch events, each: the watch ends with 410 before it.
    pub watch_expired: u16,
    /// Watch events, each: held back for up to `latency_max`.
    pub watch_delay: u16,
}

/// What befalls one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fate {
    delay: Option<Duration>,
    before: Option<Trouble>,
    after: Option<Trouble>,
    is_stale: bool,
    outage: Option<Duration>,
}

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    TooManyRequests,
    Conflict,
    Error,
    Timeout,
    Lost,
}

/// What befalls one event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnEvent {
    Pass,
    Delay(Duration),
    End,
    Expire,
}

// === impl Faults ===

impl Faults {
    /// Faults at given rates; the seed decides which requests they befall.
    pub fn seeded(seed: u64, rates: FaultRates) -> Self {
        Self { rates, dice: Some(Arc::new(Entropy::seeded(seed))) }
    }

    /// A service with these faults; with those of `Faults::default()` it is the service itself.
    pub fn around<S>(self, service: S) -> Faulty<S> {
        Faulty::new(service, self)
    }

    fn hits(&self, share: u16) -> bool {
        share > 0 && self.dice.as_ref().is_some_and(|dice| dice.next() % 1000 < u64::from(share))
    }

    fn up_to(&self, longest: Duration) -> Duration {
        let max = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.dice.as_ref().map_or(0, |dice| dice.next() % max))
    }

    /// What befalls a request. Discovery and health are left alone.
    fn fate(&self, method: &Method, path: &str, is_watch: bool) -> Fate {
        let mut fate = Fate::default();
        if self.dice.is_none() || !(path.starts_with("/api/") || path.starts_with("/apis/")) {
            return fate;
        }
        let rates = &self.rates;
        let changes = method == Method::PUT || method == Method::PATCH;
        let writes = changes || method == Method::POST || method == Method::DELETE;
        if self.hits(rates.latency) {
            fate.delay = Some(self.up_to(rates.latency_max));
        }
        if self.hits(rates.outage) {
            fate.outage = Some(self.up_to(rates.outage_max));
        }
        for (trouble, share, can) in [
            (Trouble::TooManyRequests, rates.too_many_requests, true),
            (Trouble::Conflict, rates.conflict, changes),
            (Trouble::Error, rates.error_before, true),
            (Trouble::Timeout, rates.timeout_before, true),
            (Trouble::Lost, rates.lost_before, true),
        ] {
            if can && self.hits(share) {
                fate.before = Some(trouble);
                return fate;
            }
        }
        for (trouble, share) in [
            (Trouble::Error, rates.error_after),
            (Trouble::Timeout, rates.timeout_after),
            (Trouble::Lost, rates.lost_after),
        ] {
            if writes && self.hits(share) {
                fate.after = Some(trouble);
                return fate;
            }
        }
        fate.is_stale = method == Method::GET && !is_watch && self.hits(rates.stale_read);
        fate
    }

    fn on_event(&self) -> OnEvent {
        if self.hits(self.rates.watch_end) {
            OnEvent::End
        } else if self.hits(self.rates.watch_expired) {
            OnEvent::Expire
        } else if self.hits(self.rates.watch_delay) {
            OnEvent::Delay(self.up_to(self.rates.latency_max))
        } else {
            OnEvent::Pass
        }
    }
}
