//! Evictions by taints of effect NoExecute.

use jiff::{SignedDuration, Timestamp};
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
            return;
        }
        let page = self.inner.store.list("pods", &Range::default()).unwrap_or_default();
        for object in page.items {
            let node = object.selectable.fields.iter().find(|(field, _)| &**field == "spec.nodeName");
            let Some((_, taints)) = tainted.iter().find(|(name, _)| node.is_some_and(|(_, own)| **own == **name))
            else {
                continue;
            };
            let pod = object.value();
            if !meta::has(&pod, "deletionTimestamp") && !has_ended(&pod) {
                self.evict_if_due(&pod, taints);
            }
        }
    }

    fn evict_if_due(&self, pod: &Value, taints: &[&Value]) {
        let now = self.now();
        let Some(due) = due(pod, taints, now) else { return };
        if due > now {
            self.look_again_at(due);
            return;
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
    }
}

/// When a pod must go for the taints of its node; `None` if never.
fn due(pod: &Value, taints: &[&Value], now: Timestamp) -> Option<Timestamp> {
    let tolerations = list_at(pod, &["spec", "tolerations"]);
    let mut due: Option<Timestamp> = None;
    for taint in taints {
        let mut matching = tolerations.iter().filter(|toleration| tolerates(toleration, taint)).peekable();
        if matching.peek().is_none() {
            return Some(now);
        }
        // The shortest of the times that are given.
        let Some(seconds) = matching.filter_map(|t| t.get("tolerationSeconds")?.as_i64()).min() else { continue };
        let since = text_at(taint, &["timeAdded"]).parse().unwrap_or(now);
        let until = since.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
        due = Some(due.map_or(until, |due| due.min(until)));
    }
    due
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
