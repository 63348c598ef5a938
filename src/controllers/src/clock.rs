//! The time of day as an argument: a start and tokio's time, which tests pause.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that shows a given time when it is made and goes on with tokio's time.
///
/// A tokio runtime whose time is paused moves the clock by sleeping, so hours pass in milliseconds.
#[derive(Debug, Clone)]
pub struct Clock {
    epoch: Timestamp,
    start: Instant,
}

// === impl Clock ===

impl Clock {
    /// A clock that shows `epoch` now. A program that runs in a cluster passes the wall clock's time.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: Instant::now() }
    }

    /// The present time.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// When tokio's time reaches `time`; now where that has passed.
    pub(crate) fn instant(&self, time: Timestamp) -> Instant {
        let left = Duration::try_from(time.duration_since(self.now())).unwrap_or(Duration::ZERO);
        // Instants cannot hold every duration; a day is looked at again.
        Instant::now() + left.min(Duration::from_secs(86_400))
    }
}

/// `time` that much later, at most the end of time.
pub(crate) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// `time` that much earlier, at least the beginning of time.
pub(crate) fn before(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}

/// How much later `now` is than `since`; zero where it is earlier.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// How long to wait after so many failures in a row: from the first wait to the longest, twice as long after each.
pub(crate) fn back_off((first, longest): (Duration, Duration), n_failures: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(n_failures)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_with_tokios_time() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits = (Duration::from_secs(1), Duration::from_secs(5));
        let all = [0, 1, 2, 3, u32::MAX].map(|n_failures| back_off(waits, n_failures).as_secs());
        assert_eq!(all, [1, 2, 4, 5, 5]);
    }

    #[test]
    fn time_that_runs_backwards_has_elapsed_by_nothing() {
        let (early, late): (Timestamp, Timestamp) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-01-01T00:00:05Z".parse().unwrap());
        assert_eq!(elapsed(early, late), Duration::from_secs(5));
        assert_eq!(elapsed(late, early), Duration::ZERO);
        assert_eq!(after(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
    }
}
