//! What a change of a pod means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::controllers::job_pods::is_tracked;
use crate::controllers::quotas;
use crate::core::Core;
use crate::key::NamespacedName;
use crate::objects::{Labels, Pod};
use crate::options::Controller;
use crate::store::Delta;
use crate::work::Work;

pub(crate) fn pod(core: &mut Core, delta: &Delta<Pod>) {
    let (old, new) = (delta.old.as_deref(), delta.new.as_deref());
    // An annotation, a managed field: nothing that a controller reads.
    if let (Some(old), Some(new)) = (old, new)
        && is_same(old, new)
    {
        return;
    }
    let key = &delta.key;
    index(core, key, old, new);
    if core.has(Controller::ResourceQuota) {
        quotas::pod_changed(core, key, old, new);
    }
    let owner = |pod: Option<&Pod>| pod.and_then(|pod| pod.view().controller().cloned());
    let (old_owner, new_owner) = (owner(old), owner(new));
    if let Some(owner) = &new_owner {
        add_owner(core, key, owner, new);
    }
    if let Some(owner) = &old_owner
        && (new_owner.is_none() || old_owner != new_owner || target(old) != target(new))
    {
        add_owner(core, key, owner, old);
    }
    select(core, key, (old, old_owner.is_some()), (new, new_owner.is_some()));
    if new.is_some_and(is_tracked) && new_owner.as_ref().is_none_or(|owner| is_without_job(core, key, owner)) {
        core.add(Work::OrphanJobPod(key.clone()));
    }
    if new.is_some_and(|pod| !pod.is_terminating() && pod.ephemeral_claims().next().is_some()) {
        core.add(Work::EphemeralVolumes(key.clone()));
    }
    if let Some(pod) = new {
        on_node(core, key, pod);
    } else {
        core.tolerating.forget(key);
    }
    core.terminated.change(key, old, new);
    let threshold = core.options.timings.terminated_pod_threshold;
    if threshold > 0 && core.terminated.len() > threshold {
        core.add(Work::TerminatedPods);
    }
    if old.is_some_and(|old| !old.has_ended()) && new.is_none_or(Pod::has_ended) {
        // Its claims may be unused now.
        for claim in old.into_iter().flat_map(Pod::claims) {
            core.add(Work::Claim(key.beside(&claim)));
        }
    }
}

fn is_same(old: &Pod, new: &Pod) -> bool {
    let meta = |pod: &Pod| (pod.metadata.uid.clone(), pod.is_terminating());
    old.spec == new.spec
        && old.status == new.status
        && meta(old) == meta(new)
        && old.metadata.labels == new.metadata.labels
        && old.metadata.owner_references == new.metadata.owner_references
        && old.metadata.finalizers == new.metadata.finalizers
}

fn is_without_job(core: &Core, key: &NamespacedName, owner: &OwnerReference) -> bool {
    owner.kind != "Job" || core.caches.jobs.get(&key.beside(&owner.name)).is_none()
}

fn target(pod: Option<&Pod>) -> Option<&str> {
    pod.and_then(Pod::target_node)
}

fn index(core: &mut Core, key: &NamespacedName, old: Option<&Pod>, new: Option<&Pod>) {
    let indexes = &mut core.caches.indexes;
    if let Some(old) = old {
        if let Some(owner) = old.view().controller() {
            indexes.pods_of.remove(owner.uid.as_str(), key);
            if let Some(node) = old.target_node().filter(|_| owner.kind == "DaemonSet") {
                indexes.daemons_on.remove(&(owner.uid.as_str().into(), node.into()), key);
            }
        } else {
            indexes.orphans_in.remove(&key.namespace, key);
        }
        if let Some(node) = old.node() {
            indexes.pods_on.remove(node, key);
        }
        for claim in old.claims() {
            indexes.pods_using.remove(&key.beside(&claim), key);
        }
    }
    if let Some(new) = new {
        if let Some(owner) = new.view().controller() {
            indexes.pods_of.insert(owner.uid.as_str().into(), key);
            if let Some(node) = new.target_node().filter(|_| owner.kind == "DaemonSet") {
                indexes.daemons_on.insert((owner.uid.as_str().into(), node.into()), key);
            }
        } else {
            indexes.orphans_in.insert(key.namespace.clone(), key);
        }
        if let Some(node) = new.node() {
            indexes.pods_on.insert(node.into(), key);
        }
        for claim in new.claims() {
            indexes.pods_using.insert(key.beside(&claim), key);
        }
    }
}

/// Adds the work of the workload that controls a pod.
fn add_owner(core: &mut Core, key: &NamespacedName, owner: &OwnerReference, pod: Option<&Pod>) {
    let own = key.beside(&owner.name);
    match owner.kind.as_str() {
        "ReplicaSet" => {
            // A Deployment that recreates waits for the end of its old pods.
            let set = core.caches.replica_sets.get(&own);
            let above = set.and_then(|set| {
                set.metadata.owner_references.iter().flatten().find(|above| above.controller == Some(true))
            });
            let above = above.filter(|above| above.kind == "Deployment").map(|above| key.beside(&above.name));
            if let Some(above) = above.filter(|_| pod.is_none_or(|pod| !pod.is_active())) {
                core.add(Work::Deployment(above));
            }
            core.add(Work::ReplicaSet(own));
        }
        "ReplicationController" => core.add(Work::ReplicationController(own)),
        "StatefulSet" => core.add(Work::StatefulSet(own)),
        "DaemonSet" => {
            if let Some(node) = target(pod) {
                core.add(Work::DaemonNode(own, node.into()));
            }
        }
        "Job" => core.add(Work::Job(own)),
        _ => {}
    }
}

/// Adds the work of those who select a pod or did.
fn select(
    core: &mut Core,
    key: &NamespacedName,
    (old, old_owned): (Option<&Pod>, bool),
    (new, new_owned): (Option<&Pod>, bool),
) {
    fn labels(pod: Option<&Pod>) -> Option<&Labels> {
        pod.map(|pod| &*pod.metadata.labels)
    }
    for work in core.caches.indexes.selected.change(key, labels(old), labels(new)) {
        if let Work::EndpointSlices(service) = &work {
            add_gathered(core, Work::Endpoints(service.clone()));
            add_gathered(core, work);
        } else {
            core.add(work);
        }
    }
    let free = |pod, owned: bool| labels(pod).filter(|_| !owned);
    for work in core.caches.indexes.orphans.change(key, free(old, old_owned), free(new, new_owned)) {
        core.add(work);
    }
}

/// Adds what writes all pods of a Service anew: at once, or when its changes have been gathered for a while.
fn add_gathered(core: &mut Core, work: Work) {
    let period = core.options.timings.endpoint_updates_batch_period;
    if period.is_zero() {
        core.add(work);
    } else {
        core.add_after(work, period);
    }
}

/// Adds the work that a pod's node makes.
fn on_node(core: &mut Core, key: &NamespacedName, pod: &Pod) {
    let Some(node) = pod.node() else {
        if pod.is_terminating() {
            core.add(Work::UnscheduledPod(key.clone()));
        }
        return;
    };
    match core.caches.nodes.get(&NamespacedName::new("", node)) {
        Some(known) => {
            if crate::controllers::taints::has_no_execute(known) || core.tolerating.has(key) {
                core.add(Work::TaintEviction(key.clone()));
            }
        }
        // The node may be so new that its watch has not told of it yet.
        None => core.add_after(Work::OrphanedPods(node.into()), core.options.timings.pod_gc_quarantine),
    }
}
