//! What becomes of a Job's pods: each that ends is counted once, whether it is still there afterwards or not.
//!
//! As in kube-controller-manager, a finalizer keeps a pod until its end is written into the Job's status.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus, UncountedTerminatedPods};
use rustc_hash::FxHashMap;
use serde_json::json;

use super::template::{count, size};
use crate::key::NamespacedName;
use crate::objects::{Phase, Pod};
use crate::resource::PODS;
use crate::write::Write;

/// The finalizer of pods that are not counted yet.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label that tell a pod's index.
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pods that are counted at a time.
const MAX_UNCOUNTED: usize = 500;
/// How long the first failure delays the next pods, and how long failures do so at most, in seconds.
const BACKOFF: (i64, i64) = (10, 600);

/// What is counted of a Job's pods.
pub(crate) struct Tally<'p> {
    /// Ended pods that are counted and may go.
    pub(crate) counted: Vec<&'p Arc<Pod>>,
    /// Indexes of which a pod has succeeded.
    pub(crate) completed: BTreeSet<i32>,
    is_indexed: bool,
    /// Those whose end the status has counted, and whose finalizer is gone.
    past: [usize; 2],
    /// UIDs whose end is noted in the status while their finalizer is removed.
    uncounted: [Vec<String>; 2],
    /// Pods whose end is seen for the first time, and whether they succeeded.
    fresh: Vec<(&'p Arc<Pod>, bool)>,
}

impl<'p> Tally<'p> {
    pub(crate) fn of(job: &Job, spec: &JobSpec, pods: &'p [Arc<Pod>]) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let tracked: BTreeSet<&str> = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| &*pod.metadata.uid).collect();
        let noted = status.uncounted_terminated_pods.unwrap_or_default();
        let split = |uids: Option<Vec<String>>, before: Option<i32>| {
            let (left, gone): (Vec<_>, Vec<_>) =
                uids.unwrap_or_default().into_iter().partition(|uid| tracked.contains(uid.as_str()));
            (left, size(before.unwrap_or(0)) + gone.len())
        };
        let (succeeded, n_succeeded) = split(noted.succeeded, status.succeeded);
        let (failed, n_failed) = split(noted.failed, status.failed);
        let mut tally = Self {
            counted: Vec::new(),
            completed: parse_ranges(status.completed_indexes.as_deref().unwrap_or_default()),
            is_indexed,
            past: [n_succeeded, n_failed],
            uncounted: [succeeded, failed],
            fresh: Vec::new(),
        };
        let replaces_only_failed = spec.pod_replacement_policy.as_deref() == Some("Failed");
        for pod in pods.iter().filter(|pod| is_tracked(pod)) {
            if tally.n_uncounted() >= MAX_UNCOUNTED {
                break;
            }
            // A pod that is deleted before it ended has failed: it may never reach its end. One without a node will not;
            // upstream, the collector of pods gives it the phase Failed.
            let ends_nowhere = !replaces_only_failed || pod.node().is_none();
            let has_failed = pod.phase() == Phase::Failed || (pod.is_active_no_more() && ends_nowhere);
            if pod.phase() == Phase::Succeeded {
                tally.count(pod, spec, true);
            } else if has_failed {
                tally.count(pod, spec, false);
            }
        }
        tally
    }

    /// Counts all other pods of a Job that has failed as failed, as they will not be waited for. Those of one that is
    /// complete are released alone.
    pub(crate) fn finish(&mut self, spec: &JobSpec, pods: &'p [Arc<Pod>], has_failed: bool) {
        let counted: BTreeSet<&str> = self.counted.iter().map(|pod| &*pod.metadata.uid).collect();
        let others: Vec<_> =
            pods.iter().filter(|pod| is_tracked(pod) && !counted.contains(&*pod.metadata.uid)).collect();
        for pod in others {
            if self.n_uncounted() >= MAX_UNCOUNTED {
                break;
            }
            match (pod.phase() == Phase::Succeeded, has_failed) {
                (false, false) => self.counted.push(pod),
                (succeeded, _) => self.count(pod, spec, succeeded),
            }
        }
    }

    fn n_uncounted(&self) -> usize {
        self.uncounted.iter().map(Vec::len).sum()
    }

    fn count(&mut self, pod: &'p Arc<Pod>, spec: &JobSpec, succeeded: bool) {
        self.counted.push(pod);
        let uid = pod.metadata.uid.to_string();
        if self.uncounted.iter().any(|noted| noted.contains(&uid)) {
            return;
        }
        if self.is_indexed {
            let index = index(pod).filter(|index| *index < spec.completions.unwrap_or(0));
            let Some(index) = index else { return };
            if succeeded {
                // The index tells; two pods of one index complete it once.
                if self.completed.insert(index) {
                    self.fresh.push((pod, true));
                }
                return;
            }
        }
        let [good, bad] = &mut self.uncounted;
        if succeeded { good } else { bad }.push(uid);
        self.fresh.push((pod, succeeded));
    }

    pub(crate) fn succeeded(&self) -> usize {
        let [past, _] = self.past;
        if self.is_indexed { self.completed.len() } else { past + self.uncounted.first().map_or(0, Vec::len) }
    }

    pub(crate) fn failed(&self) -> usize {
        let [_, past] = self.past;
        past + self.uncounted.last().map_or(0, Vec::len)
    }

    /// Whether no pod waits to be counted or released.
    pub(crate) fn is_settled(&self) -> bool {
        self.counted.is_empty() && self.uncounted.iter().all(Vec::is_empty)
    }

    /// Writes down what is counted.
    pub(crate) fn note(&self, status: &mut JobStatus) {
        let [past_succeeded, past_failed] = self.past;
        let some = |n: usize| Some(count(n)).filter(|n| *n > 0);
        status.succeeded = some(if self.is_indexed { self.completed.len() } else { past_succeeded });
        status.failed = some(past_failed);
        status.completed_indexes = self.is_indexed.then(|| ranges(&self.completed)).filter(|text| !text.is_empty());
        let list = |uids: &Vec<String>| Some(uids.clone()).filter(|uids| !uids.is_empty());
        let [succeeded, failed] = &self.uncounted;
        status.uncounted_terminated_pods =
            Some(UncountedTerminatedPods { succeeded: list(succeeded), failed: list(failed) });
    }
}

/// How long Jobs wait after failures, by their names.
#[derive(Debug, Default)]
pub(crate) struct Backoffs(FxHashMap<NamespacedName, Backoff>);

#[derive(Debug)]
struct Backoff {
    uid: String,
    failures: u32,
    last: Timestamp,
    /// Pods that are taken in, while they are there.
    seen: BTreeSet<Box<str>>,
}

impl Backoffs {
    pub(crate) fn forget(&mut self, key: &NamespacedName) {
        self.0.remove(key);
    }

    /// Takes in the ends of pods. A success makes up for all failures before it.
    pub(crate) fn take_in(&mut self, key: &NamespacedName, job: &Job, tally: &Tally<'_>, now: Timestamp) {
        let uid = job.metadata.uid.clone().unwrap_or_default();
        if self.0.get(key).is_some_and(|backoff| backoff.uid != uid) {
            self.0.remove(key);
        }
        let mut fresh: Vec<(Timestamp, &Arc<Pod>, bool)> =
            tally.fresh.iter().map(|(pod, succeeded)| (ended(pod).unwrap_or(now), *pod, *succeeded)).collect();
        fresh.sort_by(|a, b| (a.0, &a.1.metadata.name).cmp(&(b.0, &b.1.metadata.name)));
        for (at, pod, succeeded) in fresh {
            let new = || Backoff { uid: uid.clone(), failures: 0, last: at, seen: BTreeSet::new() };
            let backoff = self.0.entry(key.clone()).or_insert_with(new);
            if !backoff.seen.insert(pod.metadata.uid.clone()) {
                continue;
            }
            backoff.failures = if succeeded { 0 } else { backoff.failures.saturating_add(1) };
            backoff.last = at;
        }
        if tally.is_settled()
            && let Some(backoff) = self.0.get_mut(key)
        {
            backoff.seen.clear();
        }
    }

    /// From when on a Job may have more pods, if it has to wait.
    pub(crate) fn due(&self, key: &NamespacedName) -> Option<Timestamp> {
        let backoff = self.0.get(key).filter(|backoff| backoff.failures > 0)?;
        let (first, most) = BACKOFF;
        let wait = first.saturating_mul(1_i64.checked_shl(backoff.failures - 1).unwrap_or(i64::MAX)).clamp(first, most);
        backoff.last.checked_add(SignedDuration::from_secs(wait)).ok()
    }
}

/// When a pod ended, or began to.
fn ended(pod: &Pod) -> Option<Timestamp> {
    let ready = pod.status.ready.as_ref().filter(|_| pod.has_ended()).and_then(|ready| ready.since.as_ref());
    // A deletion's time is when its grace period ends.
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
    let asked = || pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok();
    ready.map(|time| time.0).or_else(asked)
}

/// Whether a pod waits to be counted by its Job.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING)
}

/// Lets go of a pod that is counted.
pub(crate) fn release(pod: &Pod) -> Write {
    let patch = json!({"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    Write::strategic(&PODS, &pod.view().key(), &patch)
}

/// The index of a pod of an indexed Job.
pub(crate) fn index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.get(INDEX)?.parse().ok()
}

/// Numbers as `1,3-5`.
fn ranges(numbers: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let show = |(first, last): (i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.into_iter().map(show).collect::<Vec<_>>().join(",")
}

/// Reads what [`ranges`] wrote. What is no number is left out, and so is a range of more than a Job can have.
fn parse_ranges(text: &str) -> BTreeSet<i32> {
    const MOST: i32 = 100_000;
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>())
            && (0..MOST).contains(&last.saturating_sub(first))
        {
            numbers.extend(first..=last);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_indexes_are_told_as_ranges() {
        assert_eq!(ranges(&[].into()), "");
        assert_eq!(ranges(&[1, 3, 4, 5, 8, 9].into()), "1,3-5,8,9");
        assert_eq!(parse_ranges("1,3-5,8,9"), [1, 3, 4, 5, 8, 9].into());
        assert_eq!(parse_ranges("x,0-2147483647,7-3"), [].into());
    }
}
