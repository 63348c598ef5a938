//! Trouble on purpose, by seed: delays and refusals before or after a write took effect, watches that end early.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::clock::Entropy;
use crate::status::ApiError;

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
    /// Writes: 500 or a lost answer after the write took effect.
    pub error_after: u16,
    /// Watch events, each: the watch ends before it, and the client starts again.
    pub watch_end: u16,
    /// Watch events, each: the watch ends with 410 before it.
    pub watch_expired: u16,
    /// Watch events, each: held back for up to `latency_max`.
    pub watch_delay: u16,
}

/// What befalls one request.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) delay: Option<Duration>,
    pub(crate) refuse: Option<ApiError>,
    pub(crate) refuse_after: Option<ApiError>,
}

/// What befalls one event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnEvent {
    Pass,
    Delay(Duration),
    End,
    Expire,
}

impl Faults {
    /// Faults at given rates; the seed decides which requests they befall.
    pub fn seeded(seed: u64, rates: FaultRates) -> Self {
        Self { rates, dice: Some(Arc::new(Entropy::seeded(seed))) }
    }

    fn hits(&self, share: u16) -> bool {
        share > 0 && self.dice.as_ref().is_some_and(|dice| dice.next() % 1000 < u64::from(share))
    }

    fn delay(&self) -> Duration {
        let max = u64::try_from(self.rates.latency_max.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.dice.as_ref().map_or(0, |dice| dice.next() % max))
    }

    pub(crate) fn before(&self, method: &Method, path: &str) -> Before {
        let mut out = Before::default();
        if self.dice.is_none() || !(path.starts_with("/api/") || path.starts_with("/apis/")) {
            return out;
        }
        let changes = method == Method::PUT || method == Method::PATCH;
        let writes = changes || method == Method::POST || method == Method::DELETE;
        if self.hits(self.rates.latency) {
            out.delay = Some(self.delay());
        }
        if self.hits(self.rates.too_many_requests) {
            let text = "The server is currently unable to handle the request";
            out.refuse = Some(ApiError::too_many_requests(text, 1));
        } else if changes && self.hits(self.rates.conflict) {
            out.refuse = Some(ApiError::modified("", "objects", path.rsplit('/').next().unwrap_or_default()));
        } else if self.hits(self.rates.error_before) {
            out.refuse = Some(ApiError::internal("injected before the request was handled"));
        } else if writes && self.hits(self.rates.error_after) {
            out.refuse_after = Some(ApiError::internal("injected after the request was handled"));
        }
        out
    }

    /// Whether anything can go wrong.
    pub(crate) fn are_on(&self) -> bool {
        self.dice.is_some()
    }

    pub(crate) fn on_event(&self) -> OnEvent {
        if self.dice.is_none() {
            OnEvent::Pass
        } else if self.hits(self.rates.watch_end) {
            OnEvent::End
        } else if self.hits(self.rates.watch_expired) {
            OnEvent::Expire
        } else if self.hits(self.rates.watch_delay) {
            OnEvent::Delay(self.delay())
        } else {
            OnEvent::Pass
        }
    }
}
