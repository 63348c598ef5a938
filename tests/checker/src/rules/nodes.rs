//! Pods on existing nodes: room, labels, taints, volumes, attach limits, preemption.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;

use super::why_not;
use crate::load;
use crate::quantity;
use crate::sites::{Kind, Site};
use crate::violation::Violation;
use crate::volumes::{self, Attached};
use crate::world::World;

fn room(world: &World, site: &Site<'_>, node: &Node) -> Vec<Violation> {
    let allocatable = World::allocatable(node);
    let total = load::of_site(world, site);
    let mut asked = load::sum(site.planned.iter().filter_map(|i| world.pods.get(*i)));
    for name in site.reservations {
        if let Some(reservation) = world.reservations.get(name) {
            quantity::add(&mut asked, &load::reserved(reservation));
        }
    }
    asked
        .iter()
        .filter(|(_, amount)| **amount > 0)
        .filter_map(|(resource, _)| {
            let used = total.get(resource).copied().unwrap_or_default();
            let has = allocatable.get(resource).copied().unwrap_or_default();
            (used > has).then(|| {
                let detail = format!("{resource}: {} used of {}", quantity::show(used), quantity::show(has));
                Violation::new("resources", site.name, detail)
            })
        })
        .collect()
}

fn attach_limits(world: &World, site: &Site<'_>) -> Vec<Violation> {
    let Some(spec) = world.csi_nodes.get(site.name).map(|n| &n.spec) else {
        return Vec::new();
    };
    let volumes_of = |pods: &[usize]| -> BTreeSet<Attached> {
        let pods = pods.iter().filter_map(|i| world.pods.get(*i));
        pods.flat_map(|p| volumes::attached(world, p)).collect()
    };
    let planned = volumes_of(&site.planned);
    let mut by_driver: BTreeMap<String, BTreeSet<Attached>> = BTreeMap::new();
    for attached in planned.iter().cloned().chain(volumes_of(&site.bound)) {
        by_driver.entry(attached.driver.clone()).or_default().insert(attached);
    }
    let mut found = Vec::new();
    for driver in &spec.drivers {
        let limit = driver.allocatable.as_ref().and_then(|a| a.count);
        let Some(limit) = limit.and_then(|n| usize::try_from(n).ok()) else {
            continue;
        };
        let count = by_driver.get(&driver.name).map_or(0, BTreeSet::len);
        if count > limit && planned.iter().any(|a| a.driver == driver.name) {
            let detail = format!("{count} volumes of {}, {limit} can be attached", driver.name);
            found.push(Violation::new("attach-limit", site.name, detail));
        }
    }
    found
}

/// A pod gives way only to one of a higher priority on the same node.
fn preemption(world: &World, site: &Site<'_>) -> Vec<Violation> {
    let priority = |name: &str| world.pod_index.get(name).and_then(|i| world.pods.get(*i)).map(|p| world.priority(p));
    let highest = site.planned.iter().filter_map(|i| world.pods.get(*i)).map(|p| world.priority(p)).max();
    let wrong = site.preempted.iter().filter(|name| priority(name) >= highest || priority(name).is_none());
    wrong
        .map(|name| {
            let detail = format!("preempted on {} for none of a higher priority", site.name);
            Violation::new("preemption", name, detail)
        })
        .collect()
}

pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for site in sites {
        let Kind::Node(node) = &site.kind else {
            continue;
        };
        found.extend(preemption(world, site));
        if site.planned.is_empty() && site.reservations.is_empty() {
            continue;
        }
        if node.metadata.deletion_timestamp.is_some() {
            found.push(Violation::new("node", site.name, "is being deleted, and takes no pods"));
        }
        found.extend(room(world, site, node));
        found.extend(attach_limits(world, site));
        for pod in site.planned.iter().filter_map(|i| world.pods.get(*i)) {
            if let Some((rule, reason)) = why_not(world, pod, site.view(), &site.taints, false) {
                found.push(Violation::new(rule, &pod.name, format!("on node {}: {reason}", site.name)));
            }
        }
    }
    found
}
