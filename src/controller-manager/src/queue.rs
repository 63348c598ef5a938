//! The work queue: each piece of work waits once, is never done twice at a time, and waits longer each time it fails.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use crate::work::Work;

/// Upstream's rate-limited, delaying work queue.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    ready: VecDeque<Work>,
    /// What is in `ready`.
    waiting: FxHashSet<Work>,
    /// What was taken and is not done; `true` if it was added again meanwhile.
    processing: FxHashMap<Work, bool>,
    delayed: BTreeMap<(Instant, u64), Work>,
    due: FxHashMap<Work, (Instant, u64)>,
    failures: FxHashMap<Work, u32>,
    sequence: u64,
    retry: (Duration, Duration),
}

impl WorkQueue {
    pub(crate) fn new(retry: (Duration, Duration)) -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: FxHashSet::default(),
            processing: FxHashMap::default(),
            delayed: BTreeMap::new(),
            due: FxHashMap::default(),
            failures: FxHashMap::default(),
            sequence: 0,
            retry,
        }
    }

    /// Adds work to the end, unless it waits already. Work that is being processed waits until that is done.
    pub(crate) fn add(&mut self, work: Work) {
        if let Some(again) = self.processing.get_mut(&work) {
            *again = true;
        } else if self.waiting.insert(work.clone()) {
            self.ready.push_back(work);
        }
    }

    /// Adds work at a time; the earliest of several times holds.
    pub(crate) fn add_at(&mut self, work: Work, at: Instant) {
        if let Some(known) = self.due.get(&work) {
            if known.0 <= at {
                return;
            }
            self.delayed.remove(known);
        }
        self.sequence += 1;
        let place = (at, self.sequence);
        self.due.insert(work.clone(), place);
        self.delayed.insert(place, work);
    }

    /// Adds work after a time.
    pub(crate) fn add_after(&mut self, work: Work, after: Duration) {
        self.add_at(work, Instant::now() + after);
    }

    /// Moves what is due to the end of the queue.
    pub(crate) fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let work = entry.remove();
            self.due.remove(&work);
            self.add(work);
        }
    }

    /// Whether work waits for its time.
    pub(crate) fn is_due(&self, work: &Work) -> bool {
        self.due.contains_key(work)
    }

    /// When the next delayed work is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// The next work, which is being processed from now on.
    pub(crate) fn take(&mut self) -> Option<Work> {
        let work = self.ready.pop_front()?;
        self.waiting.remove(&work);
        self.processing.insert(work.clone(), false);
        Some(work)
    }

    /// Ends the processing of work.
    pub(crate) fn done(&mut self, work: Work, succeeded: bool) {
        let again = self.processing.remove(&work).unwrap_or(false);
        if succeeded {
            self.failures.remove(&work);
        } else {
            let failures = self.failures.entry(work.clone()).or_insert(0);
            let wait = self.retry.0.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX)).min(self.retry.1);
            *failures = failures.saturating_add(1);
            self.add_after(work, wait);
            // What changed meanwhile waits as well: it would most likely meet the same error.
            return;
        }
        if again {
            self.add(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::NamespacedName;

    fn work(name: &str) -> Work {
        Work::Deployment(NamespacedName::new("default", name))
    }

    fn queue() -> WorkQueue {
        WorkQueue::new((Duration::from_millis(5), Duration::from_secs(1)))
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_once_and_is_not_done_twice_at_a_time() {
        let mut queue = queue();
        queue.add(work("a"));
        queue.add(work("a"));
        queue.add(work("b"));
        assert_eq!(queue.take(), Some(work("a")));
        queue.add(work("a"));
        assert_eq!(queue.take(), Some(work("b")));
        assert_eq!(queue.take(), None);
        queue.done(work("a"), true);
        queue.done(work("b"), true);
        assert_eq!((queue.take(), queue.take()), (Some(work("a")), None));
    }

    #[tokio::test(start_paused = true)]
    async fn failing_work_waits_twice_as_long_each_time_up_to_a_bound() {
        let mut queue = queue();
        let mut waits = Vec::new();
        queue.add(work("a"));
        for _ in 0..10 {
            queue.take().unwrap();
            queue.done(work("a"), false);
            let due = queue.next_due().unwrap();
            waits.push((due - Instant::now()).as_millis());
            tokio::time::sleep_until(due).await;
            queue.wake(Instant::now());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        queue.take().unwrap();
        queue.done(work("a"), true);
        queue.add(work("a"));
        queue.take().unwrap();
        queue.done(work("a"), false);
        assert_eq!((queue.next_due().unwrap() - Instant::now()).as_millis(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_times_the_earliest_holds() {
        let mut queue = queue();
        let start = Instant::now();
        queue.add_after(work("a"), Duration::from_secs(9));
        queue.add_after(work("a"), Duration::from_secs(3));
        queue.add_after(work("a"), Duration::from_secs(5));
        assert_eq!(queue.next_due(), Some(start + Duration::from_secs(3)));
        queue.wake(start + Duration::from_secs(3));
        assert_eq!((queue.take(), queue.next_due()), (Some(work("a")), None));
    }
}
