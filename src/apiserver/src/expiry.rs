//! Events live for a time after their last write, as those that the real server keeps in etcd on a lease.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::server::ApiServer;
use crate::store::Object;

/// The collection whose objects expire.
pub(crate) const EVENTS: &str = "events";

/// When which event expires, unless it is written again: in order of time, since all live equally long.
#[derive(Debug)]
pub(crate) struct Expiries {
    ttl: Duration,
    queue: Mutex<VecDeque<Expiry>>,
}

#[derive(Debug)]
struct Expiry {
    at: Instant,
    key: Box<str>,
    /// The write that this is about: a later one has an expiry of its own.
    revision: u64,
}

// === impl Expiries ===

impl Expiries {
    pub(crate) fn after(ttl: Duration) -> Self {
        Self { ttl, queue: Mutex::default() }
    }

    fn due(&self, now: Instant) -> Vec<Expiry> {
        let mut queue = self.queue.lock();
        let count = queue.partition_point(|expiry| expiry.at <= now);
        queue.drain(..count).collect()
    }
}

impl ApiServer {
    /// Starts the time of an event that was just written.
    pub(crate) fn keep_event(&self, event: &Object) {
        let expiries = &self.inner.expiries;
        // One that would outlive the clock stays.
        let Some(at) = Instant::now().checked_add(expiries.ttl) else { return };
        expiries.queue.lock().push_back(Expiry { at, key: event.key.clone(), revision: event.revision });
    }

    /// When the next event may expire.
    pub(crate) fn next_event_expiry(&self) -> Option<Instant> {
        self.inner.expiries.queue.lock().front().map(|expiry| expiry.at)
    }

    /// Deletes the events whose time is over.
    pub(crate) fn expire_events(&self) {
        let now = Instant::now();
        if self.next_event_expiry().is_none_or(|at| at > now) {
            return;
        }
        let Some(resource) = self.registry().get("", "v1", EVENTS).cloned() else { return };
        for expiry in self.inner.expiries.due(now) {
            let stored = self.inner.store.get(EVENTS, &expiry.key);
            if let Some(event) = stored.filter(|event| event.revision == expiry.revision) {
                let last = crate::verbs::draft(&resource, &mut event.value());
                // Refused only where another write came between, which gave the event a new time.
                let _ = self.inner.store.delete(EVENTS, &expiry.key, expiry.revision, last);
            }
        }
    }
}
