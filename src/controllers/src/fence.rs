//! Until when this process may write: as long as nobody else can hold the lease.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often it is looked whether all requests are answered.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Whether writes may be sent. Clones are the same fence.
#[derive(Debug, Clone)]
pub struct Fence {
    until: Arc<Mutex<Until>>,
    sent: Arc<Mutex<Sent>>,
}

/// Requests that may take effect yet.
#[derive(Debug, Default)]
struct Sent {
    unanswered: usize,
    /// When one was given up last: the server may still come to it.
    given_up: Option<Instant>,
}

/// A request on its way. Dropped before it is [`answered`](Self::answered) it counts as given up.
#[derive(Debug)]
#[must_use]
pub(crate) struct Passage {
    /// When an answer must be there, as the request might otherwise take effect under another leader.
    pub(crate) deadline: Option<Instant>,
    sent: Arc<Mutex<Sent>>,
    is_answered: bool,
}

#[derive(Debug, Clone, Copy)]
enum Until {
    Always,
    Instant(Instant),
    Over,
}

// === impl Fence ===

impl Fence {
    /// A fence that is always open: there is no other process.
    pub fn open() -> Self {
        Self { until: Arc::new(Mutex::new(Until::Always)), sent: Arc::default() }
    }

    /// A fence that is closed until a lease is held.
    pub fn closed() -> Self {
        Self { until: Arc::new(Mutex::new(Until::Over)), sent: Arc::default() }
    }

    /// The lease was renewed: nobody else can hold it before `until`.
    pub(crate) fn extend(&self, until: Instant) {
        *self.until.lock() = Until::Instant(until);
    }

    /// The lease is lost or given up.
    pub(crate) fn close(&self) {
        *self.until.lock() = Until::Over;
    }

    /// When an answer must be there, as the write might otherwise take effect under another leader;
    /// `Err` where nothing may be sent any more, `Ok(None)` where there is no such end.
    pub(crate) fn deadline(&self) -> Result<Option<Instant>, Closed> {
        match *self.until.lock() {
            Until::Always => Ok(None),
            Until::Instant(until) if until > Instant::now() => Ok(Some(until)),
            Until::Instant(_) | Until::Over => Err(Closed),
        }
    }

    /// A request is sent, if any may be.
    pub(crate) fn pass(&self) -> Result<Passage, Closed> {
        let deadline = self.deadline()?;
        self.sent.lock().unanswered += 1;
        Ok(Passage { deadline, sent: Arc::clone(&self.sent), is_answered: false })
    }

    /// Waits so long for the answers to all requests, of a fence that is closed. False where one is missing, or was given up within
    /// the last `lease`: it may take effect yet.
    pub(crate) async fn is_settled(&self, patience: Duration, lease: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.sent.lock().unanswered > 0 && Instant::now() < end {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let sent = self.sent.lock();
        sent.unanswered == 0 && sent.given_up.is_none_or(|at| at.elapsed() >= lease)
    }
}

// === impl Passage ===

impl Passage {
    /// The answer is there, or is known not to matter.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut sent = self.sent.lock();
        sent.unanswered = sent.unanswered.saturating_sub(1);
        if !self.is_answered {
            sent.given_up = Some(Instant::now());
        }
    }
}

/// The lease is lost, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease is lost, or may be")]
pub struct Closed;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_by_itself_when_the_lease_may_be_lost() {
        let fence = Fence::closed();
        assert_eq!(fence.deadline(), Err(Closed));
        let until = Instant::now() + Duration::from_secs(10);
        fence.extend(until);
        assert_eq!(fence.deadline(), Ok(Some(until)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(fence.deadline(), Err(Closed));
    }

    /// The regression: a lease was given back while requests were on their way, which took effect under the next leader.
    #[tokio::test(start_paused = true)]
    async fn a_fence_is_settled_once_every_request_is_answered() {
        let (patience, lease) = (Duration::from_millis(500), Duration::from_secs(15));
        let fence = Fence::open();
        let (first, second) = (fence.pass().unwrap(), fence.pass().unwrap());
        fence.close();
        assert!(fence.pass().is_err());
        first.answered();
        assert!(!fence.is_settled(patience, lease).await, "one is not answered");
        let answer = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            second.answered();
        };
        assert!(tokio::join!(fence.is_settled(patience, lease), answer).0);
        let fence = Fence::open();
        drop(fence.pass().unwrap());
        assert!(!fence.is_settled(patience, lease).await, "one was given up");
        tokio::time::sleep(lease).await;
        assert!(fence.is_settled(patience, lease).await);
    }
}
