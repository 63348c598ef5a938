//! How long pods wait for a decision, and from the decision that gives them a place until they are bound and run.

use std::collections::BTreeMap;

use berth_decisions::Decision;
use berth_state::ObjectRef;
use jiff::Timestamp;

use super::Core;
use super::schedule::pod_name;
use crate::clock::elapsed;
use crate::metrics::Measured;

/// Times of pods, by uid.
#[derive(Debug, Default)]
pub(super) struct PodTimes {
    /// When a watch told first of a pod without a node, as long as nothing was decided about it.
    undecided: BTreeMap<String, Timestamp>,
    /// Since when a pod without a node has a place.
    placed: BTreeMap<String, Timestamp>,
    /// The same of one that has come to a node and does not run yet.
    bound: BTreeMap<String, Timestamp>,
}

// === impl PodTimes ===

impl PodTimes {
    /// A pod without a node came.
    pub(super) fn came(&mut self, uid: &str, at: Timestamp) {
        self.undecided.entry(uid.to_owned()).or_insert(at);
    }

    /// It was decided that a pod goes to a node, or waits for one. How long it waited for that, if this is the first time.
    fn place(&mut self, uid: &str, now: Timestamp) -> Option<f64> {
        if !self.placed.contains_key(uid) {
            self.placed.insert(uid.to_owned(), now);
        }
        self.decided(uid, now)
    }

    /// It was decided that there is no place for a pod now.
    fn refuse(&mut self, uid: &str, now: Timestamp) -> Option<f64> {
        self.placed.remove(uid);
        self.decided(uid, now)
    }

    fn decided(&mut self, uid: &str, now: Timestamp) -> Option<f64> {
        self.undecided.remove(uid).map(|since| elapsed(since, now).as_secs_f64())
    }

    /// A pod has a node. How long that took since it was decided, if this is the first time.
    pub(super) fn bind(&mut self, uid: &str, now: Timestamp) -> Option<f64> {
        self.undecided.remove(uid);
        let since = self.placed.remove(uid)?;
        self.bound.insert(uid.to_owned(), since);
        Some(elapsed(since, now).as_secs_f64())
    }

    /// A pod runs.
    pub(super) fn start(&mut self, uid: &str, now: Timestamp) -> Option<f64> {
        self.bound.remove(uid).map(|since| elapsed(since, now).as_secs_f64())
    }

    /// A pod is gone.
    pub(super) fn forget(&mut self, uid: &str) {
        self.undecided.remove(uid);
        self.placed.remove(uid);
        self.bound.remove(uid);
    }

    /// For how many seconds the one has waited that has waited longest: for a decision, for a node since it has a place, and to
    /// run since then.
    pub(super) fn longest(&self, now: Timestamp) -> [f64; 3] {
        let longest = |times: &BTreeMap<String, Timestamp>| {
            times.values().min().map_or(0.0, |since| elapsed(*since, now).as_secs_f64())
        };
        let placed = longest(&self.placed);
        [longest(&self.undecided), placed, placed.max(longest(&self.bound))]
    }

    /// Whether a refusal is news of any pod.
    fn awaits_any(&self) -> bool {
        !self.undecided.is_empty() || !self.placed.is_empty()
    }
}

impl Core {
    /// Takes in who has a place.
    pub(super) fn note_places(&mut self, decision: &Decision, now: Timestamp) {
        let bound = decision.bindings.iter().map(|binding| &binding.object);
        let waiting = decision.nominations.iter().map(|nomination| &nomination.object);
        self.note_placed(bound.chain(waiting), now);
    }

    /// Takes in for whom nodes are launched, and who has no place even so.
    pub(super) fn note_provided(&mut self, decision: &Decision, now: Timestamp) {
        self.note_placed(decision.launches.iter().flat_map(|launch| &launch.pods), now);
        if !self.pod_times.awaits_any() {
            return;
        }
        for object in decision.refusals.iter().flat_map(|refusal| &refusal.objects) {
            let waited = object.uid.as_deref().and_then(|uid| self.pod_times.refuse(uid, now));
            self.measure_decided(waited);
        }
    }

    fn note_placed<'a>(&mut self, objects: impl Iterator<Item = &'a ObjectRef>, now: Timestamp) {
        for object in objects {
            // One that runs yet, on a node that goes, was decided about long ago.
            let is_waiting = object.key.kind == berth_state::Kind::Pod
                && self.view.pods.get(&pod_name(object)).is_some_and(|pod| pod.node.is_none());
            let Some(uid) = object.uid.as_deref().filter(|_| is_waiting) else { continue };
            let waited = self.pod_times.place(uid, now);
            self.measure_decided(waited);
        }
    }

    fn measure_decided(&mut self, waited: Option<f64>) {
        if let Some(seconds) = waited {
            self.counts.measure(Measured::PodsDecided, &[], seconds);
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
    fn a_pod_is_measured_from_its_first_decision_and_from_the_one_that_gives_it_a_place() {
        let mut times = PodTimes::default();
        times.came("a", at(10));
        times.came("a", at(12));
        assert_eq!(times.refuse("a", at(13)), Some(3.0));
        assert_eq!(times.refuse("a", at(14)), None);
        assert_eq!(times.place("a", at(20)), None);
        assert_eq!(times.place("a", at(25)), None);
        assert_eq!(times.bind("a", at(60)), Some(40.0));
        assert_eq!(times.bind("a", at(61)), None);
        assert_eq!(times.start("a", at(65)), Some(45.0));
        assert_eq!(times.start("a", at(66)), None);
    }

    #[test]
    fn a_place_that_is_lost_does_not_count() {
        let mut times = PodTimes::default();
        assert_eq!(times.place("a", at(20)), None, "nobody saw it come");
        assert_eq!(times.refuse("a", at(30)), None);
        assert_eq!(times.bind("a", at(60)), None);
        times.place("b", at(20));
        times.forget("b");
        assert!(!times.awaits_any());
    }
}
