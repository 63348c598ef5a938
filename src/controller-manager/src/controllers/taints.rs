//! Evictions by taints of effect NoExecute.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};
use rustc_hash::FxHashMap;
use serde_json::json;

use super::matching::{taints, tolerates};
use crate::core::Core;
use crate::events::{Involved, Telling};
use crate::key::NamespacedName;
use crate::objects::Pod;
use crate::resource::PODS;
use crate::work::Work;
use crate::write::{Effect, Write};

/// Since when pods tolerate the taints of their nodes for a time, with their UIDs.
#[derive(Debug, Default)]
pub(crate) struct Tolerating(FxHashMap<NamespacedName, (Box<str>, Timestamp)>);

impl Tolerating {
    pub(crate) fn has(&self, pod: &NamespacedName) -> bool {
        self.0.contains_key(pod)
    }

    pub(crate) fn forget(&mut self, pod: &NamespacedName) {
        self.0.remove(pod);
    }
}

/// For how long a pod stays on a node with taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Forever,
    For(SignedDuration),
}

/// Whether a node has a taint that evicts.
pub(crate) fn has_no_execute(node: &Node) -> bool {
    no_execute(node).next().is_some()
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    taints(node).iter().filter(|taint| taint.effect == "NoExecute")
}

/// Evicts a pod when it is due, and else looks again then.
pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let pod: Option<Arc<Pod>> = core.caches.pods.get(key).filter(|pod| pod.is_active()).cloned();
    let node = pod.as_ref().and_then(|pod| core.caches.nodes.get(&NamespacedName::new("", pod.node()?))).cloned();
    let patience = match (&pod, &node) {
        (Some(pod), Some(node)) if has_no_execute(node) => patience(pod, node),
        _ => Patience::Forever,
    };
    let (Some(pod), Patience::For(time)) = (pod, patience) else {
        core.tolerating.forget(key);
        return Effect::Done;
    };
    // From when it is first seen to tolerate taints for a time, whatever taints come and go meanwhile.
    let now = core.now();
    let (uid, since) = core.tolerating.0.entry(key.clone()).or_insert_with(|| (pod.metadata.uid.clone(), now));
    if *uid != pod.metadata.uid {
        (*uid, *since) = (pod.metadata.uid.clone(), now);
    }
    let due = since.saturating_add(time).unwrap_or(Timestamp::MAX);
    if due > now {
        core.add_when(Work::TaintEviction(key.clone()), due);
        return Effect::Done;
    }
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": core.now_time()});
    Effect::InOrder(vec![
        Write::patch_status(
            &PODS,
            key,
            &json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}),
        )
        .telling(Telling::done(
            Involved::new(&PODS, pod.view()),
            "TaintManagerEviction",
            format!("Marking for deletion Pod {key}"),
        )),
        Write::delete(&PODS, key, &pod.metadata.uid),
    ])
}

/// How long a pod bears the taints of its node: the shortest time of the first toleration of each.
fn patience(pod: &Pod, node: &Node) -> Patience {
    let mut shortest = Patience::Forever;
    for taint in no_execute(node) {
        let Some(toleration) = pod.spec.template.tolerations.iter().find(|toleration| tolerates(toleration, taint))
        else {
            return Patience::For(SignedDuration::ZERO);
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let time = SignedDuration::from_secs(seconds.max(0));
        shortest = match shortest {
            Patience::For(known) => Patience::For(known.min(time)),
            Patience::Forever => Patience::For(time),
        };
    }
    shortest
}
