//! The queue of writes: what is to be written, in order for each object, a bounded number at a time.

use std::collections::VecDeque;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rustc_hash::FxHashSet;

/// What a write is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum WriteTarget {
    /// The Node of this name.
    Node(String),
    /// The Lease of the node of this name.
    Lease(String),
    /// The pod of this UID.
    Pod(String),
    /// An event, which nothing waits for.
    Event(u64),
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was done; of a created Node, its UID.
    Done(Option<String>),
    /// The object is not there.
    Gone,
    /// It was refused for good.
    Refused,
    /// It was not done, or nobody knows: once more, a little later.
    Again,
}

/// Writes that wait and writes on their way.
#[derive(Default)]
pub(crate) struct Writes {
    /// Nodes and Leases: a node whose heartbeats wait for the statuses of all pods counts as lost.
    heartbeats: VecDeque<WriteTarget>,
    waiting: VecDeque<WriteTarget>,
    /// Those in the queues, and those that wait for one on its way to end.
    wanted: FxHashSet<WriteTarget>,
    busy: FxHashSet<WriteTarget>,
    pub(crate) in_flight: FuturesUnordered<BoxFuture<'static, (WriteTarget, Outcome)>>,
}

// === impl Writes ===

impl Writes {
    /// Something about this object is to be written.
    pub(crate) fn want(&mut self, key: WriteTarget) {
        if self.wanted.insert(key.clone()) && !self.busy.contains(&key) {
            self.line_up(key);
        }
    }

    fn line_up(&mut self, key: WriteTarget) {
        match key {
            WriteTarget::Node(_) | WriteTarget::Lease(_) => self.heartbeats.push_back(key),
            WriteTarget::Pod(_) | WriteTarget::Event(_) => self.waiting.push_back(key),
        }
    }

    /// The next object to write, unless `most` writes are on their way.
    pub(crate) fn next(&mut self, most: usize) -> Option<WriteTarget> {
        if self.in_flight.len() >= most {
            return None;
        }
        let key = self.heartbeats.pop_front().or_else(|| self.waiting.pop_front())?;
        self.wanted.remove(&key);
        Some(key)
    }

    /// Sends a write on its way.
    pub(crate) fn begin(&mut self, key: WriteTarget, write: BoxFuture<'static, Outcome>) {
        self.busy.insert(key.clone());
        self.in_flight.push(Box::pin(async move { (key, write.await) }));
    }

    /// A write has ended.
    pub(crate) fn end(&mut self, key: &WriteTarget) {
        self.busy.remove(key);
        if self.wanted.contains(key) {
            self.line_up(key.clone());
        }
    }
}

/// What an answer of the API server means.
pub(crate) fn outcome<T>(answer: Result<T, kube::Error>, uid: impl FnOnce(&T) -> Option<String>) -> Outcome {
    match answer {
        Ok(object) => Outcome::Done(uid(&object)),
        Err(kube::Error::Api(status)) => match status.code {
            404 => Outcome::Gone,
            // A conflict over the UID ends with the watch, which says that the pod is gone; any other passes.
            409 | 429 => Outcome::Again,
            code if code >= 500 => Outcome::Again,
            _ => Outcome::Refused,
        },
        Err(_) => Outcome::Again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_do_not_wait_for_the_statuses_of_pods() {
        let mut writes = Writes::default();
        let (pod, lease) = (|n: u32| WriteTarget::Pod(n.to_string()), WriteTarget::Lease("a".to_owned()));
        (0..100).for_each(|n| writes.want(pod(n)));
        writes.want(lease.clone());
        assert_eq!(writes.next(64), Some(lease.clone()));
        // The next one is due before this one has ended.
        writes.begin(lease.clone(), Box::pin(std::future::pending()));
        writes.want(lease.clone());
        assert_eq!(writes.next(64), Some(pod(0)));
        writes.end(&lease);
        assert_eq!(writes.next(64), Some(lease));
        assert_eq!(writes.next(64), Some(pod(1)));
    }
}
