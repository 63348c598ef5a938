//! Evictions by taints of effect NoExecute.

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::world::{World, has_ended, key};
use crate::meta::{self, list_at, text_at};
use crate::server::ApiServer;
use crate::store::Range;
use crate::verbs::set_condition;

impl ApiServer {
    pub(super) fn evict_by_taints(&self, _: &World) {
        let nodes = self.values("nodes", "");
        let tainted: Vec<(&str, Vec<&Value>)> = nodes
            .iter()
            .map(|node| {
                let taints = list_at(node, &["spec", "taints"]).iter();
                (meta::name(node), taints.filter(|taint| text_at(taint, &["effect"]) == "NoExecute").collect())
            })
            .filter(|(_, taints): &(&str, Vec<&Value>)| !taints.is_empty())
            .collect();
        if tainted.is_empty() {
            self.inner.memory.tolerating.lock().clear();
            return;
        }
        let mut tolerating = std::mem::take(&mut *self.inner.memory.tolerating.lock());
        let mut still = FxHashMap::default();
        let page = self.inner.store.list("pods", &Range::default()).unwrap_or_default();
        for object in page.items {
            let node = object.selectable.fields.iter().find(|(field, _)| &**field == "spec.nodeName");
            let Some((_, taints)) = tainted.iter().find(|(name, _)| node.is_some_and(|(_, own)| **own == **name))
            else {
                continue;
            };
            let pod = object.value();
            if meta::has(&pod, "deletionTimestamp") || has_ended(&pod) {
                continue;
            }
            let Patience::For(time) = patience(&pod, taints) else { continue };
            // From when it is first seen to tolerate taints for a time, whatever taints come and go meanwhile.
            let since = tolerating.remove(&object.selectable.uid).unwrap_or_else(|| self.now());
            if !self.evict_if_due(&pod, since.checked_add(time).unwrap_or(Timestamp::MAX)) {
                still.insert(object.selectable.uid.clone(), since);
            }
        }
        *self.inner.memory.tolerating.lock() = still;
    }

    fn evict_if_due(&self, pod: &Value, due: Timestamp) -> bool {
        if due > self.now() {
            self.look_again_at(due);
            return false;
        }
        let text = self.inner.clock.now_text();
        self.change_object("pods", &key(pod), |pod| {
            set_condition(
                pod,
                &json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": text}),
            );
        });
        self.remove_object("pods", &key(pod), None);
        true
    }
}

/// For how long a pod stays on a node with taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Forever,
    For(SignedDuration),
}

/// How long a pod bears the taints of its node: the shortest time of the first toleration of each.
fn patience(pod: &Value, taints: &[&Value]) -> Patience {
    let tolerations = list_at(pod, &["spec", "tolerations"]);
    let mut shortest = Patience::Forever;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Patience::For(SignedDuration::ZERO);
        };
        let Some(seconds) = toleration.get("tolerationSeconds").and_then(Value::as_i64) else { continue };
        let time = SignedDuration::from_secs(seconds.max(0));
        shortest = match shortest {
            Patience::For(known) => Patience::For(known.min(time)),
            Patience::Forever => Patience::For(time),
        };
    }
    shortest
}

/// Whether a toleration is of a taint.
pub(super) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |field: &str| text_at(toleration, &[field]);
    let same = |field: &str| text(field) == text_at(taint, &[field]);
    if !text("effect").is_empty() && !same("effect") {
        return false;
    }
    match text("operator") {
        "Exists" => text("key").is_empty() || same("key"),
        _ => same("key") && same("value"),
    }
}
