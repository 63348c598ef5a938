//! Every pod is placed once or refused, and the summary counts what the plan lists.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;
use crate::violation::Violation;
use crate::world::World;

const RULE: &str = "coverage";

fn placements(plan: &Plan) -> impl Iterator<Item = (&str, &String)> {
    let on_claims = plan.node_claims.iter().flat_map(|c| c.pods.iter().map(move |p| (c.name.as_str(), p)));
    let on_nodes = plan.nodes.iter().flat_map(|n| n.pods.iter().map(move |p| (n.name.as_str(), p)));
    on_claims.chain(on_nodes)
}

fn each_pod_once(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (place, name) in placements(plan) {
        if let Some(before) = seen.insert(name, place) {
            found.push(Violation::new(RULE, name, format!("placed on {before} and on {place}")));
        }
        let Some(pod) = world.pod_index.get(name).and_then(|i| world.pods.get(*i)) else {
            found.push(Violation::new(RULE, name, format!("placed on {place}, but the input has no such pod")));
            continue;
        };
        let comes_again = pod.is_replaced() && gives_way(plan).any(|gone| gone == name);
        if let Some(node) = pod.node.as_ref().filter(|_| !comes_again) {
            found.push(Violation::new(RULE, name, format!("placed on {place}, but it runs on {node}")));
        }
        if pod.is_gated() {
            found.push(Violation::new("scheduling-gates", name, format!("placed on {place} with gates")));
        }
    }
    found
}

fn workloads(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut placed = vec![0_usize; world.workloads.len()];
    for (_, name) in placements(plan) {
        let pod = world.pod_index.get(name).and_then(|i| world.pods.get(*i));
        if let Some(count) = pod.and_then(|p| p.workload).and_then(|w| placed.get_mut(w)) {
            *count += 1;
        }
    }
    let too_many = world.workloads.iter().zip(placed).filter(|(workload, placed)| *placed > workload.pods);
    too_many
        .map(|(workload, placed)| {
            Violation::new(RULE, &workload.name, format!("{placed} pods placed, {} wanted", workload.pods))
        })
        .collect()
}

/// The pods that give way to others of higher priority.
fn gives_way(plan: &Plan) -> impl Iterator<Item = &String> {
    plan.nodes.iter().flat_map(|node| &node.preempted)
}

/// Pods that must be planned, and those that may be counted or not (gated, terminating, a DaemonSet's).
fn expected(world: &World, plan: &Plan) -> (usize, usize) {
    let pending = || world.pods.iter().filter(|p| p.node.is_none() && p.workload.is_none());
    let maybe = pending().filter(|p| p.is_gated() || p.is_optional).count();
    let single = pending().count() - maybe;
    let (mut sure, mut gated) = (single, maybe);
    for (id, workload) in world.workloads.iter().enumerate() {
        let is_gated = world.pods.iter().find(|p| p.workload == Some(id)).is_some_and(crate::world::Pod::is_gated);
        *(if is_gated { &mut gated } else { &mut sure }) += workload.pods;
    }
    let gone = gives_way(plan).filter_map(|name| world.pods.get(*world.pod_index.get(name)?));
    sure += gone.filter(|pod| pod.is_replaced()).count();
    // A refusal names the first of several: of a DaemonSet's pods the others are not in the input.
    let optional =
        |name: &str| world.pod_index.get(name).and_then(|i| world.pods.get(*i)).is_some_and(|p| p.is_optional);
    let refused = plan.unschedulable.iter().filter(|refusal| optional(&refusal.object));
    gated += refused.map(|refusal| refusal.count.saturating_sub(1)).sum::<usize>();
    (sure, sure + gated)
}

fn counts(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    let summary = &plan.summary;
    let mut say = |detail: String| found.push(Violation::new(RULE, "summary", detail));
    let (least, most) = expected(world, plan);
    if summary.pods < least || summary.pods > most {
        say(format!("pods is {}, the input has {least} to {most}", summary.pods));
    }
    let placed = placements(plan).count();
    if summary.placed != placed {
        say(format!("placed is {}, {placed} are listed", summary.placed));
    }
    let of_kind = |kind: &str| plan.unschedulable.iter().filter(|r| r.kind == kind).map(|r| r.count).sum::<usize>();
    let (pods, reservations) = (of_kind("Pod"), of_kind("Reservation"));
    if summary.unschedulable != pods && summary.unschedulable != pods + reservations {
        say(format!(
            "unschedulable is {}, {pods} pods and {reservations} Reservations are listed",
            summary.unschedulable
        ));
    }
    if placed + pods != summary.pods {
        say(format!("{placed} placed and {pods} refused are not {} pods", summary.pods));
    }
    if summary.node_claims != plan.node_claims.len() {
        say(format!("nodeClaims is {}, {} are listed", summary.node_claims, plan.node_claims.len()));
    }
    found
}

fn refusals(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    let placed: BTreeSet<&String> = placements(plan).map(|(_, name)| name).collect();
    let mut seen = BTreeSet::new();
    for refusal in &plan.unschedulable {
        let mut say = |detail: &str| found.push(Violation::new(RULE, &refusal.object, detail));
        if !seen.insert((&refusal.kind, &refusal.object)) {
            say("refused twice");
        }
        if refusal.count == 0 {
            say("refused with count 0");
        }
        if refusal.reasons.is_empty() || refusal.reasons.iter().any(|r| r.reason.is_empty()) {
            say("refused without a reason");
        }
        match refusal.kind.as_str() {
            "Pod" if placed.contains(&refusal.object) => say("placed and refused"),
            "Pod" if !world.pod_index.contains_key(&refusal.object) => say("refused, but the input has no such pod"),
            "Reservation" if !world.reservations.contains_key(&refusal.object) => {
                say("refused, but the input has no such Reservation");
            }
            "Pod" | "Reservation" => {}
            kind => say(&format!("refused as an unknown kind {kind}")),
        }
    }
    found
}

fn reservations(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut places: BTreeMap<&String, usize> = BTreeMap::new();
    let on_claims = plan.node_claims.iter().flat_map(|c| &c.reservations);
    for name in on_claims.chain(plan.nodes.iter().flat_map(|n| &n.reservations)) {
        *places.entry(name).or_default() += 1;
        if !world.reservations.get(name).is_some_and(|r| r.is_pending) {
            found.push(Violation::new(RULE, name, "placed, but it is no pending Reservation of the input"));
        }
    }
    for (name, count) in places.iter().filter(|(_, count)| **count > 1) {
        found.push(Violation::new(RULE, *name, format!("placed {count} times")));
    }
    let pending = world.reservations.values().filter(|r| r.is_pending).count();
    let refused: usize = plan.unschedulable.iter().filter(|r| r.kind == "Reservation").map(|r| r.count).sum();
    if places.len() + refused < pending {
        let detail = format!("{pending} Reservations are pending, {} placed and {refused} refused", places.len());
        found.push(Violation::new(RULE, "reservations", detail));
    }
    found
}

pub(crate) fn check(world: &World, plan: &Plan) -> Vec<Violation> {
    let mut found = each_pod_once(world, plan);
    found.extend(workloads(world, plan));
    found.extend(counts(world, plan));
    found.extend(refusals(world, plan));
    found.extend(reservations(world, plan));
    found
}
