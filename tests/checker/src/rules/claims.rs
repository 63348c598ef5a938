//! Planned nodes: for every node that a claim leaves open, its pods and the DaemonSets fit.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use super::matching::has_preferences;
use super::money::same;
use super::{disks, ports, spread};
use crate::catalogue::{Catalogue, RESERVATION_IDS, RESERVED, Requirement};
use crate::load;
use crate::quantity::{self, Resources};
use crate::selectors::{Labels, NodeView, pod_selects_node};
use crate::sites::{ClaimSite, Open, Site, admits_candidate, mentioned, own_labels, witnesses};
use crate::taints;
use crate::violation::Violation;
use crate::volumes::{self, Condition};
use crate::world::{Pod, World};

/// What the pods of one claim ask of any node together.
pub(crate) struct Needs<'w> {
    /// One pod of each shape, with what its volumes ask.
    distinct: Vec<(&'w Pod, Vec<Condition>)>,
    /// All pods, for their ports.
    all: Vec<&'w Pod>,
    pub(crate) load: Resources,
    /// No node will do at all.
    pub(crate) impossible: Option<(&'static str, String, String)>,
}

impl<'w> Needs<'w> {
    pub(crate) fn of(world: &'w World, site: &Site<'_>) -> Self {
        let all: Vec<&Pod> = site.planned.iter().filter_map(|i| world.pods.get(*i)).collect();
        let mut seen = BTreeSet::new();
        let mut distinct = Vec::new();
        let mut impossible = None;
        for pod in &all {
            if pod.own_claims.is_empty() && !seen.insert(pod.shape) {
                continue;
            }
            match volumes::conditions(world, pod) {
                Ok(conditions) => distinct.push((*pod, conditions)),
                Err(reason) => {
                    impossible = Some(("volumes", pod.name.clone(), format!("cannot be placed anywhere: {reason}")));
                }
            }
        }
        Self { distinct, all, load: load::of_site(world, site), impossible }
    }

    /// Why the pods do not fit this node: rule, object, reason.
    pub(crate) fn why_not(
        &self,
        world: &World,
        node: NodeView<'_>,
        taints: &[Taint],
        size: &Resources,
    ) -> Option<(&'static str, String, String)> {
        if let Some(reason) = &self.impossible {
            return Some(reason.clone());
        }
        for (pod, conditions) in &self.distinct {
            if let Some(taint) = taints::untolerated(taints, pod.spec.tolerations.as_deref().unwrap_or_default()) {
                return Some(("taints", pod.name.clone(), format!("does not tolerate {taint}")));
            }
            if !pod_selects_node(&pod.spec, node) {
                let reason = "node selector or required node affinity does not match".to_owned();
                return Some(("node-selection", pod.name.clone(), reason));
            }
            if let Some(condition) = conditions.iter().find(|c| !volumes::holds(c, node, true)) {
                return Some(("volumes", pod.name.clone(), format!("its volume is elsewhere: {condition:?}")));
            }
        }
        let daemons: Vec<&Pod> = daemons(world, node, taints).collect();
        let mut total = self.load.clone();
        quantity::add(&mut total, &load::sum(daemons.iter().copied()));
        for (resource, used) in &total {
            let has = size.get(resource).copied().unwrap_or_default();
            if *used > has && *used > 0 {
                let reason = format!("{resource}: {} used of {}", quantity::show(*used), quantity::show(has));
                return Some(("resources", node.name.to_owned(), reason));
            }
        }
        if let Some((pod, other)) = disks::conflicts(&self.all, &daemons).into_iter().next() {
            return Some(("disks", pod, format!("its disk is also mounted by {other}")));
        }
        let clash = ports::conflicts(&self.all, &daemons).into_iter().next();
        clash.map(|(pod, other, port)| ("host-ports", pod, format!("host port {port} is also bound by {other}")))
    }
}

/// The DaemonSets that run a pod on this node.
pub(crate) fn daemons<'w>(
    world: &'w World,
    node: NodeView<'_>,
    node_taints: &[Taint],
) -> impl Iterator<Item = &'w Pod> {
    world.daemons.iter().filter(move |d| {
        taints::untolerated(node_taints, d.spec.tolerations.as_deref().unwrap_or_default()).is_none()
            && pod_selects_node(&d.spec, node)
    })
}

fn planned_offering(world: &World, site: &ClaimSite<'_>) -> Vec<Violation> {
    let claim = site.claim;
    let offering = &claim.offering;
    let say = |detail: String| vec![Violation::new("offering", &claim.name, detail)];
    let Some(instance_type) = world.catalogue.types.get(&offering.instance_type) else {
        return say(format!("the catalogue has no type {}", offering.instance_type));
    };
    let planned = site.open.iter().find(|o| {
        o.instance_type.name == instance_type.name
            && o.offering.zone == offering.zone
            && o.offering.capacity_type == offering.capacity_type
    });
    let Some(planned) = planned else {
        return say(format!(
            "its planned offering {offering:?} is not in the catalogue, not available, or not left open"
        ));
    };
    if !planned.offering.is_available() {
        return say(format!("its planned offering {offering:?} is not available"));
    }
    if offering.capacity_type != RESERVED {
        if offering.reservation_id.is_some() {
            return say("a paid offering with a reservation".to_owned());
        }
        let same_price = |o: &&Open<'_>| {
            o.instance_type.name == instance_type.name
                && o.offering.zone == offering.zone
                && o.offering.capacity_type == offering.capacity_type
                && same(o.offering.price, offering.price)
        };
        if !site.open.iter().any(|o| same_price(&o)) {
            return say(format!("price {} is not the catalogue's {}", offering.price, planned.offering.price));
        }
        return Vec::new();
    }
    // What the price of a slot is printed as is left open: nothing, the list price, or the catalogue's own.
    let list = Catalogue::list_price(instance_type, planned.offering);
    if [0.0, list, planned.offering.price].iter().any(|p| same(*p, offering.price)) {
        return Vec::new();
    }
    say(format!("price {} of a slot is neither 0 nor its list price {list}", offering.price))
}

/// The price of the cheapest of a type's open nodes.
fn cheapest(open: &[Open<'_>], name: &str) -> Option<f64> {
    let prices = open.iter().filter(|o| o.instance_type.name == name).map(|o| o.offering.price);
    prices.min_by(f64::total_cmp)
}

fn paid_list(site: &ClaimSite<'_>) -> Vec<Violation> {
    let claim = site.claim;
    let mut found = Vec::new();
    let mut say = |detail: String| found.push(Violation::new("instance-types", &claim.name, detail));
    if !claim.instance_types.contains(&claim.offering.instance_type) {
        say(format!("its planned type {} is not in its list", claim.offering.instance_type));
    }
    if claim.instance_types.iter().collect::<BTreeSet<_>>().len() != claim.instance_types.len() {
        say("a type is listed twice".to_owned());
    }
    let mut before = f64::NEG_INFINITY;
    let mut least = f64::INFINITY;
    for name in &claim.instance_types {
        let Some(price) = cheapest(&site.open, name) else {
            say(format!("{name} has no available paid offering that the requirements leave open"));
            continue;
        };
        if price < before && !same(price, before) {
            say(format!("{name} at {price} is listed after a type at {before}"));
        }
        before = price;
        least = least.min(price);
    }
    if claim.offering.price > least && !same(claim.offering.price, least) {
        say(format!("planned at {}, its list has an offering at {least}", claim.offering.price));
    }
    found
}

/// The paid fallback of a claim on a slot: each type fits in some paid offering of the pool, cheapest first.
fn fallback_list(world: &World, site: &Site<'_>, claim: &ClaimSite<'_>, needs: &Needs<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let required = &claim.claim.requirements;
    let own = own_labels(world, &claim.claim.node_pool, &claim.pool, required, &mentioned(world, &site.planned));
    // Preferences may leave out a type's cheapest offering, and so may spreads that look at some nodes alone and count these
    // pods: then any ascending choice of offerings will do.
    let are_all_wanted =
        !needs.all.iter().any(|pod| has_preferences(pod)) && !spread::count_on_some_nodes(world, &needs.all);
    let mut ascending = f64::NEG_INFINITY;
    let mut last = [f64::NEG_INFINITY; 2];
    let mut in_order = [true; 2];
    for name in &claim.claim.instance_types {
        let Some(listed) = world.catalogue.types.get(name) else {
            found.push(Violation::new("instance-types", site.name, format!("the catalogue has no type {name}")));
            continue;
        };
        let fitting =
            listed.candidates.iter().filter_map(|c| Some((c, listed.offerings.get(c.offering)?))).filter(|(c, o)| {
                o.is_available()
                    && !o.is_reserved()
                    && admits_candidate(world, &claim.pool.requirements, &c.labels)
                    && own.iter().any(|own| {
                        let node = NodeView { name: site.name, own, base: &c.labels };
                        needs.why_not(world, node, &claim.pool.taints, &listed.resources).is_none()
                    })
            });
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() {
            let detail = format!("{name} of its fallback list has no paid offering that its pods fit");
            found.push(Violation::new("instance-types", site.name, detail));
        }
        if !are_all_wanted {
            let next = fitting.iter().map(|(_, o)| o.price).filter(|p| *p >= ascending || same(*p, ascending));
            match next.min_by(f64::total_cmp) {
                Some(next) => ascending = next,
                None if fitting.is_empty() => {}
                None => in_order = [false; 2],
            }
            continue;
        }
        let everywhere = fitting.iter().map(|(_, o)| o.price).min_by(f64::total_cmp);
        let here = fitting.iter().filter(|(_, o)| o.zone == claim.claim.offering.zone);
        let here = here.map(|(_, o)| o.price).min_by(f64::total_cmp);
        for (price, (last, in_order)) in [everywhere, here].into_iter().zip(last.iter_mut().zip(in_order.iter_mut())) {
            if let Some(price) = price {
                *in_order &= price >= *last || same(price, *last);
                *last = price;
            }
        }
    }
    if in_order == [false, false] {
        found.push(Violation::new("instance-types", site.name, "its fallback list is not cheapest first"));
    }
    found
}

/// What a claim on a slot requires is met by that slot; the reservation's id may be asked for under any of its keys.
fn pinned_requirements(world: &World, site: &ClaimSite<'_>) -> Option<Violation> {
    let open = site.open.first().filter(|o| o.offering.is_reserved())?;
    let (by_id, others): (Vec<_>, Vec<_>) =
        site.claim.requirements.iter().cloned().partition(|r| RESERVATION_IDS.contains(&r.key.as_str()));
    let holds = by_id.iter().all(|r| r.admits(open.offering.reservation.as_deref()))
        && site.open.iter().any(|o| admits_candidate(world, &others, &o.candidate.labels));
    (!holds).then(|| {
        let detail = "its requirements exclude the slot that it is planned on";
        Violation::new("offering", &site.claim.name, detail)
    })
}

/// The claim's requirements leave nothing open that its pool forbids.
fn within_pool(world: &World, site: &ClaimSite<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |detail: String| found.push(Violation::new("pool-requirements", &site.claim.name, detail));
    for open in &site.open {
        if !admits_candidate(world, &site.pool.requirements, &open.candidate.labels) {
            say(format!(
                "leaves {} {} in {} open, which the NodePool's requirements forbid",
                open.instance_type.name, open.offering.capacity_type, open.offering.zone
            ));
        }
    }
    for of_pool in site.pool.requirements.iter().filter(|r| !world.catalogue.known_keys.contains(&r.key)) {
        let on_key: Vec<&Requirement> = site.claim.requirements.iter().filter(|r| r.key == of_pool.key).collect();
        let mentioned = of_pool.values.iter().cloned().collect();
        let values = match site.pool.labels.get(&of_pool.key) {
            Some(value) => vec![Some(value.clone())],
            None => witnesses(&on_key, &mentioned),
        };
        if values.iter().any(|v| !of_pool.admits(v.as_deref())) {
            say(format!("leaves values of {} open that the NodePool's requirements forbid", of_pool.key));
        }
    }
    for (key, value) in &site.pool.labels {
        let forbids = |r: &&Requirement| r.key == *key && !r.admits(Some(value));
        if let Some(requirement) = site.claim.requirements.iter().find(forbids) {
            say(format!("requires {requirement:?}, the NodePool labels its nodes {key}={value}"));
        }
    }
    found
}

fn requests(world: &World, site: &Site<'_>, claim: &ClaimSite<'_>) -> Vec<Violation> {
    let said = quantity::from_json(Some(&claim.claim.requests));
    let least = load::of_site(world, site);
    let mut most = least.clone();
    quantity::add(&mut most, &load::sum(world.daemons.iter()));
    let mut found = Vec::new();
    for (resource, amount) in &least {
        let written = said.get(resource).copied();
        // A resource of which nothing is asked need not be printed, nor the count of pods.
        if written.is_none() && (*amount == 0 || resource == "pods") {
            continue;
        }
        let written = written.unwrap_or_default();
        let greatest = most.get(resource).copied().unwrap_or_default();
        if written < *amount || written > greatest {
            let detail = format!(
                "requests {resource} {}, its pods and DaemonSets ask {} to {}",
                quantity::show(written),
                quantity::show(*amount),
                quantity::show(greatest)
            );
            found.push(Violation::new("requests", site.name, detail));
        }
    }
    found
}

fn view<'a>(name: &'a str, own: &'a Labels, open: &Open<'a>) -> NodeView<'a> {
    NodeView { name, own, base: &open.candidate.labels }
}

fn every_open_node(world: &World, site: &Site<'_>, claim: &ClaimSite<'_>, needs: &Needs<'_>) -> Vec<Violation> {
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for open in &claim.open {
        for own in &claim.own {
            let mut own = own.clone();
            own.insert(crate::catalogue::HOSTNAME.to_owned(), site.name.to_owned());
            let node = view(site.name, &own, open);
            if let Some((rule, object, reason)) =
                needs.why_not(world, node, &claim.pool.taints, &open.instance_type.resources)
                && told.insert((rule, object.clone()))
            {
                let place = format!(
                    "on claim {} as {} {} in {}",
                    site.name, open.instance_type.name, open.offering.capacity_type, open.offering.zone
                );
                found.push(Violation::new(rule, object, format!("{place}: {reason}")));
            }
        }
    }
    found
}

pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for site in sites {
        let Some(claim) = site.claim() else {
            continue;
        };
        let mut say = |detail: &str| found.push(Violation::new("claim", site.name, detail));
        if !names.insert(site.name) {
            say("two claims have this name");
        }
        if world.pool(&claim.claim.node_pool).is_none() {
            say(&format!("the input has no NodePool {}", claim.claim.node_pool));
            continue;
        }
        if claim.pool.is_static {
            say("its NodePool has fixed replicas and launches nothing for pods");
        }
        if site.planned.is_empty() && site.reservations.is_empty() {
            say("holds nothing");
        }
        let missing = claim.pool.taints.iter().find(|t| !claim.claim.taints.contains(t));
        if let Some(taint) = missing {
            say(&format!("lacks its NodePool's taint {}", taint.key));
        }
        found.extend(planned_offering(world, claim));
        found.extend(within_pool(world, claim));
        found.extend(pinned_requirements(world, claim));
        found.extend(requests(world, site, claim));
        let needs = Needs::of(world, site);
        if let Some((rule, object, reason)) = &needs.impossible {
            found.push(Violation::new(rule, object, reason));
            continue;
        }
        found.extend(every_open_node(world, site, claim, &needs));
        if claim.claim.offering.capacity_type == RESERVED {
            found.extend(fallback_list(world, site, claim, &needs));
        } else {
            found.extend(paid_list(claim));
        }
    }
    found
}
