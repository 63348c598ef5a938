//! Pods that draw from pod-level Reservations: they may, and the room suffices.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

use crate::load;
use crate::pool::{Reservation, ReservationOwner};
use crate::quantity;
use crate::selectors::{pod_selects_node, selects};
use crate::sites::Site;
use crate::taints;
use crate::violation::Violation;
use crate::world::{Pod, World};

const RULE: &str = "reservation";
const AFFINITY: &str = "scheduling.koordinator.sh/reservation-affinity";

fn is_object(wanted: &BTreeMap<String, Value>, pod: &Pod) -> bool {
    let text = |key: &str| wanted.get(key).and_then(Value::as_str).filter(|v| !v.is_empty());
    let short = pod.name.split('/').nth(1).unwrap_or_default();
    text("name").is_none_or(|n| n == short)
        && text("namespace").is_none_or(|n| n == pod.namespace)
        && text("uid").is_none_or(|u| pod.meta.uid.as_deref() == Some(u))
}

fn is_controller(wanted: &BTreeMap<String, Value>, reference: &OwnerReference) -> bool {
    let text = |key: &str| wanted.get(key).and_then(Value::as_str).filter(|v| !v.is_empty());
    text("name").is_none_or(|n| n == reference.name)
        && text("kind").is_none_or(|k| k == reference.kind)
        && text("apiVersion").is_none_or(|v| v == reference.api_version)
        && text("uid").is_none_or(|u| u == reference.uid)
}

fn is_owner(owner: &ReservationOwner, pod: &Pod) -> bool {
    let namespace = |wanted: &BTreeMap<String, Value>| {
        wanted.get("namespace").and_then(Value::as_str).is_none_or(|n| n == pod.namespace)
    };
    owner.object.as_ref().is_none_or(|o| is_object(o, pod))
        && owner.controller.as_ref().is_none_or(|c| {
            // The references of pods that a workload would make are not in the input.
            pod.workload.is_some()
                || (namespace(c) && pod.meta.owner_references.iter().flatten().any(|r| is_controller(c, r)))
        })
        && owner.label_selector.as_ref().is_none_or(|s| selects(Some(s), &pod.labels))
}

fn each_allocation(world: &World, site: &Site<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let on_site = |pod: &usize| site.planned.contains(pod);
    for allocation in site.allocations {
        let mut say = |detail: String| found.push(Violation::new(RULE, &allocation.pod, detail));
        let name = &allocation.reservation;
        let Some(pod) = world.pod_index.get(&allocation.pod).filter(|p| on_site(p)).and_then(|p| world.pods.get(*p))
        else {
            say(format!("draws from {name} on {}, but is not placed there", site.name));
            continue;
        };
        let Some(reservation) = world.reservations.get(name) else {
            say(format!("draws from {name}, which is not in the input"));
            continue;
        };
        let is_here = site.reservations.contains(name)
            || (site.claim().is_none() && reservation.is_holding() && reservation.node.as_deref() == Some(site.name));
        if !is_here {
            say(format!("draws from {name}, which is not on {}", site.name));
        }
        if !reservation.owners.iter().any(|o| is_owner(o, pod)) {
            say(format!("draws from {name} and is none of its owners"));
        }
        if reservation.unschedulable {
            say(format!("draws from {name}, which takes no new owners"));
        }
        let has_affinity = pod.meta.annotations.as_ref().is_some_and(|a| a.contains_key(AFFINITY));
        let taint = taints::untolerated(&reservation.taints, pod.spec.tolerations.as_deref().unwrap_or_default());
        if let (false, Some(taint)) = (has_affinity, taint) {
            say(format!("draws from {name} and does not tolerate its taint {taint}"));
        }
    }
    found
}

/// Of several Reservations on an existing node that could each serve a pod in full, it draws from the one of the lowest
/// order; one that somebody draws from may have less left, and is passed over.
fn order(world: &World, site: &Site<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let pods = site.allocations.iter().filter_map(|a| Some((a, world.pods.get(*world.pod_index.get(&a.pod)?)?)));
    for (allocation, pod) in pods {
        let Some(drawn) = world.reservations.get(&allocation.reservation) else { continue };
        let is_before = |other: &Reservation| {
            other.order.is_some_and(|order| order < drawn.order.unwrap_or(i64::MAX))
                && other.phase == "Available"
                && other.node.as_deref() == Some(site.name)
        };
        let is_untouched =
            |other: &Reservation| !other.has_owners && site.allocations.iter().all(|a| a.reservation != other.name);
        let serves = |other: &Reservation| {
            let room = other.unallocated();
            let mut asked = pod.requests.iter().filter(|(resource, _)| *resource != "pods");
            !other.unschedulable
                && other.taints.is_empty()
                && other.owners.iter().any(|owner| is_owner(owner, pod))
                && asked.all(|(resource, amount)| room.get(resource).is_some_and(|has| has >= amount))
        };
        let is_free = pod.meta.annotations.as_ref().is_none_or(|all| !all.contains_key(AFFINITY));
        let mut others = world.reservations.values().filter(|other| is_before(other) && is_untouched(other));
        if let Some(other) = others.find(|other| is_free && serves(other)) {
            let detail = format!("draws from {}, though {} comes first by its order", drawn.name, other.name);
            found.push(Violation::new(RULE, &pod.name, detail));
        }
    }
    found
}

fn room(world: &World, site: &Site<'_>, reservation: &Reservation) -> Vec<Violation> {
    let drawing = load::drawing(world, site, &reservation.name);
    let mut found = Vec::new();
    if reservation.allocate_once && drawing.len() + usize::from(reservation.has_owners) > 1 {
        let detail = format!("is allocated once, and {} pods draw from it", drawing.len());
        found.push(Violation::new(RULE, &reservation.name, detail));
    }
    if !reservation.restricted {
        return found;
    }
    let room = if site.reservations.contains(&reservation.name) {
        load::reserved(reservation)
    } else {
        reservation.unallocated()
    };
    let drawn = load::sum(drawing.into_iter());
    for (resource, has) in room.iter().filter(|(resource, _)| *resource != "pods") {
        let wanted = drawn.get(resource).copied().unwrap_or_default();
        if wanted > *has {
            let detail =
                format!("is Restricted: {resource} {} drawn of {}", quantity::show(wanted), quantity::show(*has));
            found.push(Violation::new(RULE, &reservation.name, detail));
        }
    }
    found
}

/// Reservations that are placed obey their template's own node selection and tolerations.
fn placed(world: &World, site: &Site<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for reservation in site.reservations.iter().filter_map(|name| world.reservations.get(name)) {
        let Some(spec) = &reservation.template.spec else {
            continue;
        };
        if reservation.pinned_to.as_deref().is_some_and(|node| node != site.name || site.claim().is_some()) {
            let detail = format!("on {}, but its template names another node", site.name);
            found.push(Violation::new(RULE, &reservation.name, detail));
        }
        if !pod_selects_node(spec, site.view()) {
            let detail = format!("on {}: its template's node selection does not match", site.name);
            found.push(Violation::new(RULE, &reservation.name, detail));
        }
        if let Some(taint) = taints::untolerated(&site.taints, spec.tolerations.as_deref().unwrap_or_default()) {
            let detail = format!("on {}: its template does not tolerate {taint}", site.name);
            found.push(Violation::new(RULE, &reservation.name, detail));
        }
    }
    found
}

pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for site in sites {
        found.extend(each_allocation(world, site));
        found.extend(order(world, site));
        found.extend(placed(world, site));
        for reservation in world.reservations.values() {
            if site.allocations.iter().any(|a| a.reservation == reservation.name) {
                found.extend(room(world, site, reservation));
            }
        }
        for pod in site.planned.iter().filter_map(|i| world.pods.get(*i)) {
            let asks = pod.meta.annotations.as_ref().is_some_and(|a| a.contains_key(AFFINITY));
            if asks && !site.allocations.iter().any(|a| a.pod == pod.name) {
                found.push(Violation::new(RULE, &pod.name, "asks for a Reservation and is placed without one"));
            }
        }
    }
    found
}
