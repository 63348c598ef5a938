//! The cloud's time: tokio's, from an epoch.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    epoch: Timestamp,
    start: Instant,
}

impl Clock {
    pub(super) fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: Instant::now() }
    }

    pub(super) fn now(self) -> Timestamp {
        later(self.epoch, self.start.elapsed())
    }

    /// When tokio's time will be `time`; now where that has passed.
    pub(super) fn instant(self, time: Timestamp) -> Instant {
        let wait = time.duration_since(self.now());
        // Instants cannot hold every duration; whoever waits looks again after a day.
        Instant::now() + Duration::try_from(wait).unwrap_or_default().min(Duration::from_secs(86_400))
    }
}

/// `time` and `by`, or the end of all time.
pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| time.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// `time` less `by`, or the beginning of all time.
pub(super) fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| time.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}
