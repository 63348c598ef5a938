//! `--max-share`, and accelerators only for those that ask for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;
use crate::quantity;
use crate::sites::{ClaimSite, Site};
use crate::violation::Violation;
use crate::world::World;
use crate::{MaxShare, load};

const ALL: i128 = 1_000_000_000;

/// The value of a key on the offering that a claim is planned on.
fn planned<'a>(site: &'a ClaimSite<'_>, key: &str) -> &'a str {
    let offering = &site.claim.offering;
    match key {
        "zone" => &offering.zone,
        "instanceType" => &offering.instance_type,
        _ => &offering.capacity_type,
    }
}

/// What a new node counts for: the CPU that each pod and each Reservation on it requests, owners with their Reservation;
/// what requests none counts a tenth.
fn weights(world: &World, site: &Site<'_>) -> Vec<i128> {
    let tenth = quantity::whole(1) / 10;
    let cpu = |resources: &quantity::Resources| match resources.get("cpu") {
        Some(cpu) if *cpu > 0 => *cpu,
        _ => tenth,
    };
    let is_owner = |name: &str| site.allocations.iter().any(|allocation| allocation.pod == name);
    let pods = site.planned.iter().filter_map(|index| world.pods.get(*index)).filter(|pod| !is_owner(&pod.name));
    let rooms = site.reservations.iter().filter_map(|name| world.reservations.get(name)).map(|room| {
        let drawn = load::sum(load::drawing(world, site, &room.name).into_iter());
        load::with_room(&load::reserved(room), drawn, room.allocate_once)
    });
    pods.map(|pod| cpu(&pod.requests)).chain(rooms.map(|room| cpu(&room))).collect()
}

/// New nodes as a share sees them.
pub(super) struct Weighed {
    /// The site, what is on it, and the least of that.
    nodes: Vec<(usize, i128, i128)>,
}

/// What one value has.
struct Has {
    nodes: usize,
    sum: i128,
    least_pod: i128,
}

impl Weighed {
    pub(super) fn new(world: &World, sites: &[Site<'_>]) -> Self {
        let claims = sites.iter().enumerate().filter(|(_, site)| site.claim().is_some());
        let weighed = claims.map(|(at, site)| {
            let weights = weights(world, site);
            (at, weights.iter().sum(), weights.iter().min().copied().unwrap_or_default())
        });
        Weighed { nodes: weighed.collect() }
    }

    fn total(&self) -> i128 {
        self.nodes.iter().map(|(_, weight, _)| weight).sum()
    }

    fn by_value(&self, share: &MaxShare, value_of: impl Fn(usize) -> String) -> BTreeMap<String, Has> {
        let mut by_value: BTreeMap<String, Has> = BTreeMap::new();
        for &(at, weight, least) in &self.nodes {
            let name = value_of(at);
            if share.value.as_ref().is_some_and(|named| *named != name) {
                continue;
            }
            let has = by_value.entry(name).or_insert(Has { nodes: 0, sum: 0, least_pod: least });
            has.nodes += 1;
            has.sum += weight;
            has.least_pod = has.least_pod.min(least);
        }
        by_value
    }

    /// The first value that breaks a share, were each new node of the value that `value_of` tells.
    pub(super) fn broken(&self, share: &MaxShare, value_of: impl Fn(usize) -> String) -> Option<(String, i128)> {
        let total = self.total();
        let values = self.by_value(share, value_of).into_iter();
        let beyond = |has: &Has| has.sum - has.least_pod;
        let mut broken = values.filter(|(_, has)| beyond(has) * ALL >= total * i128::from(share.billionths));
        broken.next().map(|(value, has)| (value, has.sum))
    }
}

pub(crate) fn check(world: &World, plan: &Plan, sites: &[Site<'_>], shares: &[MaxShare]) -> Vec<Violation> {
    let mut found = Vec::new();
    let weighed = Weighed::new(world, sites);
    let value = |key: &str, at: usize| {
        sites.get(at).and_then(Site::claim).map(|claim| planned(claim, key).to_owned()).unwrap_or_default()
    };
    for (index, share) in shares.iter().enumerate() {
        let value_of = |at: usize| value(&share.key, at);
        let total = weighed.total();
        if let Some((name, sum)) = weighed.broken(share, value_of) {
            let detail = format!("{sum} of {total} is more than {} billionths", share.billionths);
            found.push(Violation::new("max-share", format!("{} {name}", share.key), detail));
        }
        let said = plan.restrictions.get(index).map(|known| known.values.as_slice()).unwrap_or_default();
        let has = weighed.by_value(share, value_of);
        let agrees = has.len() == said.len()
            && said.iter().all(|said| {
                has.get(&said.value).is_some_and(|has| {
                    let exact = (has.sum * ALL + total - 1) / total.max(1);
                    has.nodes == said.nodes && format!("{:.9}", said.share) == billionths(exact)
                })
            });
        if !agrees {
            found.push(Violation::new("max-share", &share.key, "the plan says other shares than it has".to_owned()));
        }
    }
    for known in &plan.restrictions {
        let (cost, left) = (known.hourly_cost.unwrap_or_default(), known.unschedulable.unwrap_or_default());
        if cost < 0.0 && left == 0 {
            found.push(Violation::new("restriction", &known.name, format!("is said to cost {cost}")));
        }
    }
    found.extend(open_elsewhere(sites, shares));
    found
}

/// What a claim lists beside its planned offering draws on no other zone or capacity type with a share; which instance
/// type is launched is the cloud's to say.
fn open_elsewhere(sites: &[Site<'_>], shares: &[MaxShare]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (site, claim) in sites.iter().filter_map(|site| Some((site, site.claim()?))) {
        let varies = claim.pool.requirements.iter().any(|requirement| requirement.min_values.is_some());
        if varies || claim.claim.offering.capacity_type == "reserved" {
            continue;
        }
        for share in shares.iter().filter(|share| share.key != "instanceType") {
            let own = planned(claim, &share.key);
            let is_drawn = |value: &&str| *value != own && share.value.as_deref().is_none_or(|named| named == *value);
            let of_offering = |open: &crate::sites::Open<'_>| match share.key.as_str() {
                "zone" => open.offering.zone.clone(),
                _ => open.offering.capacity_type.clone(),
            };
            let open: BTreeSet<String> = claim.open.iter().map(of_offering).collect();
            if let Some(other) = open.iter().map(String::as_str).find(is_drawn) {
                let detail = format!("leaves {} {other} open, is planned in {own}", share.key);
                found.push(Violation::new("max-share", site.name, detail));
            }
        }
    }
    found
}

fn billionths(part: i128) -> String {
    format!("{}.{:09}", part / ALL, part % ALL)
}

fn is_accelerator(name: &str) -> bool {
    ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/", "aws.amazon.com/neuron", "google.com/tpu"]
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

/// Paid nodes with accelerators, planned or listed, are for pods that ask for some.
pub(crate) fn check_accelerators(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let has_any =
        |resources: &quantity::Resources| resources.iter().any(|(name, amount)| *amount > 0 && is_accelerator(name));
    let mut found = Vec::new();
    for (site, claim) in sites.iter().filter_map(|site| Some((site, site.claim()?))) {
        if has_any(&load::of_site(world, site)) {
            continue;
        }
        for name in &claim.claim.instance_types {
            if world.catalogue.types.get(name).is_some_and(|listed| has_any(&listed.resources)) {
                let detail = format!("lists {name}, whose accelerators nothing on it asks for");
                found.push(Violation::new("accelerators", site.name, detail));
            }
        }
    }
    found
}
