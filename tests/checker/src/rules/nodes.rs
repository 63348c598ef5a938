//! Pods on existing nodes: room, labels, taints, volumes, attach limits, preemption.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;

use super::why_not;
use crate::load;
use crate::quantity::{self, Resources};
use crate::sites::{Kind, Site};
use crate::violation::Violation;
use crate::volumes::{self, Attached};
use crate::world::{Pod, World};

/// What is used is there. A node on which more is held than is left takes owners that draw, if all pods have room.
fn room(world: &World, site: &Site<'_>, node: &Node) -> Vec<Violation> {
    let allocatable = World::allocatable(node);
    let (before, total) = (load::before(world, site), load::of_site(world, site));
    let pods = load::sum(site.bound.iter().chain(&site.planned).filter_map(|i| world.pods.get(*i)));
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
            let of = |amounts: &Resources| amounts.get(resource).copied().unwrap_or_default();
            let (used, has) = (of(&total), of(&allocatable));
            let is_drawn = used <= of(&before) && of(&pods) <= has;
            (used > has && !is_drawn).then(|| {
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

/// A pod gives way where it runs, only to one of a higher priority on the same node that preempts, and only if it may.
fn preemption(world: &World, site: &Site<'_>) -> Vec<Violation> {
    const PROTECTED: &str = "scheduling.koordinator.sh/disable-preemptible";
    let preempting = site.planned.iter().filter_map(|i| world.pods.get(*i));
    let preempting = preempting.filter(|p| p.spec.preemption_policy.as_deref() != Some("Never"));
    let highest = preempting.map(|p| world.priority(p)).max();
    let mut found = Vec::new();
    for name in site.preempted {
        let mut say = |detail: String| found.push(Violation::new("preemption", name, detail));
        let Some(pod) = world.pod_index.get(name).and_then(|i| world.pods.get(*i)) else {
            say(format!("preempted on {}, but the input has no such pod", site.name));
            continue;
        };
        if Some(world.priority(pod)) >= highest {
            say(format!("preempted on {} for none of a higher priority", site.name));
        }
        if pod.node.as_deref() != Some(site.name) {
            say(format!("preempted on {}, where it does not run", site.name));
        }
        if pod.labels.get(PROTECTED).is_some_and(|value| value == "true") {
            say(format!("preempted on {}, and may not be", site.name));
        }
    }
    found
}

/// Evictions go through the API: no more than budgets allow, and none that several budgets protect.
fn budgets(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let gone = sites.iter().flat_map(|site| site.preempted);
    let gone: Vec<&Pod> = gone.filter_map(|name| world.pods.get(*world.pod_index.get(name)?)).collect();
    let mut found = Vec::new();
    for pod in &gone {
        let n_budgets = world.budgets.iter().filter(|budget| budget.protects(pod)).count();
        if n_budgets > 1 {
            let detail = format!("preempted, and {n_budgets} PodDisruptionBudgets protect it");
            found.push(Violation::new("preemption", &pod.name, detail));
        }
    }
    for budget in &world.budgets {
        let count = gone.iter().filter(|pod| budget.protects(pod)).count();
        if count > usize::try_from(budget.allowed).unwrap_or(0) {
            let detail = format!("{count} of its pods are preempted, {} may go", budget.allowed);
            found.push(Violation::new("preemption", &budget.name, detail));
        }
    }
    found
}

pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = budgets(world, sites);
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
