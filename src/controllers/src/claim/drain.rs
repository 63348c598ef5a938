//! Draining: which pods must leave a node now, in which order, and which of them by force since the time is over.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::clock::after;
use crate::view::{PodName, PodRecord, Protected};

/// A pod that outlives its own grace period by this much is stuck: its node does not answer.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How long before a pod is told by force it is asked to leave although it has no place yet: disruption budgets are kept so far.
const ASKED_BEFORE: SignedDuration = SignedDuration::from_secs(15);
/// How often it is looked whether the places of pods are ready.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A pod that must leave its node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Eviction {
    pub(crate) pod: PodName,
    pub(crate) uid: String,
    pub(crate) manner: Manner,
}

/// How a pod is told to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Manner {
    /// By an eviction, which disruption budgets may refuse.
    Evict,
    /// By a deletion with so many seconds, as the termination grace period of its node ends or its machine is gone.
    Delete {
        /// At least one while its machine may run.
        grace: i64,
    },
}

/// How far a drain is.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Drain {
    /// Pods that must be told now.
    pub(crate) evictions: Vec<Eviction>,
    /// How many pods the node waits for.
    pub(crate) n_waiting: usize,
    /// When something changes by itself.
    pub(crate) wake: Option<Timestamp>,
}

/// Whether the node waits for a pod before it goes.
pub(crate) fn is_waited_for(pod: &PodRecord, now: Timestamp) -> bool {
    let is_stuck = pod.deletion.is_some_and(|deletion| after(deletion, STUCK_AFTER) <= now);
    pod.is_active() && !pod.is_static && !pod.tolerates_disruption && !is_stuck
}

/// Critical pods go last, and of either sort those of DaemonSets after the others: the order in which a node is drained.
fn group(pod: &PodRecord) -> (bool, bool) {
    (pod.is_critical, pod.is_of_daemon_set)
}

/// What to do about the pods of a node that goes. A group is told once the groups before it have left. Pods that must
/// not be disrupted are waited for, until `deadline` minus what they need to end. Pods in `unplaced` run on until shortly before
/// that time: whoever leaves without a place serves nobody.
pub(crate) fn drain<'a>(
    pods: impl Iterator<Item = &'a PodRecord>,
    unplaced: &BTreeSet<PodName>,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Drain {
    let waiting: Vec<&PodRecord> = pods.filter(|pod| is_waited_for(pod, now)).collect();
    let first = waiting.iter().map(|pod| group(pod)).min();
    let mut out = Drain { n_waiting: waiting.len(), ..Drain::default() };
    for pod in waiting {
        let mut tell = |manner| out.evictions.push(Eviction { pod: pod.name.clone(), uid: pod.uid.clone(), manner });
        if let Some(deletion) = pod.deletion {
            earliest(&mut out.wake, after(deletion, STUCK_AFTER));
            // It has more time than the node.
            if let Some(deadline) = deadline.filter(|&deadline| deletion > deadline) {
                let grace = seconds_left(deadline, now).min(pod.grace_seconds.max(1));
                if !pod.was_given(grace) {
                    tell(Manner::Delete { grace });
                }
            }
            continue;
        }
        let mut asked_from = None;
        if let Some(deadline) = deadline {
            let grace = SignedDuration::from_secs(pod.grace_seconds.max(0));
            let delete_at = deadline.saturating_sub(grace).unwrap_or(Timestamp::MIN);
            if delete_at <= now {
                tell(Manner::Delete { grace: seconds_left(deadline, now).min(pod.grace_seconds.max(1)) });
                continue;
            }
            earliest(&mut out.wake, delete_at);
            asked_from = Some(delete_at.saturating_sub(ASKED_BEFORE).unwrap_or(Timestamp::MIN));
        }
        if let Some(from) = asked_from.filter(|&from| from > now && unplaced.contains(&pod.name)) {
            earliest(&mut out.wake, from.min(after(now, LOOK_AGAIN)));
        } else if pod.is_protected(now) {
            if let Some(Protected::Until(until)) = pod.do_not_disrupt {
                earliest(&mut out.wake, until);
            }
        } else if Some(group(pod)) == first {
            tell(Manner::Evict);
        }
    }
    out
}

fn earliest(wake: &mut Option<Timestamp>, time: Timestamp) {
    *wake = Some(wake.map_or(time, |known| known.min(time)));
}

/// At least one: a grace period of zero seconds takes a pod from the server while its containers may still run.
fn seconds_left(deadline: Timestamp, now: Timestamp) -> i64 {
    deadline.duration_since(now).as_secs().max(1)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn pod(name: &str, change: &Value) -> PodRecord {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": at(0).to_string()},
            "spec": {"containers": [], "nodeName": "n"}, "status": {"phase": "Running"},
        });
        json_patch::merge(&mut pod, change);
        PodRecord::new(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
    }

    fn owned_by(kind: &str) -> Value {
        json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": true}])
    }

    fn told(pods: &[PodRecord], deadline: Option<i64>, now: i64) -> (usize, Vec<(String, Manner)>) {
        told_without(pods, &[], deadline, now)
    }

    fn told_without(
        pods: &[PodRecord],
        unplaced: &[&str],
        deadline: Option<i64>,
        now: i64,
    ) -> (usize, Vec<(String, Manner)>) {
        let name = |name: &&str| PodName { namespace: "default".to_owned(), name: (*name).to_owned() };
        let drain = drain(pods.iter(), &unplaced.iter().map(name).collect(), deadline.map(at), at(now));
        (drain.n_waiting, drain.evictions.into_iter().map(|told| (told.uid, told.manner)).collect())
    }

    #[test]
    fn critical_pods_go_last_and_daemons_after_the_others_of_their_sort() {
        let critical = json!({"spec": {"priorityClassName": "system-cluster-critical"}});
        let daemon = json!({"metadata": {"ownerReferences": owned_by("DaemonSet")}});
        let mut critical_daemon = critical.clone();
        json_patch::merge(&mut critical_daemon, &daemon);
        let mut pods = vec![pod("d", &critical_daemon), pod("c", &critical), pod("b", &daemon), pod("a", &json!({}))];
        for expected in ["a", "b", "c", "d"] {
            assert_eq!(told(&pods, None, 0), (pods.len(), vec![(expected.to_owned(), Manner::Evict)]));
            pods.pop();
        }
        assert_eq!(told(&pods, None, 0), (0, vec![]));
    }

    #[rstest]
    #[case::finished(json!({"status": {"phase": "Succeeded"}}))]
    #[case::of_the_kubelet_s_own_file(json!({"metadata": {"ownerReferences": owned_by("Node")}}))]
    #[case::tolerating(json!({"spec": {"tolerations": [{"operator": "Exists"}]}}))]
    #[case::stuck(json!({"metadata": {"deletionTimestamp": at(-61).to_string()}}))]
    fn a_node_does_not_wait_for_a_pod(#[case] change: Value) {
        assert_eq!(told(&[pod("a", &change)], None, 0), (0, vec![]));
    }

    #[test]
    fn a_terminating_pod_is_waited_for_and_not_told_again() {
        let pods = [pod("a", &json!({"metadata": {"deletionTimestamp": at(20).to_string()}}))];
        assert_eq!(told(&pods, None, 0), (1, vec![]));
        assert_eq!(told(&pods, None, 80), (0, vec![]));
    }

    #[test]
    fn a_protected_pod_is_waited_for_until_its_grace_fits_no_longer() {
        let annotations = json!({"karpenter.sh/do-not-disrupt": "true"});
        let pods = [pod(
            "a",
            &json!({"metadata": {"annotations": annotations}, "spec": {"terminationGracePeriodSeconds": 40}}),
        )];
        assert_eq!(told(&pods, None, 1_000_000), (1, vec![]));
        assert_eq!(told(&pods, Some(100), 59), (1, vec![]));
        let by_force = |grace| (1, vec![("a".to_owned(), Manner::Delete { grace })]);
        assert_eq!(told(&pods, Some(100), 60), by_force(40));
        assert_eq!(told(&pods, Some(100), 200), by_force(1));
    }

    #[test]
    fn a_pod_without_a_place_runs_on_until_its_time_is_nearly_over() {
        let short = json!({"spec": {"terminationGracePeriodSeconds": 40}});
        let daemon = json!({"metadata": {"ownerReferences": owned_by("DaemonSet")}});
        let pods = [pod("a", &short), pod("b", &short), pod("d", &daemon)];
        let evicted = |names: &[&str]| (3, names.iter().map(|name| ((*name).to_owned(), Manner::Evict)).collect());
        assert_eq!(told_without(&pods, &["a"], Some(100), 0), evicted(&["b"]));
        assert_eq!(told_without(&pods, &["a", "b"], Some(100), 44), evicted(&[]), "and daemons serve them");
        assert_eq!(told_without(&pods, &["a", "b"], Some(100), 45), evicted(&["a", "b"]));
        assert_eq!(told_without(&pods, &["a", "b"], None, 0), evicted(&["a", "b"]), "a node without an end");
        let unplaced = BTreeSet::from([PodName { namespace: "default".to_owned(), name: "a".to_owned() }]);
        assert_eq!(
            drain(pods.iter(), &unplaced, Some(at(100)), at(0)).wake,
            Some(at(1)),
            "its place may be ready soon"
        );
    }

    #[test]
    fn a_pod_that_has_longer_than_its_node_is_cut_short() {
        let pods = [pod("a", &json!({"metadata": {"deletionTimestamp": at(500).to_string()}}))];
        assert_eq!(told(&pods, Some(20), 0), (1, vec![("a".to_owned(), Manner::Delete { grace: 20 })]));
        assert_eq!(told(&pods, Some(500), 0), (1, vec![]));
    }

    /// By a clock behind the server's a pod that was cut short would be cut short again and again.
    #[test]
    fn a_pod_that_was_given_what_its_node_has_left_is_not_told_again() {
        let given = |seconds: i64| {
            let metadata = json!({"deletionTimestamp": at(120).to_string(), "deletionGracePeriodSeconds": seconds});
            told(&[pod("a", &json!({"metadata": metadata}))], Some(20), 0)
        };
        assert_eq!(given(20), (1, vec![]));
        assert_eq!(given(30), (1, vec![("a".to_owned(), Manner::Delete { grace: 20 })]));
    }

    /// The regression: a pod whose annotation means nothing was evicted, though it keeps its node from disruption.
    #[rstest]
    #[case::false_("false", false)]
    #[case::misspelt("True", true)]
    #[case::no_time("soon", true)]
    #[case::no_time_at_all("0s", true)]
    fn what_means_nothing_protects_until_it_is_mended(#[case] value: &str, #[case] protects: bool) {
        let annotations = json!({"karpenter.sh/do-not-disrupt": value});
        let pods = [pod("a", &json!({"metadata": {"annotations": annotations}}))];
        let evicted = if protects { vec![] } else { vec![("a".to_owned(), Manner::Evict)] };
        assert_eq!(told(&pods, None, 1_000_000), (1, evicted));
    }

    #[test]
    fn protection_may_end_with_the_pod_s_age() {
        let annotations = json!({"karpenter.sh/do-not-disrupt": "5m"});
        let pods = [pod("a", &json!({"metadata": {"annotations": annotations}}))];
        assert_eq!(told(&pods, None, 299), (1, vec![]));
        assert_eq!(told(&pods, None, 300), (1, vec![("a".to_owned(), Manner::Evict)]));
    }
}
