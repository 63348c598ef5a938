//! DaemonSets: a pod on every node that they are for.

use serde_json::{Value, json};

use super::taints::tolerates;
use super::world::{World, has_ended, hash_of, is_ready, key, pod_of, set_label, share};
use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;

const REVISION: &str = "controller-revision-hash";
/// Taints that daemons do not mind, with their effects.
const MINDLESS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

impl ApiServer {
    pub(super) fn reconcile_daemon_sets(&self, world: &World) {
        let sets = self.unsettled(world, "daemonsets.apps", self.version_of("nodes"));
        if sets.is_empty() {
            return;
        }
        let nodes = self.values("nodes", "");
        for set in sets {
            self.reconcile_daemon_set(world, &set, &nodes);
        }
    }

    fn reconcile_daemon_set(&self, world: &World, set: &Value, nodes: &[Value]) {
        let mut template = at(set, &["spec", "template"]).cloned().unwrap_or_default();
        let revisions = self.revisions(world, set, REVISION, &hash_of(&template));
        let revision = revisions.present.hash.clone();
        tolerate_all(&mut template);
        let pods = world.controlled("pods", meta::text(set, "uid"));
        let on = |node: &str| pods.iter().filter(move |pod| node_of(pod) == Some(node)).collect::<Vec<_>>();
        let (mut wanted, mut has, mut ready, mut updated, mut astray) = (0, 0, 0, 0, 0);
        let mut old = Vec::new();
        for node in nodes.iter().filter(|node| !meta::has(node, "deletionTimestamp")) {
            let name = meta::name(node);
            let here = on(name);
            let live: Vec<&&Value> =
                here.iter().filter(|pod| !has_ended(pod) && !meta::has(pod, "deletionTimestamp")).collect();
            if !is_for(&template, node) {
                astray += live.len();
                for pod in live {
                    self.remove_object("pods", &key(pod), None);
                }
                continue;
            }
            wanted += 1;
            for pod in here.iter().filter(|pod| has_ended(pod) && !meta::has(pod, "deletionTimestamp")) {
                self.remove_object("pods", &key(pod), Some(0));
            }
            let Some(pod) = live.first() else {
                if here.is_empty() {
                    self.make_daemon(set, &template, name, &revision);
                }
                continue;
            };
            has += 1;
            ready += i64::from(is_ready(pod));
            if at(pod, &["metadata", "labels", REVISION]).and_then(Value::as_str) == Some(&revision) {
                updated += 1;
            } else {
                old.push((**pod).clone());
            }
        }
        self.replace_old(set, &old, wanted, ready);
        // A pod of a node that is gone has no place.
        for pod in &pods {
            let is_lost = node_of(pod).is_some_and(|name| nodes.iter().all(|node| meta::name(node) != name));
            if is_lost && !meta::has(pod, "deletionTimestamp") {
                self.remove_object("pods", &key(pod), Some(0));
            }
        }
        let of = |pod: &Value| at(pod, &["metadata", "labels", REVISION]).and_then(Value::as_str).map(str::to_owned);
        self.forget_revisions(set, &revisions.old, |revision| {
            pods.iter().any(|pod| of(pod).as_deref() == Some(revision.hash.as_str()))
        });
        let observed = meta::number(set, "generation").unwrap_or(0);
        self.change_object("daemonsets.apps", &key(set), |set| {
            if let Some(status) = meta::object_mut(set, &["status"]) {
                for (field, count) in [
                    ("desiredNumberScheduled", wanted),
                    ("currentNumberScheduled", has),
                    ("numberMisscheduled", i64::try_from(astray).unwrap_or(i64::MAX)),
                    ("numberReady", ready),
                    ("numberAvailable", ready),
                    ("numberUnavailable", wanted - ready),
                    ("updatedNumberScheduled", updated),
                    ("observedGeneration", observed),
                ] {
                    status.insert(field.to_owned(), count.into());
                }
            }
        });
    }

    fn replace_old(&self, set: &Value, old: &[Value], wanted: i64, ready: i64) {
        if text_at(set, &["spec", "updateStrategy", "type"]) != "RollingUpdate" {
            return;
        }
        let absent = at(set, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
        let mut spare = (share(absent, wanted, true).max(1) - (wanted - ready)).max(0);
        for pod in old {
            if is_ready(pod) {
                if spare == 0 {
                    continue;
                }
                spare -= 1;
            }
            self.remove_object("pods", &key(pod), None);
        }
    }

    fn make_daemon(&self, set: &Value, template: &Value, node: &str, revision: &str) {
        let mut pod = pod_of(template, set);
        meta::set(&mut pod, "generateName", format!("{}-", meta::name(set)));
        set_label(&mut pod, &["metadata", "labels"], REVISION, revision);
        let field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        if let Some(required) = meta::object_mut(&mut pod, &path) {
            required.insert("nodeSelectorTerms".to_owned(), json!([field]));
        }
        self.make("pods", meta::namespace(set), pod, "kube-controller-manager");
    }
}

/// The node that a pod is on, or is meant for.
fn node_of(pod: &Value) -> Option<&str> {
    let bound = text_at(pod, &["spec", "nodeName"]);
    if !bound.is_empty() {
        return Some(bound);
    }
    let required = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let term = list_at(at(pod, &required)?, &["nodeSelectorTerms"]).first()?;
    list_at(term, &["matchFields"]).first()?.get("values")?.get(0)?.as_str()
}

fn tolerate_all(template: &mut Value) {
    let Some(spec) = meta::object_mut(template, &["spec"]) else { return };
    let is_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Value::Array(list) = list else { return };
    let network = is_host.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    for (key, effect) in MINDLESS.into_iter().chain(network) {
        let own = json!({"key": key, "operator": "Exists", "effect": effect});
        if !list.contains(&own) {
            list.push(own);
        }
    }
}

/// Whether a node is one that the pods are for: named, selected, affine, and its taints tolerated.
fn is_for(template: &Value, node: &Value) -> bool {
    let spec = template.get("spec").cloned().unwrap_or_default();
    let named = text_at(&spec, &["nodeName"]);
    if !named.is_empty() && named != meta::name(node) {
        return false;
    }
    let label = |key: &str| at(node, &["metadata", "labels", key]).and_then(Value::as_str);
    let selected = at(&spec, &["nodeSelector"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str());
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let affine = at(&spec, &required).is_none_or(|required| super::claims::node_selector_fits(required, node));
    let tolerations = list_at(&spec, &["tolerations"]);
    let tolerated = list_at(node, &["spec", "taints"]).iter().all(|taint| {
        text_at(taint, &["effect"]) == "PreferNoSchedule" || tolerations.iter().any(|t| tolerates(t, taint))
    });
    selected && affine && tolerated
}
