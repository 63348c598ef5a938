//! Disks of in-tree kinds that pods mount without a claim: no two pods of one node mount the same, unless both only read.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;

use crate::sites::Site;
use crate::violation::Violation;
use crate::world::{Pod, World};

/// Whether two pods may not mount these beside each other; an EBS volume has one pod, whatever that does with it.
fn clash(a: &Volume, b: &Volume) -> bool {
    let writes = |read_only: [Option<bool>; 2]| read_only.into_iter().any(|read_only| read_only != Some(true));
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk) {
        return a.pd_name == b.pd_name && writes([a.read_only, b.read_only]);
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store) {
        return a.volume_id == b.volume_id;
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi) {
        return a.iqn == b.iqn && writes([a.read_only, b.read_only]);
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd) {
        let pool = |pool: &Option<String>| pool.clone().unwrap_or_else(|| "rbd".to_owned());
        let monitors: BTreeSet<&String> = a.monitors.iter().collect();
        return b.monitors.iter().any(|monitor| monitors.contains(monitor))
            && (pool(&a.pool), &a.image) == (pool(&b.pool), &b.image)
            && writes([a.read_only, b.read_only]);
    }
    false
}

/// Pairs of these pods that mount the same disk, the first planned.
pub(crate) fn conflicts(planned: &[&Pod], others: &[&Pod]) -> Vec<(String, String)> {
    let volumes = |pod: &Pod| pod.spec.volumes.clone().unwrap_or_default();
    let mut found = Vec::new();
    for (index, pod) in planned.iter().enumerate() {
        let mine = volumes(pod);
        for other in planned.iter().skip(index + 1).chain(others).filter(|_| !mine.is_empty()) {
            let theirs = volumes(other);
            if mine.iter().any(|a| theirs.iter().any(|b| clash(a, b))) {
                found.push((pod.name.clone(), other.name.clone()));
            }
        }
    }
    found
}

/// Disks among the pods of every place; DaemonSets of new nodes are looked at with the claims.
pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for site in sites {
        let pods = |indices: &[usize]| -> Vec<&Pod> { indices.iter().filter_map(|i| world.pods.get(*i)).collect() };
        for (pod, other) in conflicts(&pods(&site.planned), &pods(&site.bound)) {
            found.push(Violation::new("disks", pod, format!("its disk is mounted on {} by {other}", site.name)));
        }
    }
    found
}
