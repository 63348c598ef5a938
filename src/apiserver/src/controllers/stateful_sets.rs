//! StatefulSets: pods with ordinals and claims of their own, made and replaced in order.

use serde_json::{Value, json};

use super::revisions::{Revision, hash_of_data};
use super::world::{World, controlled_by, has_ended, is_ready, key, number, pod_of, set_label};
use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;

const REVISION: &str = "controller-revision-hash";
/// Of a revision, not of a pod.
const HASH: &str = "controller.kubernetes.io/hash";

impl ApiServer {
    pub(super) fn reconcile_stateful_sets(&self, world: &World) {
        for set in self.unsettled(world, "statefulsets.apps", 0) {
            self.reconcile_stateful_set(world, &set);
        }
    }

    fn reconcile_stateful_set(&self, world: &World, set: &Value) {
        let name = meta::name(set);
        let mut pods: Vec<(i64, Value)> = world
            .controlled("pods", meta::text(set, "uid"))
            .into_iter()
            .filter_map(|pod| Some((ordinal(&pod, name)?, pod)))
            .collect();
        pods.sort_by_key(|(ordinal, _)| *ordinal);
        let template = at(set, &["spec", "template"]).cloned().unwrap_or_default();
        let revisions = self.revisions(world, set, HASH, &hash_of_data(&template));
        let update = &revisions.present;
        let named = text_at(set, &["status", "currentRevision"]);
        let current = revisions.old.iter().find(|revision| revision.name == named).unwrap_or(update);
        self.step(set, &pods, current, update);
        let all = || pods.iter().map(|(_, pod)| pod);
        let is_of = |pod: &Value, revision: &Revision| {
            !meta::has(pod, "deletionTimestamp") && revision_of(pod) == Some(revision.name.as_str())
        };
        self.forget_revisions(set, &revisions.old, |revision| {
            revision.name == current.name || all().any(|pod| revision_of(pod) == Some(revision.name.as_str()))
        });
        let now = self.now();
        let min_ready = number(set, &["spec", "minReadySeconds"], 0);
        let wanted = usize::try_from(number(set, &["spec", "replicas"], 1)).unwrap_or(0);
        let ready = all().filter(|pod| is_ready(pod)).count();
        let updated = all().filter(|pod| is_of(pod, update)).count();
        let is_rolling = text_at(set, &["spec", "updateStrategy", "type"]) == "RollingUpdate";
        let is_rolled = is_rolling && [updated, ready, pods.len()] == [wanted; 3];
        let counts = [
            ("replicas", pods.len()),
            ("readyReplicas", ready),
            ("availableReplicas", all().filter(|pod| self.is_available(pod, min_ready, now)).count()),
            ("currentReplicas", if is_rolled { updated } else { all().filter(|pod| is_of(pod, current)).count() }),
            ("updatedReplicas", updated),
        ];
        let observed = meta::number(set, "generation").unwrap_or(0);
        let current = if is_rolled { &update.name } else { &current.name };
        self.change_object("statefulsets.apps", &key(set), |set| {
            if let Some(status) = meta::object_mut(set, &["status"]) {
                for (field, count) in counts {
                    // Zeros are left out, but for these.
                    if count > 0 || ["replicas", "availableReplicas"].contains(&field) {
                        status.insert(field.to_owned(), count.into());
                    } else {
                        status.remove(field);
                    }
                }
                status.insert("collisionCount".to_owned(), 0.into());
                status.insert("observedGeneration".to_owned(), observed.into());
                status.insert("updateRevision".to_owned(), update.name.as_str().into());
                status.insert("currentRevision".to_owned(), current.as_str().into());
            }
        });
    }

    /// One step towards what is wanted; in order, nothing goes on before the pod at hand is ready.
    fn step(&self, set: &Value, pods: &[(i64, Value)], current: &Revision, update: &Revision) {
        let in_order = text_at(set, &["spec", "podManagementPolicy"]) != "Parallel";
        let first = number(set, &["spec", "ordinals", "start"], 0);
        let end = first + number(set, &["spec", "replicas"], 1);
        // Members below the partition stay, and are made again, as they were.
        let kept = first + number(set, &["spec", "updateStrategy", "rollingUpdate", "partition"], 0);
        for ordinal in first..end {
            let pod = pods.iter().find(|(own, _)| *own == ordinal).map(|(_, pod)| pod);
            match pod {
                None => {
                    self.make_member(set, if ordinal < kept { current } else { update }, ordinal);
                    if in_order {
                        return;
                    }
                }
                Some(pod) if has_ended(pod) => {
                    self.remove_object("pods", &key(pod), Some(0));
                    if in_order {
                        return;
                    }
                }
                Some(pod) if in_order && (meta::has(pod, "deletionTimestamp") || !is_ready(pod)) => return,
                Some(_) => {}
            }
        }
        for (_, pod) in pods.iter().rev().filter(|(ordinal, _)| !(first..end).contains(ordinal)) {
            if !meta::has(pod, "deletionTimestamp") {
                self.remove_object("pods", &key(pod), None);
            }
            if in_order {
                return;
            }
        }
        if text_at(set, &["spec", "updateStrategy", "type"]) != "RollingUpdate" {
            return;
        }
        for (_, pod) in pods.iter().rev().filter(|(ordinal, _)| (kept..end).contains(ordinal)) {
            if meta::has(pod, "deletionTimestamp") {
                return;
            }
            if revision_of(pod) != Some(update.name.as_str()) {
                self.remove_object("pods", &key(pod), None);
                return;
            }
            if !is_ready(pod) {
                return;
            }
        }
    }

    fn make_member(&self, set: &Value, revision: &Revision, ordinal: i64) {
        let name = format!("{}-{ordinal}", meta::name(set));
        let namespace = meta::namespace(set);
        let mut pod = pod_of(&revision.template, set);
        meta::set(&mut pod, "name", name.as_str());
        for (label, value) in [
            (REVISION, revision.name.as_str()),
            ("statefulset.kubernetes.io/pod-name", name.as_str()),
            ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        ] {
            set_label(&mut pod, &["metadata", "labels"], label, value);
        }
        let mut volumes = list_at(&pod, &["spec", "volumes"]).to_vec();
        for claim in list_at(set, &["spec", "volumeClaimTemplates"]) {
            let own = meta::name(claim);
            let claim_name = format!("{own}-{name}");
            if self.value("persistentvolumeclaims", &format!("{namespace}/{claim_name}")).is_none() {
                let labels = at(set, &["spec", "selector", "matchLabels"]).cloned().unwrap_or_else(|| json!({}));
                let made = json!({"metadata": {"name": claim_name, "labels": labels}, "spec": claim.get("spec")});
                self.make("persistentvolumeclaims", namespace, made, "kube-controller-manager");
            }
            volumes.retain(|volume| text_at(volume, &["name"]) != own);
            volumes.push(json!({"name": own, "persistentVolumeClaim": {"claimName": claim_name}}));
        }
        if let Some(spec) = meta::object_mut(&mut pod, &["spec"]) {
            spec.insert("hostname".to_owned(), name.as_str().into());
            let service = text_at(set, &["spec", "serviceName"]);
            if !service.is_empty() {
                spec.insert("subdomain".to_owned(), service.into());
            }
            if !volumes.is_empty() {
                spec.insert("volumes".to_owned(), volumes.into());
            }
        }
        meta::set(&mut pod, "ownerReferences", json!([controlled_by(set)]));
        self.make("pods", namespace, pod, "kube-controller-manager");
    }
}

/// The name of the revision that a pod is of.
fn revision_of(pod: &Value) -> Option<&str> {
    at(pod, &["metadata", "labels", REVISION])?.as_str()
}

pub(super) fn ordinal(pod: &Value, set: &str) -> Option<i64> {
    meta::name(pod).strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}
