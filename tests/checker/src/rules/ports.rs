//! Host ports: no two pods of one node bind the same; and exclusive volumes: no two pods use the same.

use std::collections::BTreeMap;

use crate::sites::Site;
use crate::violation::Violation;
use crate::volumes;
use crate::world::{Pod, World};

/// Pairs of these pods that want the same port, the first planned.
pub(crate) fn conflicts(planned: &[&Pod], others: &[&Pod]) -> Vec<(String, String, i32)> {
    let with_ports = |pods: &[&Pod]| -> Vec<Pod> {
        pods.iter().filter(|p| !p.host_ports.is_empty()).map(|p| (*p).clone()).collect()
    };
    let planned = with_ports(planned);
    let others = with_ports(others);
    let mut found = Vec::new();
    for (index, pod) in planned.iter().enumerate() {
        for other in planned.iter().skip(index + 1).chain(&others) {
            let clash = pod.host_ports.iter().find(|port| other.host_ports.iter().any(|o| port.conflicts(o)));
            if let Some(port) = clash {
                found.push((pod.name.clone(), other.name.clone(), port.port));
            }
        }
    }
    found
}

/// Ports among the pods of every place; DaemonSets of new nodes are looked at with the claims.
pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for site in sites {
        let pods = |indices: &[usize]| -> Vec<&Pod> { indices.iter().filter_map(|i| world.pods.get(*i)).collect() };
        for (pod, other, port) in conflicts(&pods(&site.planned), &pods(&site.bound)) {
            let detail = format!("host port {port} on {} is also bound by {other}", site.name);
            found.push(Violation::new("host-ports", pod, detail));
        }
    }
    found
}

/// ReadWriteOncePod: one pod alone.
pub(crate) fn check_exclusive_volumes(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut users: BTreeMap<String, Vec<(&str, bool)>> = BTreeMap::new();
    for site in sites {
        let planned = site.planned.iter().map(|i| (i, true));
        for (index, is_planned) in planned.chain(site.bound.iter().map(|i| (i, false))) {
            let Some(pod) = world.pods.get(*index) else {
                continue;
            };
            for claim in volumes::exclusive_claims(world, pod) {
                users.entry(claim).or_default().push((&pod.name, is_planned));
            }
        }
    }
    let shared = users.into_iter().filter(|(_, users)| users.len() > 1 && users.iter().any(|(_, planned)| *planned));
    shared
        .map(|(claim, users)| {
            let names: Vec<&str> = users.iter().map(|(name, _)| *name).collect();
            Violation::new("read-write-once-pod", claim, format!("used by {}", names.join(", ")))
        })
        .collect()
}
