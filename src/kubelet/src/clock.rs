//! The kubelets' time: tokio's, from an epoch.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Timestamp,
    start: Instant,
}

impl Clock {
    pub(crate) fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: Instant::now() }
    }

    pub(crate) fn now(self) -> Timestamp {
        later(self.epoch, self.start.elapsed())
    }

    /// When tokio's time will be `time`; now where that has passed.
    pub(crate) fn instant(self, time: Timestamp) -> Instant {
        let wait = time.duration_since(self.now());
        // Instants cannot hold every duration; whoever waits looks again after a day.
        Instant::now() + Duration::try_from(wait).unwrap_or_default().min(Duration::from_secs(86_400))
    }
}

/// `time` and `by`, or the end of all time.
pub(crate) fn later(time: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| time.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}
