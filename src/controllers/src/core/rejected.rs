//! Pods that a kubelet did not let in although there was room as far as anybody knew: something else uses it, or the node says
//! more than it has. What such a pod drew is given back, since it has ended. The pod that its controller makes in its stead would
//! come to the same node, and so would the next: that controller's pods avoid the node for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_state::Event;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
};

use super::{Core, Job};
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::observed::{Object, Observed};
use crate::view::PodName;

const DAEMON_SET: &str = "DaemonSet";
/// For how long a node is avoided that did not let a pod in.
const AVOIDED_FOR: Duration = Duration::from_secs(5 * 60);

/// Which nodes are avoided by whose pods.
#[derive(Debug, Default)]
pub(super) struct Avoided {
    /// By uid of the controller: nodes, and until when.
    by_owner: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// Pods that the state knows otherwise than they are, as they are.
    told: BTreeMap<PodName, Arc<Pod>>,
}

/// Whether a kubelet did not let a pod in for want of room, by what it says of it.
fn is_rejected(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let is_failed = status.is_some_and(|status| status.phase.as_deref() == Some("Failed"));
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    is_failed && (reason.starts_with("OutOf") || matches!(reason, "UnexpectedAdmissionError" | "TopologyAffinityError"))
}

fn controller_of(pod: &Pod) -> Option<&str> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    // A daemon has its node, and no other.
    (owner.kind != DAEMON_SET).then_some(&*owner.uid)
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// The same pod, which may not go to these nodes.
fn keeping_off<'a>(pod: &Pod, nodes: impl Iterator<Item = &'a String>) -> Pod {
    let mut pod = pod.clone();
    let requirements: Vec<NodeSelectorRequirement> = nodes
        .map(|node| NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![node.clone()]),
        })
        .collect();
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required = &mut affinity.required_during_scheduling_ignored_during_execution;
    let terms = &mut required.get_or_insert_with(NodeSelector::default).node_selector_terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        term.match_fields.get_or_insert_default().extend(requirements.iter().cloned());
    }
    pod
}

impl Core {
    /// Looks for pods that came to a node in vain, before the view knows of it.
    pub(super) fn note_rejection(&mut self, observed: &Observed, now: Timestamp) {
        let Observed::Applied(Object::Pod(pod)) = observed else { return };
        if !self.is_started || !is_rejected(pod) {
            return;
        }
        let (Some(owner), Some(node)) = (controller_of(pod), node_of(pod)) else { return };
        let is_known_to_have_ended =
            self.view.pods.get(&PodName::of(&pod.metadata)).is_some_and(|known| known.is_finished);
        if is_known_to_have_ended {
            return;
        }
        let until = after(now, AVOIDED_FOR);
        self.avoided.by_owner.entry(owner.to_owned()).or_default().insert(node.to_owned(), until);
        if let Some(known) = self.view.nodes.get(node) {
            let why = pod.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default();
            let name = PodName::of(&pod.metadata);
            let message = format!(
                "its kubelet did not let pod {}/{} in ({}): pods of its controller avoid the node for {AVOIDED_FOR:?}",
                name.namespace,
                name.name,
                why.trim_end_matches('.')
            );
            self.tell(Notice::about(Kind::Node, &known.metadata.clone(), "PodRejected", message), now);
        }
        self.tell_avoiding(owner, now);
        self.queue.add_at(Job::Schedule, until);
    }

    /// The pods of a controller that wait are told to the state anew.
    fn tell_avoiding(&mut self, owner: &str, now: Timestamp) {
        let is_meant = |pod: &&Arc<berth_state::PodRecord>| {
            pod.node().is_none() && pod.controller().is_some_and(|own| own.uid == owner && own.kind != DAEMON_SET)
        };
        let waiting = self.state.pods().filter(is_meant).map(|pod| {
            let name = PodName { namespace: pod.namespace().to_owned(), name: pod.name().to_string() };
            self.avoided.told.get(&name).cloned().unwrap_or_else(|| Arc::new(pod.to_pod()))
        });
        let waiting: Vec<Arc<Pod>> = waiting.collect();
        for pod in waiting {
            let object = self.as_avoiding(&Object::Pod(pod));
            if let Some(object) = object.for_state() {
                self.apply(Event::Applied(object), now);
            }
        }
    }

    /// The object as the state is to know it: a pod that waits keeps off the nodes that its controller avoids.
    pub(super) fn as_avoiding(&mut self, object: &Object) -> Object {
        let Object::Pod(pod) = object else { return object.clone() };
        if self.avoided.by_owner.is_empty() && self.avoided.told.is_empty() {
            return object.clone();
        }
        let nodes = controller_of(pod).and_then(|owner| self.avoided.by_owner.get(owner));
        if let Some(nodes) = nodes.filter(|_| node_of(pod).is_none()) {
            self.avoided.told.insert(PodName::of(&pod.metadata), Arc::clone(pod));
            return Object::Pod(Arc::new(keeping_off(pod, nodes.keys())));
        }
        self.avoided.told.remove(&PodName::of(&pod.metadata));
        object.clone()
    }

    /// Nodes that were avoided for long enough are asked again.
    pub(super) fn end_avoiding(&mut self, now: Timestamp) {
        let mut ended = Vec::new();
        self.avoided.by_owner.retain(|owner, nodes| {
            let before = nodes.len();
            nodes.retain(|_, until| *until > now);
            if nodes.len() < before {
                ended.push(owner.clone());
            }
            !nodes.is_empty()
        });
        for owner in ended {
            self.tell_avoiding(&owner, now);
        }
        if let Some(next) = self.avoided.by_owner.values().flat_map(BTreeMap::values).min() {
            self.queue.add_at(Job::Schedule, *next);
        }
        let view = &self.view;
        self.avoided.told.retain(|pod, _| view.pods.get(pod).is_some_and(|known| known.node.is_none()));
    }
}
