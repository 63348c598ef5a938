//! Nodes: taints by conditions, heartbeats that stop, pods of nodes that are gone.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::world::{World, condition, key};
use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;
use crate::store::Range;
use crate::verbs::set_condition;

/// A node that was not heard of for so long is Unknown.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// What each condition taints with, where it is so.
const BY_CONDITION: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl ApiServer {
    pub(super) fn reconcile_nodes(&self, _: &World) {
        let now = self.now();
        let page = self.inner.store.list("nodes", &Range::default()).unwrap_or_default();
        for object in &page.items {
            let lease = self.inner.store.get("leases.coordination.k8s.io", &format!("kube-node-lease/{}", object.key));
            let heard = lease.map_or(0, |lease| lease.revision);
            if self.is_settled(&object.selectable.uid, object.revision.wrapping_mul(31).wrapping_add(heard)) {
                continue;
            }
            let node = &object.value();
            if meta::has(node, "deletionTimestamp") {
                continue;
            }
            let is_silent = self.is_silent(node, now);
            let text = self.inner.clock.now_text();
            self.change_object("nodes", &key(node), |node| {
                if is_silent {
                    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
                        if condition(node, kind).is_none_or(|was| text_at(was, &["status"]) == "Unknown") {
                            continue;
                        }
                        set_condition(
                            node,
                            &json!({"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                            "message": "Kubelet stopped posting node status.",
                            "lastHeartbeatTime": text, "lastTransitionTime": text}),
                        );
                    }
                }
                taint(node, &text);
            });
        }
        self.remove_lost_pods(&page.items);
    }

    /// Whether a node that has a heartbeat was not heard of for too long.
    fn is_silent(&self, node: &Value, now: Timestamp) -> bool {
        let lease = self.value("leases.coordination.k8s.io", &format!("kube-node-lease/{}", meta::name(node)));
        let renewed = lease.as_ref().map(|lease| text_at(lease, &["spec", "renewTime"]).to_owned());
        let Some(heard) = renewed.and_then(|text| text.parse::<Timestamp>().ok()) else { return false };
        let due = heard.checked_add(GRACE).unwrap_or(Timestamp::MAX);
        if due > now {
            self.look_again(meta::text(node, "uid"), due);
        }
        due <= now
    }

    fn remove_lost_pods(&self, nodes: &[std::sync::Arc<crate::store::Object>]) {
        let names: rustc_hash::FxHashSet<&str> = nodes.iter().map(|node| &*node.key).collect();
        let page = self.inner.store.list("pods", &Range::default()).unwrap_or_default();
        for pod in page.items {
            let node =
                pod.selectable.fields.iter().find(|(field, _)| &**field == "spec.nodeName").map(|(_, node)| &**node);
            if node.is_some_and(|node| !node.is_empty() && !names.contains(node)) {
                self.remove_object("pods", &pod.key, Some(0));
            }
        }
    }
}

/// Brings the taints that conditions ask for, and takes those that nothing asks for any more.
fn taint(node: &mut Value, now: &str) {
    let status = |kind: &str| condition(node, kind).map(|found| text_at(found, &["status"]).to_owned());
    let ready = status("Ready");
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match ready.as_deref() {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        // Nothing asks for the taint of a node that nobody has spoken of yet, though it was made with it.
        _ => {}
    }
    for (kind, when, key) in BY_CONDITION {
        if status(kind).as_deref() == Some(when) {
            wanted.push((key, "NoSchedule"));
        }
    }
    if at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let own: Vec<&str> = BY_CONDITION.iter().map(|(_, _, key)| *key).chain([UNREACHABLE, UNSCHEDULABLE]).collect();
    // Only a node that is ready loses what lets its pods be evicted.
    let is_own = |key: &str, effect: &str| {
        let is_held = effect == "NoExecute" && ready.is_none();
        (own.contains(&key) || key == NOT_READY) && !is_held
    };
    let mut taints: Vec<Value> = list_at(node, &["spec", "taints"]).to_vec();
    taints.retain(|taint| {
        let (key, effect) = (text_at(taint, &["key"]), text_at(taint, &["effect"]));
        !is_own(key, effect) || wanted.contains(&(key, effect))
    });
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| text_at(taint, &["key"]) == key && text_at(taint, &["effect"]) == effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": now}));
        }
    }
    if taints != list_at(node, &["spec", "taints"])
        && let Some(spec) = meta::object_mut(node, &["spec"])
    {
        spec.insert("taints".to_owned(), taints.into());
    }
}
