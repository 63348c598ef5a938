//! The pod garbage collector: pods of nodes that are gone, terminating pods without a node, ended pods beyond a threshold.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use crate::core::Core;
use crate::key::NamespacedName;
use crate::objects::Pod;
use crate::resource::{NODES, PODS};
use crate::write::{Effect, Failure, Write};

/// Ended pods, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Terminated(BTreeSet<(Option<Timestamp>, NamespacedName)>);

impl Terminated {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes in a change of a pod.
    pub(crate) fn change(&mut self, key: &NamespacedName, old: Option<&Pod>, new: Option<&Pod>) {
        let entry = |pod: &Pod| (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), key.clone());
        let counts = |pod: &&Pod| pod.has_ended() && !pod.is_terminating();
        if let Some(old) = old.filter(counts) {
            self.0.remove(&entry(old));
        }
        if let Some(new) = new.filter(counts) {
            self.0.insert(entry(new));
        }
    }
}

/// Deletes the pods of a node that has been missing for the quarantine. The node is looked for again: it may have been
/// created while pods were bound to it, and our own view of it may lag.
pub(crate) fn sync_orphaned(core: &mut Core, node: &Arc<str>) -> Effect {
    if core.caches.nodes.get(&NamespacedName::new("", node)).is_some() {
        return Effect::Done;
    }
    let caches = &core.caches;
    let pods: Vec<Arc<Pod>> =
        caches.indexes.pods_on.get(&**node).filter_map(|key| caches.pods.get(key)).cloned().collect();
    if pods.is_empty() {
        return Effect::Done;
    }
    let (client, node, now) = (core.client.clone(), NamespacedName::new("", node), core.now_time());
    Effect::Task(Box::pin(async move {
        let failure = |source: kube::Error| Failure::Request {
            verb: http::Method::GET,
            resource: "nodes".to_owned(),
            key: node.clone(),
            source: Box::new(source),
            tells: None,
        };
        let request = http::Request::get(format!("{}/{}", NODES.path(""), node.name)).body(Vec::new());
        let request = request.map_err(|error| failure(kube::Error::HttpError(error)))?;
        match client.request_text(request).await {
            Ok(_) => return Ok(Vec::new()),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failure(error)),
        }
        let mut written = Vec::new();
        for pod in pods {
            for write in end(&pod, "PodGC: node no longer exists", &now) {
                written.push(write.send(&client).await?);
            }
        }
        Ok(written)
    }))
}

/// Ends a pod for which no kubelet can answer any more.
fn end(pod: &Pod, message: &str, now: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> Vec<Write> {
    let key = pod.view().key();
    let mut writes = Vec::new();
    if !pod.has_ended() {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": message, "lastTransitionTime": now});
        let status = json!({"phase": "Failed", "conditions": [condition]});
        writes.push(Write::patch_status(
            &PODS,
            &key,
            &json!({"metadata": {"uid": pod.metadata.uid}, "status": status}),
        ));
    }
    writes.push(Write::delete_now(&PODS, &key, &pod.metadata.uid));
    writes
}

/// Deletes a terminating pod that no node has: nobody else would.
pub(crate) fn sync_unscheduled(core: &mut Core, key: &NamespacedName) -> Effect {
    match core.caches.pods.get(key).filter(|pod| pod.is_terminating() && pod.node().is_none()) {
        Some(pod) if pod.metadata.finalizers.is_empty() => {
            Effect::InOrder(vec![Write::delete_now(&PODS, key, &pod.metadata.uid)])
        }
        _ => Effect::Done,
    }
}

/// Deletes the oldest ended pods beyond the threshold.
pub(crate) fn sync_terminated(core: &mut Core) -> Effect {
    let surplus = core.terminated.len().saturating_sub(core.options.timings.terminated_pod_threshold);
    let oldest = core.terminated.0.iter().take(surplus.min(500));
    let pods = oldest.filter_map(|(_, key)| core.caches.pods.get(key));
    let writes: Vec<Write> = pods.map(|pod| Write::delete_now(&PODS, &pod.view().key(), &pod.metadata.uid)).collect();
    if writes.is_empty() { Effect::Done } else { Effect::Burst(writes, Vec::new()) }
}
