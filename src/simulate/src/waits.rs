//! How long pods wait for a node, and why.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rustc_hash::FxHashMap;

/// Why a pod waited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A node that was there had room, at once or after others had gone.
    ExistingNode,
    /// A node was launched, and it came up.
    NewNode,
    /// No node could be launched for a while: what was said last.
    Refused(String),
}

/// A pod that is there.
#[derive(Debug, Clone)]
struct Known {
    since: Timestamp,
    is_bound: bool,
    is_ended: bool,
    is_evicted: bool,
    refused: Option<String>,
    /// What its scheduler said last of nodes that are there, or of the pod itself.
    said: Option<String>,
}

/// What a watch tells of a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) uid: &'a str,
    pub(crate) node: Option<&'a str>,
    pub(crate) is_ended: bool,
    pub(crate) is_evicted: bool,
    /// Whether it belongs to a DaemonSet.
    pub(crate) is_daemon: bool,
    /// The message of a condition `PodScheduled` that is false.
    pub(crate) unschedulable: Option<&'a str>,
}

/// The pods of a cluster, as far as waiting is concerned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits {
    known: FxHashMap<Box<str>, Known>,
    at: Option<Timestamp>,
    /// Milliseconds, by reason.
    waited: BTreeMap<Reason, Vec<u64>>,
    /// The same of those that went without ever having had a node, by what was said last.
    in_vain: BTreeMap<String, Vec<u64>>,
    pub(crate) n_pods: u64,
    pub(crate) n_pending: u32,
    pub(crate) n_running: u32,
    pub(crate) n_evicted: u64,
    pub(crate) running_ms: u128,
    pub(crate) pending_ms: u128,
    pub(crate) most_pending: u32,
    pub(crate) most_running: u32,
}

/// How long pods of one reason waited, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waited<R = Option<Reason>> {
    pub(crate) reason: R,
    pub(crate) pods: usize,
    pub(crate) median: u64,
    pub(crate) p99: u64,
    pub(crate) longest: u64,
}

// === impl Waits ===

impl Waits {
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let millis = self.at.map_or(0, |at| now.duration_since(at).as_millis());
        self.at = Some(now);
        let millis = u128::try_from(millis).unwrap_or(0);
        self.running_ms += u128::from(self.n_running) * millis;
        self.pending_ms += u128::from(self.n_pending) * millis;
    }

    /// A pod is so now. `launched_at` is when the machine of its node was launched, if it was.
    pub(crate) fn pod(&mut self, told: Told<'_>, launched_at: Option<Timestamp>, now: Timestamp) {
        if told.is_daemon {
            return;
        }
        if !self.known.contains_key(told.uid) {
            let new =
                Known { since: now, is_bound: false, is_ended: false, is_evicted: false, refused: None, said: None };
            self.known.insert(told.uid.into(), new);
            self.n_pods += 1;
            self.n_pending += 1;
            self.most_pending = self.most_pending.max(self.n_pending);
        }
        let Some(known) = self.known.get_mut(told.uid) else { return };
        if let Some(message) = told.unschedulable {
            known.refused = refusal(message).or(known.refused.take());
            known.said = Some(without_counts(message));
        }
        if told.is_evicted && !known.is_evicted {
            known.is_evicted = true;
            self.n_evicted += 1;
        }
        if told.node.is_some() && !known.is_bound {
            known.is_bound = true;
            let reason = match known.refused.take() {
                Some(refused) => Reason::Refused(refused),
                None if launched_at.is_some_and(|launched| launched >= known.since) => Reason::NewNode,
                None => Reason::ExistingNode,
            };
            let waited = now.duration_since(known.since).as_millis();
            self.waited.entry(reason).or_default().push(u64::try_from(waited).unwrap_or(0));
            self.n_pending = self.n_pending.saturating_sub(1);
            self.n_running += 1;
            self.most_running = self.most_running.max(self.n_running);
        }
        if told.is_ended && !known.is_ended {
            known.is_ended = true;
            if known.is_bound {
                self.n_running = self.n_running.saturating_sub(1);
            } else {
                self.n_pending = self.n_pending.saturating_sub(1);
                let known = known.clone();
                self.waited_in_vain(&known, now);
            }
        }
    }

    fn waited_in_vain(&mut self, known: &Known, now: Timestamp) {
        let millis = u64::try_from(now.duration_since(known.since).as_millis()).unwrap_or(0);
        self.in_vain.entry(known.why()).or_default().push(millis);
    }

    /// A pod is gone.
    pub(crate) fn gone(&mut self, uid: &str, now: Timestamp) {
        let Some(known) = self.known.remove(uid) else { return };
        match known {
            Known { is_ended: true, .. } => {}
            Known { is_bound: true, .. } => self.n_running = self.n_running.saturating_sub(1),
            _ => {
                self.n_pending = self.n_pending.saturating_sub(1);
                self.waited_in_vain(&known, now);
            }
        }
    }

    /// Pods that wait still: how many by what was said last, and the longest wait in milliseconds.
    pub(crate) fn left(&self, now: Timestamp) -> BTreeMap<String, (u64, u64)> {
        let mut left: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for known in self.known.values().filter(|known| !known.is_bound && !known.is_ended) {
            let reason = known.why();
            let waited = u64::try_from(now.duration_since(known.since).as_millis()).unwrap_or(0);
            let entry = left.entry(reason).or_default();
            *entry = (entry.0 + 1, entry.1.max(waited));
        }
        left
    }

    /// How long pods waited that have a node: all of them, then by reason.
    pub(crate) fn summary(&self) -> Vec<Waited> {
        let all: Vec<u64> = self.waited.values().flatten().copied().collect();
        let mut rows = vec![summary(None, all)];
        rows.extend(self.waited.iter().map(|(reason, waited)| summary(Some(reason.clone()), waited.clone())));
        rows
    }

    /// How long those waited that went without ever having had a node, by what was said last.
    pub(crate) fn in_vain(&self) -> impl Iterator<Item = Waited<String>> {
        self.in_vain.iter().map(|(reason, waited)| summary(reason.clone(), waited.clone()))
    }
}

impl Known {
    /// What was said last of why it has no node.
    fn why(&self) -> String {
        let said = self.refused.as_ref().or(self.said.as_ref()).filter(|said| !said.is_empty());
        said.cloned().unwrap_or_else(|| "a node is on its way, or nothing was said yet".to_owned())
    }
}

fn summary<R>(reason: R, mut waited: Vec<u64>) -> Waited<R> {
    waited.sort_unstable();
    // The smallest that at least so many percent do not exceed.
    let rank = |percent: usize| (waited.len() * percent).div_ceil(100).saturating_sub(1);
    let at = |percent| waited.get(rank(percent)).copied().unwrap_or(0);
    Waited { reason, pods: waited.len(), median: at(50), p99: at(99), longest: at(100) }
}

/// What NodePools say, without counts that change with every node.
fn refusal(message: &str) -> Option<String> {
    let (_, pools) = message.split_once(" No new node: ")?;
    let mut text = String::new();
    for (index, part) in pools.split(" (").enumerate() {
        match part.split_once(')').filter(|(counted, _)| {
            index > 0 && counted.ends_with("instance types") || counted.ends_with("instance type")
        }) {
            Some((_, rest)) => text.push_str(rest),
            None if index > 0 => {
                text.push_str(" (");
                text.push_str(part);
            }
            None => text.push_str(part),
        }
    }
    Some(text.trim_end_matches('.').to_owned())
}

/// What a scheduler says of nodes, each thing once, without counts that change with every node.
fn without_counts(message: &str) -> String {
    let said = message
        .split_once(" nodes are available")
        .map_or(message, |(_, said)| said.trim_start_matches([':', '.', ' ']));
    let mut parts: Vec<&str> = Vec::new();
    for part in said.trim_end_matches('.').split(", ") {
        let counted = part.split_once(' ').filter(|(count, _)| count.bytes().all(|byte| byte.is_ascii_digit()));
        let part = counted.map_or(part, |(_, part)| part);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn told(uid: &str) -> Told<'_> {
        Told { uid, node: None, is_ended: false, is_evicted: false, is_daemon: false, unschedulable: None }
    }

    #[test]
    fn waits_are_told_by_reason() {
        let mut waits = Waits::default();
        waits.pod(told("a"), None, at(0));
        waits.pod(told("b"), None, at(0));
        waits.pod(Told { node: Some("n"), ..told("a") }, Some(at(1)), at(50));
        let message = "0/3 nodes are available. No new node: NodePool x: Insufficient cpu (225 instance types).";
        waits.pod(Told { unschedulable: Some(message), ..told("b") }, None, at(50));
        waits.pod(Told { node: Some("n"), ..told("b") }, Some(at(1)), at(60));
        let rows = waits.summary();
        assert_eq!(rows[0], Waited { reason: None, pods: 2, median: 50_000, p99: 60_000, longest: 60_000 });
        assert_eq!(rows[1].reason, Some(Reason::NewNode));
        assert_eq!(rows[2].reason, Some(Reason::Refused("NodePool x: Insufficient cpu".to_owned())));
        assert_eq!((waits.n_pending, waits.n_running), (0, 2));
    }

    #[test]
    fn a_pod_that_ends_unbound_waits_no_more() {
        let mut waits = Waits::default();
        waits.pod(told("a"), None, at(0));
        waits.pod(Told { is_ended: true, ..told("a") }, None, at(5));
        waits.gone("a", at(6));
        assert_eq!((waits.n_pending, waits.n_running), (0, 0));
        assert!(waits.left(at(9)).is_empty());
    }

    #[test]
    fn pods_that_go_without_having_had_a_node_are_counted_once_with_their_reason() {
        let mut waits = Waits::default();
        for uid in ["a", "b", "c"] {
            waits.pod(told(uid), None, at(0));
        }
        let message = "0/3 nodes are available. No new node: NodePool x: Insufficient cpu (225 instance types).";
        for uid in ["a", "b"] {
            waits.pod(Told { unschedulable: Some(message), ..told(uid) }, None, at(1));
        }
        waits.gone("a", at(100));
        waits.pod(Told { is_ended: true, ..told("b") }, None, at(200));
        waits.gone("b", at(201));
        waits.pod(Told { node: Some("n"), ..told("c") }, None, at(3));
        waits.gone("c", at(300));
        let rows: Vec<_> = waits.in_vain().collect();
        let reason = "NodePool x: Insufficient cpu".to_owned();
        assert_eq!(rows, [Waited { reason, pods: 2, median: 100_000, p99: 200_000, longest: 200_000 }]);
        assert_eq!(waits.summary()[0].pods, 1, "who has had a node");
    }

    /// The regression: whoever waited for a gate, a claim or a volume was told that a node was on its way.
    #[test]
    fn what_was_said_of_the_pod_itself_is_told() {
        for (message, why) in [
            (
                "Scheduling is blocked due to non-empty scheduling gates",
                "Scheduling is blocked due to non-empty scheduling gates",
            ),
            (
                "0/3 nodes are available: persistentvolumeclaim \"x\" not found.",
                "persistentvolumeclaim \"x\" not found",
            ),
            (
                "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) had an untolerated taint.",
                "Insufficient cpu, node(s) had an untolerated taint",
            ),
            ("0/0 nodes are available.", "a node is on its way, or nothing was said yet"),
        ] {
            let mut waits = Waits::default();
            waits.pod(Told { unschedulable: Some(message), ..told("a") }, None, at(0));
            assert_eq!(waits.left(at(60)), BTreeMap::from([(why.to_owned(), (1, 60_000))]));
        }
    }
}
