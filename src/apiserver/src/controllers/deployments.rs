//! Deployments: a ReplicaSet for each template, and a roll from the old to the new within surge and unavailability.

use serde_json::{Value, json};

use super::world::{World, controlled_by, hash_of, key, number, set_label, share};
use crate::meta::{self, at, text_at};
use crate::server::ApiServer;
use crate::verbs::set_condition;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

impl ApiServer {
    pub(super) fn reconcile_deployments(&self, world: &World) {
        for deployment in self.unsettled(world, "deployments.apps", 0) {
            let mut sets = world.controlled("replicasets.apps", meta::text(&deployment, "uid"));
            sets.retain(|set| !meta::has(set, "deletionTimestamp"));
            sets.sort_by_key(revision);
            if at(&deployment, &["spec", "paused"]) != Some(&Value::Bool(true)) {
                self.roll(&deployment, &sets);
            }
            self.write_deployment_status(&deployment, &sets);
        }
    }

    fn roll(&self, deployment: &Value, sets: &[Value]) {
        let template = at(deployment, &["spec", "template"]).cloned().unwrap_or_default();
        let wanted = number(deployment, &["spec", "replicas"], 1);
        let rolling = at(deployment, &["spec", "strategy", "rollingUpdate"]);
        let surge = share(rolling.and_then(|r| r.get("maxSurge")), wanted, true);
        let mut absent = share(rolling.and_then(|r| r.get("maxUnavailable")), wanted, false);
        let recreates = text_at(deployment, &["spec", "strategy", "type"]) == "Recreate";
        if surge == 0 && absent == 0 {
            absent = 1;
        }
        let newest = sets.last().map_or(0, revision);
        let Some(new) = sets.iter().rev().find(|set| without_hash(set) == template) else {
            let old_pods: i64 = sets.iter().map(|set| number(set, &["spec", "replicas"], 0)).sum();
            let first = if recreates {
                // Nothing new until everything old is gone.
                self.scale_old(sets, 0);
                if sets.iter().any(|set| number(set, &["status", "replicas"], 0) > 0) || old_pods > 0 {
                    0
                } else {
                    wanted
                }
            } else {
                (wanted + surge - old_pods).clamp(0, wanted)
            };
            self.make_set(deployment, &template, newest + 1, first);
            return;
        };
        let old: Vec<&Value> = sets.iter().filter(|set| meta::name(set) != meta::name(new)).collect();
        let old_pods: i64 = old.iter().map(|set| number(set, &["spec", "replicas"], 0)).sum();
        let now = number(new, &["spec", "replicas"], 0);
        if revision(new) < newest {
            self.change_object("replicasets.apps", &key(new), |set| annotate(set, REVISION, &(newest + 1).to_string()));
        }
        if recreates {
            for set in &old {
                self.scale_set(set, 0);
            }
            let is_gone = old.iter().all(|set| number(set, &["status", "replicas"], 0) == 0) && old_pods == 0;
            if is_gone {
                self.scale_set(new, wanted);
            }
        } else {
            self.scale_set(new, (wanted + surge - old_pods).clamp(now.min(wanted), wanted));
            // Pods that are not available go first, available ones only as far as enough are left.
            let serving = |set: &Value| {
                number(set, &["status", "availableReplicas"], 0).min(number(set, &["spec", "replicas"], 0))
            };
            let available: i64 = sets.iter().map(serving).sum();
            let mut spare = (available - (wanted - absent)).max(0);
            for set in &old {
                let has = number(set, &["spec", "replicas"], 0);
                let own = number(set, &["status", "availableReplicas"], 0).min(has);
                let gone = (has - own) + own.min(spare);
                spare -= own.min(spare);
                if gone > 0 {
                    self.scale_set(set, has - gone);
                }
            }
        }
        self.forget_old(deployment, &old);
        let told = revision(new).to_string();
        self.change_object("deployments.apps", &key(deployment), |object| annotate(object, REVISION, &told));
    }

    fn scale_old(&self, sets: &[Value], replicas: i64) {
        for set in sets {
            self.scale_set(set, replicas);
        }
    }

    fn scale_set(&self, set: &Value, replicas: i64) {
        self.change_object("replicasets.apps", &key(set), |set| {
            if let Some(spec) = meta::object_mut(set, &["spec"]) {
                spec.insert("replicas".to_owned(), replicas.into());
            }
        });
    }

    fn make_set(&self, deployment: &Value, template: &Value, revision: i64, replicas: i64) {
        let hash = hash_of(template);
        let mut template = template.clone();
        set_label(&mut template, &["metadata", "labels"], HASH, &hash);
        let mut selector = at(deployment, &["spec", "selector"]).cloned().unwrap_or_default();
        set_label(&mut selector, &["matchLabels"], HASH, &hash);
        let labels = at(&template, &["metadata", "labels"]).cloned().unwrap_or_default();
        let set = json!({
            "metadata": {"name": format!("{}-{hash}", meta::name(deployment)), "labels": labels,
                         "annotations": {REVISION: revision.to_string()},
                         "ownerReferences": [controlled_by(deployment)]},
            "spec": {"replicas": replicas, "selector": selector, "template": template,
                     "minReadySeconds": number(deployment, &["spec", "minReadySeconds"], 0)}});
        self.make("replicasets.apps", meta::namespace(deployment), set, "kube-controller-manager");
    }

    /// Old sets without pods are kept as far as the history goes.
    fn forget_old(&self, deployment: &Value, old: &[&Value]) {
        let empty: Vec<&&Value> = old
            .iter()
            .filter(|set| number(set, &["spec", "replicas"], 0) == 0 && number(set, &["status", "replicas"], 0) == 0)
            .collect();
        let kept = usize::try_from(number(deployment, &["spec", "revisionHistoryLimit"], 10)).unwrap_or(0);
        for set in empty.iter().take(empty.len().saturating_sub(kept)) {
            self.remove_object("replicasets.apps", &key(set), None);
        }
    }

    fn write_deployment_status(&self, deployment: &Value, sets: &[Value]) {
        let template = at(deployment, &["spec", "template"]).cloned().unwrap_or_default();
        let wanted = number(deployment, &["spec", "replicas"], 1);
        let sum = |field: &str| sets.iter().map(|set| number(set, &["status", field], 0)).sum::<i64>();
        let new = sets.iter().rev().find(|set| without_hash(set) == template);
        let updated = new.map_or(0, |set| number(set, &["status", "replicas"], 0));
        let (replicas, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
        let rolling = at(deployment, &["spec", "strategy", "rollingUpdate"]);
        let absent = share(rolling.and_then(|r| r.get("maxUnavailable")), wanted, false);
        let is_complete = updated == wanted && replicas == wanted && available >= wanted;
        let now = self.inner.clock.now_text();
        let observed = meta::number(deployment, "generation").unwrap_or(0);
        let name = new.map_or_else(|| meta::name(deployment).to_owned(), |set| meta::name(set).to_owned());
        self.change_object("deployments.apps", &key(deployment), |object| {
            if let Some(status) = meta::object_mut(object, &["status"]) {
                for (field, count) in [
                    ("observedGeneration", observed),
                    ("replicas", replicas),
                    ("updatedReplicas", updated),
                    ("readyReplicas", ready),
                    ("availableReplicas", available),
                    ("unavailableReplicas", (replicas.max(wanted) - available).max(0)),
                ] {
                    status.insert(field.to_owned(), count.into());
                }
            }
            let (is_available, reason, message) = if available >= wanted - absent {
                ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
            } else {
                ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
            };
            set_condition(object, &json!({"type": "Available", "status": is_available, "reason": reason,
                "message": message, "lastUpdateTime": now, "lastTransitionTime": now}));
            let (reason, what) = if is_complete {
                ("NewReplicaSetAvailable", "has successfully progressed.")
            } else {
                ("ReplicaSetUpdated", "is progressing.")
            };
            // The time of an unchanged condition stays, or every round would be a change.
            let was = super::world::condition(object, "Progressing");
            let same = was.is_some_and(|was| text_at(was, &["reason"]) == reason);
            if !same {
                set_condition(object, &json!({"type": "Progressing", "status": "True", "reason": reason,
                    "message": format!("ReplicaSet {name:?} {what}"), "lastUpdateTime": now, "lastTransitionTime": now}));
            }
        });
    }
}

fn revision(set: &Value) -> i64 {
    meta::annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn annotate(object: &mut Value, key: &str, value: &str) {
    set_label(object, &["metadata", "annotations"], key, value);
}

/// The template of a set as its Deployment has it.
fn without_hash(set: &Value) -> Value {
    let mut template = at(set, &["spec", "template"]).cloned().unwrap_or_default();
    if let Some(labels) = meta::object_mut(&mut template, &["metadata", "labels"]) {
        labels.remove(HASH);
    }
    template
}
