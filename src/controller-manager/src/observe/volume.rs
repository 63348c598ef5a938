//! What a change of a claim, a volume or a StorageClass means.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::controllers::quotas;
use crate::core::Core;
use crate::key::NamespacedName;
use crate::options::Controller;
use crate::store::Delta;
use crate::work::Work;

pub(crate) fn claim(core: &mut Core, delta: &Delta<PersistentVolumeClaim>) {
    let (old, new) = (delta.old.as_deref(), delta.new.as_deref());
    if let (Some(old), Some(new)) = (old, new)
        && (&old.spec, &old.status) == (&new.spec, &new.status)
        && old.metadata.annotations == new.metadata.annotations
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.finalizers == new.metadata.finalizers
    {
        return;
    }
    if core.has(Controller::ResourceQuota) {
        quotas::claim_changed(core, &delta.key, old, new);
    }
    core.add(Work::Claim(delta.key.clone()));
    for claim in [old, new].into_iter().flatten() {
        if let Some(volume) = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) {
            core.add(Work::Volume(volume.into()));
        }
    }
    if new.is_none() {
        // A member that is to come waits until a claim of old is gone. Of its name, `TEMPLATE-SET-ORDINAL`, each part may have
        // hyphens.
        let member = delta.key.name.rsplit_once('-').map_or("", |(member, _)| member);
        let sets = member.match_indices('-').filter_map(|(at, _)| Some(delta.key.beside(member.get(at + 1..)?)));
        for set in sets.filter(|set| core.caches.stateful_sets.get(set).is_some()).collect::<Vec<_>>() {
            core.add(Work::StatefulSet(set));
        }
    }
    // Members of StatefulSets wait for their claims, and pods with ephemeral volumes get others.
    for pod in core.caches.indexes.pods_using.get(&delta.key).cloned().collect::<Vec<_>>() {
        if new.is_none() {
            core.add(Work::EphemeralVolumes(pod.clone()));
        }
        let owner = core.caches.pods.get(&pod).and_then(|pod| pod.view().controller().cloned());
        if let Some(owner) = owner.filter(|owner| owner.kind == "StatefulSet") {
            core.add(Work::StatefulSet(pod.beside(&owner.name)));
        }
    }
}

fn class_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Adds the claims of a class that wait for a volume.
fn add_pending(core: &mut Core, class: &str) {
    let pending = core.caches.claims.iter().filter(|(_, claim)| !is_bound(claim) && class_of(claim) == class);
    for claim in pending.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
        core.add(Work::Claim(claim));
    }
}

pub(crate) fn volume(core: &mut Core, delta: &Delta<PersistentVolume>) {
    let (old, new) = (delta.old.as_deref(), delta.new.as_deref());
    core.add(Work::Volume(delta.key.name.clone()));
    for volume in [old, new].into_iter().flatten() {
        if let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
            let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
            core.add(Work::Claim(NamespacedName::new(namespace.unwrap_or_default(), name.unwrap_or_default())));
        }
    }
    let is_free = |volume: &PersistentVolume| volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
    if let Some(volume) = new.filter(|volume| is_free(volume) && !old.is_some_and(is_free)) {
        let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
        add_pending(core, &class);
    }
}

pub(crate) fn class(core: &mut Core, delta: &Delta<StorageClass>) {
    if delta.new.is_some() {
        add_pending(core, &delta.key.name.clone());
    }
}
