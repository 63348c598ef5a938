//! What comes before a binding: volumes that wait for their first consumer are told its node, and are waited for. Only a
//! volume that is bound can be mounted, and nobody else says for which node it is to be made.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_decisions::{Binding, Nomination};
use berth_state::VolumeOn;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::schedule::pod_name;
use super::{Core, Job};
use crate::clock::after;
use crate::kind::{Kind, NamedObject};
use crate::write::{Op, Outcome, Write};

/// As kube-scheduler says it to provisioners.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// As kube-scheduler says it to the volume controller: nobody has reserved the volume by hand.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// How often a pod that waits for its volumes is looked at, whatever is told of them.
const LOOK: Duration = Duration::from_secs(2);

impl Core {
    /// Whether all volumes of a pod are bound, so that it may be bound itself. Until then its room is kept.
    pub(super) fn has_volumes(&mut self, binding: &Binding, now: Timestamp) -> bool {
        let pod = pod_name(&binding.object);
        let Some(record) = self.view.pods.get(&pod) else { return true };
        if record.volume_claims.is_empty() {
            return true;
        }
        let node = binding.node.key.name.to_string();
        let mut waits_for = Vec::new();
        let mut taken = BTreeSet::new();
        let mut chosen = Vec::new();
        let mut is_enough = true;
        for name in record.volume_claims.clone() {
            let claim = self.state.get_as::<PersistentVolumeClaim>(&pod.namespace, &name).cloned();
            let volume = claim.as_ref().and_then(|claim| claim.spec.as_ref()?.volume_name.as_deref());
            if volume.is_some_and(|volume| !volume.is_empty()) {
                continue;
            }
            if let Some(claim) = claim {
                match self.state.volume_on((&pod.namespace, &name), &node, &taken) {
                    None => self.select_node(&claim, &node),
                    Some(VolumeOn::Nothing) => is_enough = false,
                    Some(VolumeOn::Kept(volume)) => drop(taken.insert(volume)),
                    Some(VolumeOn::Free(volume)) => {
                        taken.insert(volume.clone());
                        chosen.push((volume, claim));
                    }
                }
            }
            waits_for.push(format!("{name:?}"));
        }
        if waits_for.is_empty() {
            return true;
        }
        // All or none: what is kept for one claim is of no use where the next one finds nothing.
        for (volume, claim) in chosen.iter().filter(|_| is_enough) {
            self.keep_volume(volume, claim);
        }
        let (object, node) = (binding.object.clone(), binding.node.clone());
        let message = format!("persistentvolumeclaim {} to be bound on node {}", waits_for.join(", "), node.key.name);
        self.explain_pod(&object, &format!("waiting for {message}"), now);
        // It is not empty, and nobody else is planned there.
        self.expected_nodes.entry(node.key.name.to_string()).or_default().push(object.clone());
        self.nominate(&Nomination { object, node, after_evictions: false, waits_for: None }, now);
        self.queue.add_at(Job::Schedule, after(now, LOOK));
        false
    }

    fn select_node(&mut self, claim: &PersistentVolumeClaim, node: &str) {
        let metadata = &claim.metadata;
        let selected = metadata.annotations.as_ref().and_then(|all| all.get(SELECTED_NODE));
        let (namespace, name) =
            (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        let job = Job::Volume(crate::view::PodName { namespace: namespace.clone(), name: name.clone() });
        // One that was chosen for another pod, or before, stands until its provisioner gives it up, or it is gone.
        let stands =
            selected.is_some_and(|selected| selected == node || self.view.nodes.get(selected.as_str()).is_some());
        if stands || self.queue.is_running(&job) {
            return;
        }
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version, "annotations": {SELECTED_NODE: node},
        }});
        let key = NamedObject::namespaced(Kind::PersistentVolumeClaim, namespace, name);
        let uid = metadata.uid.clone().unwrap_or_default();
        self.write(job, Write { key, uid, op: Op::Merge(patch) });
    }

    /// Has a volume that is there kept for a claim, as kube-scheduler does where nobody makes one: the volume controller binds
    /// them to each other then.
    fn keep_volume(&mut self, volume: &str, claim: &PersistentVolumeClaim) {
        let Some(known) = self.state.get_as::<PersistentVolume>("", volume) else { return };
        let own = &claim.metadata;
        let (namespace, name) = (own.namespace.clone().unwrap_or_default(), own.name.clone().unwrap_or_default());
        let job = Job::Volume(crate::view::PodName { namespace: namespace.clone(), name: name.clone() });
        if self.queue.is_running(&job) {
            return;
        }
        // With the version that was chosen: whoever was faster has it.
        let patch = json!({
            "metadata": {"resourceVersion": known.metadata.resource_version, "annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace,
                "name": name, "uid": own.uid, "resourceVersion": own.resource_version}},
        });
        let uid = known.metadata.uid.clone().unwrap_or_default();
        let key = NamedObject::cluster(Kind::PersistentVolume, volume.to_owned());
        self.write(job, Write { key, uid, op: Op::Merge(patch) });
    }

    /// The write of a node to a claim, or of a claim to a volume, was answered. Whatever came of it, the pod is looked at again.
    pub(super) fn selected(&mut self, job: &Job, outcome: &Outcome) {
        self.queue.done(job);
        if !matches!(outcome, Outcome::Done(_)) {
            tracing::debug!(?job, outcome = outcome.word(), "the node or the claim of a volume was not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_state::{Key, Kind as Of, ObjectRef};
    use serde_json::Value;

    use super::super::tests::at_rest;
    use super::*;
    use crate::core::{Effect, Input};
    use crate::observed::{Object, Observed};

    fn reference(kind: Of, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { key: Key::new(kind, namespace, name), uid: Some(name.into()) }
    }

    /// Which node is written to the claim of a pod that is to be bound to the node n1, where the claim names one of old.
    fn written_instead_of(node: &str) -> Option<Value> {
        let mut core = at_rest(2);
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let chosen = json!({"metadata": {"name": "data", "namespace": "default", "uid": "data", "resourceVersion": "9",
            "annotations": {SELECTED_NODE: node}}, "spec": {}, "status": {"phase": "Pending"}});
        let user = json!({"metadata": {"name": "late", "namespace": "default", "uid": "late", "resourceVersion": "9"},
            "spec": {"containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
        let claim: PersistentVolumeClaim = serde_json::from_value(chosen).unwrap();
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(user).unwrap();
        for object in [Object::from(claim), Object::from(pod)] {
            core.handle(Input::Observed(Observed::Applied(object)), now);
        }
        let (object, node) = (reference(Of::Pod, "default", "late"), reference(Of::Node, "", "n1"));
        let binding = Binding { object, node, draws_from: None, annotations: BTreeMap::new(), waits: false };
        assert!(!core.has_volumes(&binding, now), "it is not bound before its volume is");
        core.effects.iter().find_map(|effect| match effect {
            Effect::Write(Some(Job::Volume(_)), write) => match &write.op {
                Op::Merge(patch) => Some(patch["metadata"]["annotations"][SELECTED_NODE].clone()),
                _ => None,
            },
            _ => None,
        })
    }

    #[test]
    fn a_node_for_which_a_volume_is_being_made_is_chosen_anew_once_it_is_gone() {
        assert_eq!(written_instead_of("n0"), None, "its provisioner is at work");
        assert_eq!(written_instead_of("gone"), Some("n1".into()));
    }
}
