//! What comes before a binding: volumes that wait for their first consumer are told its node, and are waited for. Only a
//! volume that is bound can be mounted, and nobody else says for which node it is to be made.

use std::collections::BTreeSet;

use berth_decisions::Binding;
use berth_state::VolumeOn;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::schedule::pod_name;
use super::{Core, Job};
use crate::kind::{Kind, NamedObject};
use crate::view::PodName;
use crate::write::{Op, Outcome, Write};

/// As kube-scheduler says it to provisioners.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// As kube-scheduler says it to the volume controller: nobody has reserved the volume by hand.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// How far the volumes of a pod have come that is to be bound to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VolumesOn {
    /// All are bound: it may be bound itself.
    Bound,
    /// These claims wait for theirs, which are being made or bound for that node.
    Awaited(Vec<String>),
    /// None of the volumes that there are is left on that node for one of these claims.
    Missing(Vec<String>),
}

impl Core {
    /// Has volumes made and bound for the node that a pod is to be bound to, and says how far they have come.
    pub(super) fn make_volumes(&mut self, binding: &Binding, now: Timestamp) -> VolumesOn {
        let pod = pod_name(&binding.object);
        let Some(record) = self.view.pods.get(&pod).filter(|record| !record.volume_claims.is_empty()) else {
            return VolumesOn::Bound;
        };
        let node = binding.node.key.name.to_string();
        let mut waits_for = Vec::new();
        let mut taken: BTreeSet<String> = self.kept_volumes.values().cloned().collect();
        // Volumes that are there to be kept, and claims whose provisioners are to be told the node.
        let (mut chosen, mut made) = (Vec::new(), Vec::new());
        let (mut is_enough, mut are_kept) = (true, true);
        for name in record.volume_claims.clone() {
            let claim = self.state.get_as::<PersistentVolumeClaim>(&pod.namespace, &name).cloned();
            let volume = claim.as_ref().and_then(|claim| claim.spec.as_ref()?.volume_name.as_deref());
            if volume.is_some_and(|volume| !volume.is_empty()) {
                continue;
            }
            waits_for.push(name.clone());
            let id = PodName { namespace: pod.namespace.clone(), name };
            let is_written = self.queue.is_running(&Job::Volume(id.clone()));
            let Some(claim) = claim.filter(|_| !is_written) else {
                are_kept = false;
                continue;
            };
            match self.state.volume_on((&id.namespace, &id.name), &node, &taken, now) {
                VolumeOn::Made => made.push((id, claim)),
                VolumeOn::Nothing => is_enough = false,
                VolumeOn::Kept(volume) => drop(taken.insert(volume)),
                VolumeOn::Free(volume) => {
                    taken.insert(volume.clone());
                    chosen.push((id, claim, volume));
                }
            }
        }
        if waits_for.is_empty() {
            return VolumesOn::Bound;
        }
        // All or none: what is kept for one claim is of no use where the next one finds nothing, and what is made stays where it
        // is, so that provisioners are told the node once all else has its volume there.
        are_kept &= is_enough && chosen.is_empty();
        for (id, claim, volume) in chosen.into_iter().filter(|_| is_enough) {
            self.keep_volume(id, &claim, volume);
        }
        for (id, claim) in made.into_iter().filter(|_| are_kept) {
            self.select_node(id, &claim, &node);
        }
        if is_enough { VolumesOn::Awaited(waits_for) } else { VolumesOn::Missing(waits_for) }
    }

    fn select_node(&mut self, id: PodName, claim: &PersistentVolumeClaim, node: &str) {
        let metadata = &claim.metadata;
        let selected = metadata.annotations.as_ref().and_then(|all| all.get(SELECTED_NODE));
        // One that was chosen for another pod, or before, stands until its provisioner gives it up, or it is gone.
        if selected.is_some_and(|selected| selected == node || self.view.nodes.get(selected.as_str()).is_some()) {
            return;
        }
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version, "annotations": {SELECTED_NODE: node},
        }});
        let key = NamedObject::namespaced(Kind::PersistentVolumeClaim, id.namespace.clone(), id.name.clone());
        let uid = metadata.uid.clone().unwrap_or_default();
        self.write(Job::Volume(id), Write { key, uid, op: Op::Merge(patch) });
    }

    /// Has a volume that is there kept for a claim, as kube-scheduler does where nobody makes one: the volume controller binds
    /// them to each other then.
    fn keep_volume(&mut self, id: PodName, claim: &PersistentVolumeClaim, volume: String) {
        let Some(known) = self.state.get_as::<PersistentVolume>("", &volume) else { return };
        // With the version that was chosen: whoever was faster has it.
        let patch = json!({
            "metadata": {"resourceVersion": known.metadata.resource_version, "annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": id.namespace,
                "name": id.name, "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}},
        });
        let uid = known.metadata.uid.clone().unwrap_or_default();
        let key = NamedObject::cluster(Kind::PersistentVolume, volume.clone());
        self.kept_volumes.insert(id.clone(), volume);
        self.write(Job::Volume(id), Write { key, uid, op: Op::Merge(patch) });
    }

    /// The write of a node to a claim, or of a claim to a volume, was answered. Whatever came of it, the pod is looked at again
    /// some time.
    pub(super) fn selected(&mut self, job: &Job, outcome: &Outcome) {
        self.queue.done(job);
        if let Job::Volume(claim) = job {
            self.kept_volumes.remove(claim);
            // What was refused would be again, as long as nothing else is told: it is tried again a while later.
            if matches!(outcome, Outcome::Done(_)) {
                self.look_at_users_of(claim);
            }
        }
        if !matches!(outcome, Outcome::Done(_)) {
            tracing::debug!(?job, outcome = outcome.word(), "the node or the claim of a volume was not written");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use berth_state::{Key, Kind as Of, ObjectRef};
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::api::storage::v1::StorageClass;
    use serde_json::Value;

    use super::super::tests::at_rest;
    use super::*;
    use crate::core::{Effect, Input};
    use crate::observed::{Object, Observed};

    fn reference(kind: Of, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { key: Key::new(kind, namespace, name), uid: Some(name.into()) }
    }

    pub(in crate::core) fn applied<T: serde::de::DeserializeOwned>(core: &mut Core, object: Value)
    where
        Object: From<T>,
    {
        let object: T = serde_json::from_value(object).unwrap();
        core.handle(Input::Observed(Observed::Applied(Object::from(object))), now());
    }

    pub(in crate::core) fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    pub(in crate::core) fn user(name: &str, claim: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "9"},
            "spec": {"containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}})
    }

    /// A pod that is to be bound to the node n1.
    pub(in crate::core) fn to_n1(pod: &str) -> Binding {
        let (object, node) = (reference(Of::Pod, "default", pod), reference(Of::Node, "", "n1"));
        Binding { object, node, draws_from: None, annotations: BTreeMap::new(), waits: false }
    }

    fn is_bound(core: &mut Core, pod: &str) -> bool {
        core.has_volumes(&to_n1(pod), now())
    }

    /// The writes about volumes so far.
    fn written(core: &Core) -> Vec<(String, &Value)> {
        let about_volumes = core.effects.iter().filter_map(|effect| match effect {
            Effect::Write(Some(Job::Volume(_)), write) => Some(write),
            _ => None,
        });
        let patches = about_volumes.filter_map(|write| match &write.op {
            Op::Merge(patch) => Some((write.key.name.clone(), patch)),
            _ => None,
        });
        patches.collect()
    }

    /// Which node is written to the claim of a pod that is to be bound to the node n1, where the claim names one of old.
    fn written_instead_of(node: &str) -> Option<Value> {
        let mut core = at_rest(2);
        let chosen = json!({"metadata": {"name": "data", "namespace": "default", "uid": "data", "resourceVersion": "9",
            "annotations": {SELECTED_NODE: node}}, "spec": {}, "status": {"phase": "Pending"}});
        applied::<PersistentVolumeClaim>(&mut core, chosen);
        applied::<Pod>(&mut core, user("late", "data"));
        assert!(!is_bound(&mut core, "late"), "it is not bound before its volume is");
        written(&core).first().map(|(_, patch)| patch["metadata"]["annotations"][SELECTED_NODE].clone())
    }

    #[test]
    fn a_node_for_which_a_volume_is_being_made_is_chosen_anew_once_it_is_gone() {
        assert_eq!(written_instead_of("n0"), None, "its provisioner is at work");
        assert_eq!(written_instead_of("gone"), Some("n1".into()));
    }

    /// The regression: all chose the smallest volume, one got it, and the others looked again later.
    #[test]
    fn pods_that_come_together_keep_a_volume_each_and_one_that_is_alone_keeps_none() {
        let mut core = at_rest(2);
        let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer"});
        applied::<StorageClass>(&mut core, class);
        for (name, size) in [("large", "3Gi"), ("small", "2Gi")] {
            let volume = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "9"},
                "spec": {"capacity": {"storage": size}, "storageClassName": "local"}, "status": {"phase": "Available"}});
            applied::<PersistentVolume>(&mut core, volume);
        }
        for claim in ["a", "b", "c"] {
            let claim = json!({"metadata": {"name": claim, "namespace": "default", "uid": claim, "resourceVersion": "9"},
                "spec": {"storageClassName": "local"}, "status": {"phase": "Pending"}});
            applied::<PersistentVolumeClaim>(&mut core, claim);
        }
        for pod in ["a", "b", "c"] {
            applied::<Pod>(&mut core, user(pod, pod));
            assert!(!is_bound(&mut core, pod), "{pod}");
        }
        let kept: Vec<_> =
            written(&core).into_iter().map(|(name, patch)| (name, &patch["spec"]["claimRef"]["name"])).collect();
        assert_eq!(kept, [("small".to_owned(), &json!("a")), ("large".to_owned(), &json!("b"))]);
        // Answered: the volumes are known by their claims from now on, or free again.
        core.selected(
            &Job::Volume(PodName { namespace: "default".into(), name: "a".into() }),
            &Outcome::Conflict(String::new()),
        );
        assert!(!is_bound(&mut core, "c"));
        assert_eq!(written(&core).last().map(|(name, _)| name.clone()), Some("small".to_owned()));
    }

    /// The regression: the provisioner made a volume for a pod that then found no local one on that node, and was tied to it.
    #[test]
    fn a_volume_is_made_once_those_that_are_there_are_kept() {
        let mut core = at_rest(2);
        let classes = [("local", "kubernetes.io/no-provisioner"), ("made", "ebs.csi.aws.com")];
        for (name, provisioner) in classes {
            let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer"});
            applied::<StorageClass>(&mut core, class);
        }
        let volume = json!({"metadata": {"name": "there", "uid": "there", "resourceVersion": "9"},
            "spec": {"capacity": {"storage": "2Gi"}, "storageClassName": "local"}, "status": {"phase": "Available"}});
        applied::<PersistentVolume>(&mut core, volume);
        for pod in ["first", "second"] {
            for (class, _) in classes {
                let name = format!("{pod}-{class}");
                let claim = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "9"},
                    "spec": {"storageClassName": class}, "status": {"phase": "Pending"}});
                applied::<PersistentVolumeClaim>(&mut core, claim);
            }
            let uses = classes.map(
                |(class, _)| json!({"name": class, "persistentVolumeClaim": {"claimName": format!("{pod}-{class}")}}),
            );
            let mut object = user(pod, "");
            object["spec"]["volumes"] = json!(uses);
            applied::<Pod>(&mut core, object);
            assert!(!is_bound(&mut core, pod), "{pod}");
        }
        let told = |core: &Core| written(core).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(told(&core), ["there"], "kept for the first; nothing is made for either");
        let holding_room: Vec<&str> = core.pre_binding.iter().map(|(pod, _)| &*pod.name).collect();
        assert_eq!(holding_room, ["first"]);
        let kept = json!({"metadata": {"name": "there", "uid": "there", "resourceVersion": "10"},
            "spec": {"capacity": {"storage": "2Gi"}, "storageClassName": "local",
                "claimRef": {"namespace": "default", "name": "first-local", "uid": "first-local"}},
            "status": {"phase": "Available"}});
        applied::<PersistentVolume>(&mut core, kept);
        let job = Job::Volume(PodName { namespace: "default".into(), name: "first-local".into() });
        core.selected(&job, &Outcome::Conflict(String::new()));
        assert!(!is_bound(&mut core, "second"));
        assert_eq!(told(&core), ["there"], "the second has no local volume on this node, nor room that is held for it");
        assert!(!is_bound(&mut core, "first"));
        assert_eq!(told(&core), ["there", "first-made"]);
    }
}
