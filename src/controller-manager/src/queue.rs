//! The work queue: each piece of work waits once, is never done twice at a time, and waits longer each time it fails.
//! What makes and ends pods goes before what sums them up.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use crate::work::Work;

/// Other work that is taken while a summary waits, before it has its turn.
const TURNS: usize = 8;

/// Upstream's rate-limited, delaying work queue, with two priorities.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    ready: VecDeque<Work>,
    /// Of [`Work::is_summary`].
    summaries: VecDeque<Work>,
    /// Work that was taken since a summary was, or none waited.
    turns: usize,
    /// How many summaries may be processed at a time, and are.
    most_summaries: usize,
    summaries_processing: usize,
    /// What is in `ready` and `summaries`.
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
    pub(crate) fn new(retry: (Duration, Duration), most_summaries: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            summaries: VecDeque::new(),
            turns: 0,
            most_summaries: most_summaries.max(1),
            summaries_processing: 0,
            waiting: FxHashSet::default(),
            processing: FxHashMap::default(),
            delayed: BTreeMap::new(),
            due: FxHashMap::default(),
            failures: FxHashMap::default(),
            sequence: 0,
            retry,
        }
    }

    /// Adds work to the end of its priority, unless it waits already. Work that is being processed waits until that is done.
    pub(crate) fn add(&mut self, work: Work) {
        if let Some(again) = self.processing.get_mut(&work) {
            *again = true;
        } else if self.waiting.insert(work.clone()) {
            if work.is_summary() {
                self.summaries.push_back(work);
            } else {
                self.ready.push_back(work);
            }
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

    /// Whether there is work that can be taken now; `is_calm` lets summaries be taken.
    pub(crate) fn has_next(&self, is_calm: bool) -> bool {
        !self.ready.is_empty() || (is_calm && self.has_next_summary())
    }

    /// Whether there is a summary that may be processed.
    pub(crate) fn has_next_summary(&self) -> bool {
        !self.summaries.is_empty() && self.summaries_processing < self.most_summaries
    }

    /// The next work, which is being processed from now on. A summary is taken in a calm, or when it has waited for its turn.
    pub(crate) fn take(&mut self, is_calm: bool) -> Option<Work> {
        let has_turn = self.turns >= TURNS || (is_calm && self.ready.is_empty());
        let takes_summary = has_turn && self.has_next_summary();
        let work = if takes_summary {
            self.turns = 0;
            self.summaries_processing += 1;
            self.summaries.pop_front()?
        } else {
            self.turns = if self.summaries.is_empty() { 0 } else { self.turns + 1 };
            self.ready.pop_front()?
        };
        self.waiting.remove(&work);
        self.processing.insert(work.clone(), false);
        Some(work)
    }

    /// Ends the processing of work.
    pub(crate) fn done(&mut self, work: Work, succeeded: bool) {
        let known = self.processing.remove(&work);
        if known.is_some() && work.is_summary() {
            self.summaries_processing = self.summaries_processing.saturating_sub(1);
        }
        let again = known.unwrap_or(false);
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
        WorkQueue::new((Duration::from_millis(5), Duration::from_secs(1)), 2)
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_once_and_is_not_done_twice_at_a_time() {
        let mut queue = queue();
        queue.add(work("a"));
        queue.add(work("a"));
        queue.add(work("b"));
        assert_eq!(queue.take(true), Some(work("a")));
        queue.add(work("a"));
        assert_eq!(queue.take(true), Some(work("b")));
        assert_eq!(queue.take(true), None);
        queue.done(work("a"), true);
        queue.done(work("b"), true);
        assert_eq!((queue.take(true), queue.take(true)), (Some(work("a")), None));
    }

    #[test]
    fn summaries_wait_for_the_work_that_they_sum_up_and_still_have_their_turn() {
        let endpoints = |n: usize| Work::Endpoints(NamespacedName::new("default", &n.to_string()));
        let mut queue = queue();
        (0..3).for_each(|n| queue.add(endpoints(n)));
        (0..20).for_each(|n| queue.add(work(&n.to_string())));
        let taken: Vec<Work> = std::iter::from_fn(|| queue.take(true)).collect();
        let at: Vec<usize> = (0..taken.len()).filter(|at| taken[*at].is_summary()).collect();
        // Two of three: no more may be processed at a time, so that other work is not held up by their requests.
        assert_eq!((at, taken.len(), queue.has_next(true), queue.summaries.len()), (vec![8, 17], 22, false, 1));
        queue.done(endpoints(0), true);
        // Nothing else waits; still it is not taken before there is a calm.
        assert_eq!((queue.has_next(false), queue.take(false)), (false, None));
        assert_eq!((queue.has_next(true), queue.take(true)), (true, Some(endpoints(2))));
    }

    #[tokio::test(start_paused = true)]
    async fn failing_work_waits_twice_as_long_each_time_up_to_a_bound() {
        let mut queue = queue();
        let mut waits = Vec::new();
        queue.add(work("a"));
        for _ in 0..10 {
            queue.take(true).unwrap();
            queue.done(work("a"), false);
            let due = queue.next_due().unwrap();
            waits.push((due - Instant::now()).as_millis());
            tokio::time::sleep_until(due).await;
            queue.wake(Instant::now());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        queue.take(true).unwrap();
        queue.done(work("a"), true);
        queue.add(work("a"));
        queue.take(true).unwrap();
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
        assert_eq!((queue.take(true), queue.next_due()), (Some(work("a")), None));
    }
}
