//! The node lifecycle: taints by conditions, and nodes whose heartbeats stop.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rustc_hash::FxHashMap;
use serde_json::json;
use tokio::time::Instant;

use super::matching::taints;
use crate::core::Core;
use crate::events::{Involved, Telling};
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::{NODES, PODS};
use crate::work::Work;
use crate::write::{Effect, Write};

/// What a condition taints with, where its status is True.
const BY_CONDITION: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The conditions that a kubelet posts.
const POSTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// When nodes were last heard of, by tokio's time. A renewed Lease sets a time here, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats(FxHashMap<Arc<str>, Instant>);

impl Heartbeats {
    pub(crate) fn forget(&mut self, node: &Arc<str>) {
        self.0.remove(node);
    }
}

/// Takes in a heartbeat.
pub(crate) fn heard(core: &mut Core, node: &Arc<str>) {
    core.heartbeats.0.insert(node.clone(), Instant::now());
    let known = core.caches.nodes.get(&NamespacedName::new("", node));
    // Of a node that was given up its own status tells first; a Lease alone changes nothing.
    if known.is_none() {
        return;
    }
    if !core.queue.is_due(&Work::NodeHealth(node.clone())) {
        core.add(Work::NodeHealth(node.clone()));
    }
}

/// Whether a node's own status tells that it lives: it is new, or its heartbeat has moved.
pub(crate) fn posted_status(old: Option<&Node>, new: &Node) -> bool {
    let beat = |node: &Node| ready(node).and_then(|ready| ready.last_heartbeat_time.clone());
    let is_posted = ready(new).is_some_and(|ready| ready.reason.as_deref() != Some("NodeStatusUnknown"));
    match old {
        None => true,
        Some(old) => is_posted && beat(old) != beat(new),
    }
}

fn conditions(node: &Node) -> impl Iterator<Item = &NodeCondition> {
    node.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

fn condition<'n>(node: &'n Node, type_: &str) -> Option<&'n NodeCondition> {
    conditions(node).find(|condition| condition.type_ == type_)
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    condition(node, "Ready")
}

/// Marks a node of which nothing was heard for too long.
pub(crate) fn sync_health(core: &mut Core, name: &Arc<str>) -> Effect {
    let key = NamespacedName::new("", name);
    let Some(node) = core.caches.nodes.get(&key).cloned() else { return Effect::Done };
    let timings = core.options.timings;
    let grace: Duration =
        if ready(&node).is_some() { timings.node_monitor_grace_period } else { timings.node_startup_grace_period };
    let heard = *core.heartbeats.0.entry(name.clone()).or_insert_with(Instant::now);
    let due = heard + grace;
    if Instant::now() < due {
        core.queue.add_at(Work::NodeHealth(name.clone()), due);
        return Effect::Done;
    }
    let now = core.now_time();
    let unknown: Vec<NodeCondition> = POSTED.iter().filter_map(|type_| unknown(&node, type_, &now)).collect();
    if unknown.is_empty() {
        return Effect::Done;
    }
    let message = format!("Node {name} status is now: NodeNotReady");
    let telling = Telling::done(Involved::new(&NODES, View::of(&node.metadata)), "NodeNotReady", message);
    let write = Write::patch_status(&NODES, &key, &json!({"status": {"conditions": unknown}}));
    let mut writes = vec![write.telling(telling)];
    writes.extend(not_ready_pods(core, name, &now));
    Effect::InOrder(writes)
}

/// What a condition becomes that nobody posts any more; nothing where it is that already.
fn unknown(node: &Node, type_: &str, now: &Time) -> Option<NodeCondition> {
    let new = |reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: "Unknown".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: None,
        last_transition_time: Some(now.clone()),
    };
    match condition(node, type_) {
        None => {
            let created = node.metadata.creation_timestamp.clone();
            let never = new("NodeStatusNeverUpdated", "Kubelet never posted node status.");
            Some(NodeCondition { last_heartbeat_time: created, ..never })
        }
        Some(known) if known.status == "Unknown" => None,
        Some(known) => {
            let stopped = new("NodeStatusUnknown", "Kubelet stopped posting node status.");
            Some(NodeCondition { last_heartbeat_time: known.last_heartbeat_time.clone(), ..stopped })
        }
    }
}

/// Pods of a node that is not ready are not ready: Services must not send to them.
fn not_ready_pods(core: &Core, node: &str, now: &Time) -> Vec<Write> {
    let caches = &core.caches;
    let pods = caches.indexes.pods_on.get(node).filter_map(|key| caches.pods.get(key));
    pods.filter(|pod| pod.is_ready())
        .map(|pod| {
            let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": now});
            let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
            Write::patch_status(&PODS, &pod.view().key(), &patch)
        })
        .collect()
}

/// Brings the taints that a node's conditions ask for, and takes those that nothing asks for any more.
pub(crate) fn sync_taints(core: &mut Core, name: &Arc<str>) -> Effect {
    let key = NamespacedName::new("", name);
    let Some(node) = core.caches.nodes.get(&key).cloned() else { return Effect::Done };
    let now = core.now_time();
    let mut writes = Vec::new();
    let wanted = wanted_taints(&node, &now);
    if wanted != taints(&node) {
        let view = crate::objects::View::of(&node.metadata);
        let patch = json!({"metadata": {"uid": view.uid, "resourceVersion": view.version},
            "spec": {"taints": if wanted.is_empty() { serde_json::Value::Null } else { json!(wanted) }}});
        writes.push(Write::merge(&NODES, &key, &patch));
    }
    if ready(&node).is_some_and(|ready| ready.status != "True") {
        writes.extend(not_ready_pods(core, name, &now));
    }
    Effect::of(writes)
}

/// The taints that a node should have.
fn wanted_taints(node: &Node, now: &Time) -> Vec<Taint> {
    let status = |type_: &str| condition(node, type_).map(|condition| condition.status.as_str());
    let ready = status("Ready");
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match ready {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        // Nothing asks for the taint of a node that nobody has spoken of yet, though it was created with it.
        _ => {}
    }
    wanted.extend(
        BY_CONDITION.iter().filter(|(type_, _)| status(type_) == Some("True")).map(|(_, key)| (*key, "NoSchedule")),
    );
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let is_ours = |taint: &Taint| {
        let is_known = [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str())
            || BY_CONDITION.iter().any(|(_, key)| *key == taint.key);
        // Only a node that is ready loses what lets its pods be evicted.
        is_known && !(taint.effect == "NoExecute" && ready.is_none())
    };
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut out: Vec<Taint> =
        taints(node).iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !out.iter().any(|taint| (taint.key.as_str(), taint.effect.as_str()) == (key, effect)) {
            out.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(now.clone()),
                ..Taint::default()
            });
        }
    }
    out
}
