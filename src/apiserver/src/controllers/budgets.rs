//! PodDisruptionBudgets: how many pods may be disrupted now.

use std::hash::Hasher;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{World, controller, has_ended, is_ready, key, number, share};
use crate::meta::{self, at, text_at};
use crate::selector::LabelSelector;
use crate::server::ApiServer;
use crate::store::Range;
use crate::verbs::set_condition;

/// An eviction that did not delete its pod is forgotten after this.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(2);

impl ApiServer {
    pub(super) fn count_budgets(&self, _: &World) {
        let scales = ["deployments.apps", "replicasets.apps", "statefulsets.apps"]
            .iter()
            .fold(0, |sum: u64, storage| sum.rotate_left(7) ^ self.version_of(storage));
        let budgets = self.inner.store.list("poddisruptionbudgets.policy", &Range::default()).unwrap_or_default();
        for object in budgets.items {
            let budget = &object.value();
            if meta::has(budget, "deletionTimestamp") {
                continue;
            }
            let selector = LabelSelector::from_object(at(budget, &["spec", "selector"]));
            let prefix = format!("{}/", meta::namespace(budget));
            let range = Range { prefix: &prefix, ..Range::default() };
            let mut page = self.inner.store.list("pods", &range).unwrap_or_default();
            page.items.retain(|pod| selector.matches_stored(pod));
            let mut hash = rustc_hash::FxHasher::default();
            for revision in page.items.iter().map(|pod| pod.revision).chain([object.revision, scales]) {
                hash.write_u64(revision);
            }
            if self.is_settled(&object.selectable.uid, hash.finish()) {
                continue;
            }
            let pods: Vec<Value> = page.items.iter().map(|pod| pod.value()).filter(|pod| !has_ended(pod)).collect();
            self.count_budget(budget, &pods);
        }
    }

    fn count_budget(&self, budget: &Value, pods: &[Value]) {
        let now = self.now();
        let disrupted = self.still_disrupted(budget, pods, now);
        let is_disrupted = |pod: &Value| disrupted.contains_key(meta::name(pod));
        let healthy = pods
            .iter()
            .filter(|pod| is_ready(pod) && !meta::has(pod, "deletionTimestamp") && !is_disrupted(pod))
            .count();
        let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
        let n_pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let (min, max) = (at(budget, &["spec", "minAvailable"]), at(budget, &["spec", "maxUnavailable"]));
        let (expected, desired) = if max.is_some() {
            let expected = self.expected(pods);
            (expected, (expected - share(max, expected, true)).max(0))
        } else if min.is_some_and(Value::is_string) {
            let expected = self.expected(pods);
            (expected, share(min, expected, true))
        } else {
            (n_pods, share(min, n_pods, true))
        };
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let observed = meta::number(budget, "generation").unwrap_or(0);
        let text = self.inner.clock.now_text();
        self.change_object("poddisruptionbudgets.policy", &key(budget), |budget| {
            if let Some(status) = meta::object_mut(budget, &["status"]) {
                for (field, count) in [
                    ("expectedPods", expected),
                    ("currentHealthy", healthy),
                    ("desiredHealthy", desired),
                    ("disruptionsAllowed", allowed),
                    ("observedGeneration", observed),
                ] {
                    status.insert(field.to_owned(), count.into());
                }
                if disrupted.is_empty() {
                    status.remove("disruptedPods");
                } else {
                    status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
                }
            }
            let (is_left, reason) =
                if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            set_condition(
                budget,
                &json!({"type": "DisruptionAllowed", "status": is_left, "reason": reason, "message": "",
                                          "observedGeneration": observed, "lastTransitionTime": text}),
            );
        });
    }

    /// Pods that were evicted and are not deleted yet, as long as that is believed.
    fn still_disrupted(&self, budget: &Value, pods: &[Value], now: jiff::Timestamp) -> serde_json::Map<String, Value> {
        let mut out = serde_json::Map::new();
        for (name, time) in at(budget, &["status", "disruptedPods"]).and_then(Value::as_object).into_iter().flatten() {
            let is_there = pods.iter().any(|pod| meta::name(pod) == name && !meta::has(pod, "deletionTimestamp"));
            let since = time.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let due = since.and_then(|since| since.checked_add(FORGOTTEN).ok());
            if let Some(due) = due.filter(|due| is_there && *due > now) {
                self.look_again(meta::text(budget, "uid"), due);
                out.insert(name.clone(), time.clone());
            }
        }
        out
    }

    /// How many pods the controllers of some pods want.
    fn expected(&self, pods: &[Value]) -> i64 {
        let mut scales = std::collections::BTreeMap::new();
        let mut alone = 0;
        for pod in pods {
            match self.scale_behind(pod) {
                Some((uid, replicas)) => {
                    scales.insert(uid, replicas);
                }
                None => alone += 1,
            }
        }
        alone + scales.values().sum::<i64>()
    }

    /// What says how many pods like this one there should be: a Deployment before its ReplicaSets.
    fn scale_behind(&self, pod: &Value) -> Option<(String, i64)> {
        let named = |owner: &Value| format!("{}/{}", meta::namespace(pod), text_at(owner, &["name"]));
        let owner = controller(pod)?;
        let storage = match text_at(owner, &["kind"]) {
            "ReplicaSet" => "replicasets.apps",
            "StatefulSet" => "statefulsets.apps",
            "ReplicationController" => "replicationcontrollers",
            _ => return None,
        };
        let set = self.value(storage, &named(owner))?;
        let above = controller(&set).filter(|above| text_at(above, &["kind"]) == "Deployment");
        let scale = above.and_then(|above| self.value("deployments.apps", &named(above))).unwrap_or(set);
        Some((meta::text(&scale, "uid").to_owned(), number(&scale, &["spec", "replicas"], 1)))
    }
}
