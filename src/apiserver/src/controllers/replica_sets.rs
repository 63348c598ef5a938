//! ReplicaSets and ReplicationControllers: as many pods as they want, the least valuable go first.

use serde_json::{Value, json};

use super::world::{World, available_at, is_active, is_ready, key, number, pod_of, rank};
use crate::meta;
use crate::selector::LabelSelector;
use crate::server::ApiServer;

/// Pods made in one round for one set.
const BURST: usize = 500;

impl ApiServer {
    pub(super) fn reconcile_replica_sets(&self, world: &World) {
        self.reconcile_replicas(world, "replicasets.apps");
    }

    pub(super) fn reconcile_replication_controllers(&self, world: &World) {
        self.reconcile_replicas(world, "replicationcontrollers");
    }

    fn reconcile_replicas(&self, world: &World, storage: &str) {
        for set in self.unsettled(world, storage, 0) {
            self.reconcile_replica_set(world, storage, &set);
        }
    }

    fn reconcile_replica_set(&self, world: &World, storage: &str, set: &Value) {
        let mut pods = world.controlled("pods", meta::text(set, "uid"));
        pods.retain(is_active);
        let wanted = usize::try_from(number(set, &["spec", "replicas"], 1)).unwrap_or(0);
        let template = meta::at(set, &["spec", "template"]).cloned().unwrap_or_default();
        for _ in pods.len()..wanted.min(pods.len() + BURST) {
            let mut pod = pod_of(&template, set);
            meta::set(&mut pod, "generateName", format!("{}-", meta::name(set)));
            if !self.make("pods", meta::namespace(set), pod, "kube-controller-manager") {
                break;
            }
        }
        pods.sort_by_key(rank);
        for pod in pods.drain(..pods.len().saturating_sub(wanted)) {
            self.remove_object("pods", &key(&pod), None);
        }
        let now = self.now();
        let min_ready = number(set, &["spec", "minReadySeconds"], 0);
        let labels = meta::at(set, &["spec", "template", "metadata", "labels"]).cloned().unwrap_or_else(|| json!({}));
        let labelled = LabelSelector::from_object(Some(&json!({"matchLabels": labels})));
        let counts = [
            ("replicas", pods.len()),
            ("fullyLabeledReplicas", pods.iter().filter(|pod| labelled.matches_object(pod)).count()),
            ("readyReplicas", pods.iter().filter(|pod| is_ready(pod)).count()),
            ("availableReplicas", pods.iter().filter(|pod| self.is_available(pod, min_ready, now)).count()),
        ];
        let observed = meta::number(set, "generation").unwrap_or(0);
        self.change_object(storage, &key(set), |set| {
            if let Some(status) = meta::object_mut(set, &["status"]) {
                for (field, count) in counts {
                    status.insert(field.to_owned(), count.into());
                }
                status.insert("observedGeneration".to_owned(), observed.into());
            }
        });
    }

    /// Whether a pod has been ready for long enough; if it will be, it is looked at again then.
    pub(super) fn is_available(&self, pod: &Value, min_ready: i64, now: jiff::Timestamp) -> bool {
        match available_at(pod, min_ready) {
            Some(time) if time <= now => true,
            Some(time) => {
                let owner = super::world::controller(pod).map_or("", |owner| meta::text_at(owner, &["uid"]));
                self.look_again(owner, time);
                false
            }
            None => false,
        }
    }
}
