//! Until when this process may write: as long as nobody else can hold the lease.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Whether writes may be sent. Clones are the same fence.
#[derive(Debug, Clone)]
pub struct Fence {
    until: Arc<Mutex<Until>>,
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
        Self { until: Arc::new(Mutex::new(Until::Always)) }
    }

    /// A fence that is closed until a lease is held.
    pub fn closed() -> Self {
        Self { until: Arc::new(Mutex::new(Until::Over)) }
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
}

/// The lease is lost, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease is lost, or may be")]
pub struct Closed;

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
