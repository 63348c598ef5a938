//! Jobs to do: each at most once at a time, again when something changed meanwhile, later after a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{after, back_off};

/// The first and the longest delay after a failure.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// A queue of jobs with fixed delays after failures. Jobs that are ready come in their order, so that the same history
/// gives the same sequence.
#[derive(Debug)]
pub(crate) struct Queue<J> {
    /// Jobs that may be done: none of them is running.
    ready: BTreeSet<J>,
    /// Jobs that are ready and running: they may be done once their answer has come.
    ready_again: BTreeSet<J>,
    later: BTreeMap<J, Timestamp>,
    by_time: BTreeSet<(Timestamp, J)>,
    running: BTreeSet<J>,
    failures: BTreeMap<J, u32>,
    /// Jobs that wait out the delay of a failure: no change cuts it short.
    delayed: BTreeSet<J>,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self {
            ready: BTreeSet::new(),
            ready_again: BTreeSet::new(),
            later: BTreeMap::new(),
            by_time: BTreeSet::new(),
            running: BTreeSet::new(),
            failures: BTreeMap::new(),
            delayed: BTreeSet::new(),
        }
    }
}

// === impl Queue ===

impl<J: Ord + Clone> Queue<J> {
    /// Something changed: the job is done as soon as it may. One that failed waits out its delay.
    pub(crate) fn add(&mut self, job: J) {
        if self.delayed.contains(&job) {
            return;
        }
        self.unschedule(&job);
        self.make_ready(job);
    }

    /// The job is done at `time`, or before where it was to be done before.
    pub(crate) fn add_at(&mut self, job: J, time: Timestamp) {
        let is_ready = self.ready.contains(&job) || self.ready_again.contains(&job);
        if is_ready || self.later.get(&job).is_some_and(|&known| known <= time) {
            return;
        }
        self.unschedule(&job);
        self.by_time.insert((time, job.clone()));
        self.later.insert(job, time);
    }

    /// The next job to do; it is ready and not running.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<J> {
        while let Some((time, job)) = self.by_time.first().cloned() {
            if time > now {
                break;
            }
            self.unschedule(&job);
            self.make_ready(job);
        }
        self.ready.pop_first()
    }

    /// The job waits for an answer: it is not done again before [`Queue::finish`].
    pub(crate) fn start(&mut self, job: J) {
        if self.ready.remove(&job) {
            self.ready_again.insert(job.clone());
        }
        self.running.insert(job);
    }

    /// Whether the job waits for an answer.
    pub(crate) fn is_running(&self, job: &J) -> bool {
        self.running.contains(job)
    }

    /// Whether the job is done some time, without a change: it is ready, or its time will come.
    pub(crate) fn is_to_be_done(&self, job: &J) -> bool {
        self.ready.contains(job) || self.ready_again.contains(job) || self.later.contains_key(job)
    }

    /// The answer came. It succeeded: the job is looked at again at once, as there may be a next step.
    pub(crate) fn succeed(&mut self, job: J) {
        self.end(&job);
        self.failures.remove(&job);
        self.add(job);
    }

    /// The answer came. It failed: the job is done again after a delay, at least `at_least`.
    pub(crate) fn fail(&mut self, job: J, at_least: Duration, now: Timestamp) {
        self.end(&job);
        let failures = self.failures.entry(job.clone()).or_default();
        let delay = back_off(DELAYS, *failures);
        *failures = failures.saturating_add(1);
        self.ready.remove(&job);
        self.unschedule(&job);
        self.add_at(job.clone(), after(now, delay.max(at_least)));
        self.delayed.insert(job);
    }

    /// The answer came, and there is no next step before something changes.
    pub(crate) fn done(&mut self, job: &J) {
        self.end(job);
        self.failures.remove(job);
    }

    /// The answer came, and the next step is at `time`, or as soon as something changes.
    pub(crate) fn put_off(&mut self, job: J, time: Timestamp) {
        self.done(&job);
        self.add_at(job, time);
    }

    /// The delay after the job's next failure is `longest` at most.
    pub(crate) fn cap_failures(&mut self, job: &J, longest: Duration) {
        if let Some(failures) = self.failures.get_mut(job) {
            while *failures > 0 && back_off(DELAYS, *failures) > longest {
                *failures -= 1;
            }
        }
    }

    /// How often the job failed in a row.
    pub(crate) fn failures(&self, job: &J) -> u32 {
        self.failures.get(job).copied().unwrap_or(0)
    }

    /// The job concerns nothing any more.
    pub(crate) fn forget(&mut self, job: &J) {
        self.ready.remove(job);
        self.ready_again.remove(job);
        self.failures.remove(job);
        self.unschedule(job);
    }

    /// When [`Queue::pop`] may find something, without a change or an answer.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(time, _)| *time)
    }

    fn make_ready(&mut self, job: J) {
        if self.running.contains(&job) {
            self.ready_again.insert(job);
        } else {
            self.ready.insert(job);
        }
    }

    /// The answer came.
    fn end(&mut self, job: &J) {
        self.running.remove(job);
        if let Some(job) = self.ready_again.take(job) {
            self.ready.insert(job);
        }
    }

    fn unschedule(&mut self, job: &J) {
        self.delayed.remove(job);
        if let Some(time) = self.later.remove(job) {
            self.by_time.remove(&(time, job.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_running_job_is_done_again_after_its_answer_if_something_changed() {
        let mut queue = Queue::default();
        queue.add("a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        queue.start("a");
        queue.add("a");
        assert_eq!(queue.pop(at(0)), None);
        queue.succeed("a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        assert_eq!(queue.pop(at(0)), None);
    }

    #[test]
    fn a_job_that_was_ready_when_it_began_to_run_is_done_after_its_answer_and_others_pass_it() {
        let mut queue = Queue::default();
        queue.add("a");
        queue.start("a");
        queue.add("b");
        assert_eq!(queue.pop(at(0)), Some("b"));
        assert_eq!(queue.pop(at(0)), None);
        // It need not be done at a time, too.
        queue.add_at("a", at(5));
        queue.done(&"a");
        assert_eq!(queue.pop(at(0)), Some("a"));
        assert_eq!(queue.pop(at(9)), None);
    }

    #[test]
    fn delays_double_and_a_change_does_not_cut_them_short() {
        let mut queue = Queue::default();
        for expected in [100, 200, 400, 800] {
            queue.fail("a", Duration::ZERO, at(0));
            queue.add("a");
            assert_eq!(queue.pop(at(0)), None);
            assert_eq!(queue.next_time(), Timestamp::from_millisecond(expected).ok());
            assert_eq!(queue.pop(at(1)), Some("a"));
        }
        for _ in 0..40 {
            queue.fail("a", Duration::ZERO, at(0));
        }
        assert_eq!(queue.next_time(), Some(at(30)));
        queue.succeed("a");
        queue.fail("a", Duration::from_secs(7), at(0));
        assert_eq!(queue.next_time(), Some(at(7)));
    }

    #[test]
    fn a_job_that_failed_and_then_waits_for_long_is_done_when_something_changes() {
        let mut queue = Queue::default();
        queue.fail("a", Duration::ZERO, at(0));
        assert_eq!(queue.pop(at(1)), Some("a"));
        // It found nothing to do before then.
        queue.add_at("a", at(1_000_000));
        queue.add("a");
        assert_eq!(queue.pop(at(1)), Some("a"));
    }

    #[test]
    fn the_earlier_time_wins() {
        let mut queue = Queue::default();
        queue.add_at("a", at(9));
        queue.add_at("a", at(5));
        queue.add_at("a", at(7));
        assert_eq!(queue.next_time(), Some(at(5)));
        assert_eq!(queue.pop(at(4)), None);
        assert_eq!(queue.pop(at(5)), Some("a"));
        assert_eq!(queue.next_time(), None);
    }
}
