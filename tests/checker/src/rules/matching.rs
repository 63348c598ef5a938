//! Invariant 5: no free slot could take over a paid new node, directly or by moving claims from slot to slot.
//!
//! What a node holds stays fixed. A claim whose pods count in a topology keeps its domain there; one whose pods have
//! preferences is left alone, as keeping them comes before cost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::claims::Needs;
use super::shares::Weighed;
use super::{ledger, limits};
use crate::MaxShare;
use crate::catalogue::{HOSTNAME, InstanceType, Offering, RESERVED};
use crate::quantity::{self, Resources};
use crate::selectors::NodeView;
use crate::sites::{ClaimSite, Domain, Site, admits_candidate, mentioned, own_labels};
use crate::violation::Violation;
use crate::world::{Pod, World};

/// Whether the pod prefers something that may be given up.
pub(super) fn has_preferences(pod: &Pod) -> bool {
    let affinity = pod.spec.affinity.as_ref();
    let node = affinity.and_then(|a| a.node_affinity.as_ref());
    let with = affinity.and_then(|a| a.pod_affinity.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let some = |n: Option<usize>| n.is_some_and(|n| n > 0);
    some(node.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()).map(Vec::len))
        || some(with.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()).map(Vec::len))
        || some(apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref()).map(Vec::len))
        || pod.spec.topology_spread_constraints.iter().flatten().any(|c| c.when_unsatisfiable == "ScheduleAnyway")
}

/// Topology keys, host names aside, that constrain or count any pod of the input: a claim keeps its domain for them.
fn pinned_keys(world: &World) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for pod in &world.pods {
        let affinity = pod.spec.affinity.as_ref();
        let with = affinity.and_then(|a| a.pod_affinity.as_ref());
        let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let terms = with
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .chain(apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()))
            .flatten();
        keys.extend(terms.map(|t| t.topology_key.clone()));
        keys.extend(pod.spec.topology_spread_constraints.iter().flatten().map(|c| c.topology_key.clone()));
    }
    keys.remove(HOSTNAME);
    keys
}

/// What a move may add to each pool's use.
struct Slack {
    used: BTreeMap<String, Resources>,
}

impl Slack {
    fn holds(&self, world: &World, site: &ClaimSite<'_>, pool: &str, new: &InstanceType, alone: bool) -> bool {
        let Some(limits) = world.pools.get(pool).map(|p| &p.limits) else {
            return true;
        };
        let own = site.claim.node_pool == pool;
        let old = world.catalogue.types.get(&site.claim.offering.instance_type).filter(|_| own);
        limits.iter().all(|(resource, limit)| {
            let amount = |of: &Resources| of.get(resource).copied().unwrap_or_default();
            let (new, old) = if resource == "nodes" {
                (quantity::whole(1), quantity::whole(usize::from(own)))
            } else {
                (amount(&new.resources), old.map_or(0, |t| amount(&t.resources)))
            };
            let total = self.used.get(pool).map_or(0, amount);
            // Several moves of one path share what is left: then no move may add anything.
            new <= old || (alone && total - old + new <= *limit)
        })
    }
}

struct Mover<'a, 'w> {
    world: &'w World,
    pinned: BTreeSet<String>,
    slack: Slack,
    /// Per reservation id the offerings that draw on it.
    slots: BTreeMap<&'w str, Vec<(&'w InstanceType, &'w Offering, usize)>>,
    sites: &'a [Site<'a>],
    shares: &'a [MaxShare],
    weighed: Weighed,
}

impl<'w> Mover<'_, 'w> {
    fn keeps_domains(&self, site: &Site<'_>, node: NodeView<'_>) -> bool {
        self.pinned.iter().all(|key| match site.domain(key) {
            Domain::One(value) => node.label(key) == Some(value),
            // An open key was shown to be free of topology by the other rules, or is already told.
            Domain::Open(_) | Domain::Absent => true,
        })
    }

    /// Would the shares be kept, were this claim on that offering?
    fn keeps_shares(&self, site: &Site<'_>, instance_type: &InstanceType, offering: &Offering) -> bool {
        self.shares.iter().all(|share| {
            let value = |at: usize| {
                let Some((there, claim)) = self.sites.get(at).and_then(|there| Some((there, there.claim()?))) else {
                    return String::new();
                };
                let (name, zone, capacity_type) = if there.name == site.name {
                    (&instance_type.name, &offering.zone, &offering.capacity_type)
                } else {
                    let planned = &claim.claim.offering;
                    (&planned.instance_type, &planned.zone, &planned.capacity_type)
                };
                match share.key.as_str() {
                    "zone" => zone.clone(),
                    "instanceType" => name.clone(),
                    _ => capacity_type.clone(),
                }
            };
            self.weighed.broken(share, value).is_none()
        })
    }

    /// Could the claim's pods, as they are, sit on a slot of this reservation?
    fn could_take(&self, site: &Site<'_>, claim: &ClaimSite<'_>, needs: &Needs<'_>, id: &str, alone: bool) -> bool {
        let mentioned = mentioned(self.world, &site.planned);
        let own_name = &claim.claim.node_pool;
        self.slots.get(id).into_iter().flatten().any(|(instance_type, offering, index)| {
            // Several moves of one path may break a share together.
            if !(self.shares.is_empty() || alone && self.keeps_shares(site, instance_type, offering)) {
                return false;
            }
            let candidates = instance_type.candidates.iter().filter(|c| c.offering == *index);
            candidates.into_iter().any(|candidate| {
                self.world.pools.iter().any(|(name, pool)| {
                    let varied = name != own_name
                        && (pool.requirements.iter().any(|r| r.min_values.is_some())
                            || pool.taints.iter().any(|t| t.effect == "PreferNoSchedule"));
                    if pool.is_static
                        || varied
                        || !admits_candidate(self.world, &pool.requirements, &candidate.labels)
                        || !self.slack.holds(self.world, claim, name, instance_type, alone)
                    {
                        return false;
                    }
                    let own = own_labels(self.world, name, pool, &[], &mentioned);
                    own.iter().any(|own| {
                        let node = NodeView { name: site.name, own, base: &candidate.labels };
                        self.keeps_domains(site, node)
                            && needs.why_not(self.world, node, &pool.taints, &instance_type.resources).is_none()
                    })
                })
            })
        })
    }

    /// Claims alike in pool, pods and size share one answer.
    fn reach(&self) -> Vec<Option<Reach<'w>>> {
        let mut known: BTreeMap<String, Reach<'w>> = BTreeMap::new();
        self.sites
            .iter()
            .map(|site| {
                let claim = site.claim()?;
                let pods: Vec<&Pod> = site.planned.iter().filter_map(|i| self.world.pods.get(*i)).collect();
                if pods.iter().any(|p| has_preferences(p)) || !site.reservations.is_empty() {
                    return None;
                }
                let mut shapes: Vec<usize> = pods.iter().map(|p| p.shape).collect();
                shapes.sort_unstable();
                let domains: Vec<&Domain> = self.pinned.iter().map(|key| site.domain(key)).collect();
                let varied = pods.iter().any(|p| !p.own_claims.is_empty()).then_some(site.name);
                let name = format!(
                    "{:?}",
                    (&claim.claim.node_pool, &claim.claim.offering.instance_type, shapes, domains, varied)
                );
                let name = if self.shares.is_empty() { name } else { format!("{} {name}", site.name) };
                let reach = known.entry(name).or_insert_with(|| {
                    let needs = Needs::of(self.world, site);
                    let ids = |alone: bool| {
                        let could = |id: &&&'w str| self.could_take(site, claim, &needs, id, alone);
                        self.slots.keys().filter(could).copied().collect()
                    };
                    Reach { direct: ids(true), moving: ids(false) }
                });
                Some(reach.clone())
            })
            .collect()
    }
}

/// The reservations that a claim could take a slot of: alone, and as one move of several.
#[derive(Clone)]
struct Reach<'w> {
    direct: Vec<&'w str>,
    moving: Vec<&'w str>,
}

/// Breadth-first over the ids that the paid claim could take and the claims that hold their slots.
fn path<'w>(
    start: &Reach<'w>,
    holders: &BTreeMap<String, Vec<usize>>,
    reach: &[Option<Reach<'w>>],
    free: &BTreeMap<&'w str, u64>,
) -> Option<Vec<&'w str>> {
    let is_free = |id: &str| free.get(id).is_some_and(|n| *n > 0);
    if let Some(id) = start.direct.iter().find(|id| is_free(id)) {
        return Some(vec![id]);
    }
    let mut from: BTreeMap<&str, Option<&'w str>> = start.moving.iter().map(|id| (*id, None)).collect();
    let mut queue: VecDeque<&'w str> = start.moving.iter().copied().collect();
    while let Some(id) = queue.pop_front() {
        if is_free(id) {
            let mut path = vec![id];
            let mut at = id;
            while let Some(Some(before)) = from.get(at) {
                path.push(before);
                at = before;
            }
            path.reverse();
            return Some(path);
        }
        for holder in holders.get(id).into_iter().flatten() {
            for next in reach.get(*holder).iter().copied().flatten().flat_map(|r| &r.moving) {
                if !from.contains_key(next) {
                    from.insert(next, Some(id));
                    queue.push_back(next);
                }
            }
        }
    }
    None
}

pub(crate) fn check(world: &World, sites: &[Site<'_>], shares: &[MaxShare]) -> Vec<Violation> {
    let taken = ledger::taken(sites);
    let mut free: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, slots) in &world.catalogue.slots {
        free.insert(id, slots.saturating_sub(taken.get(id).copied().unwrap_or_default()));
    }
    if free.values().all(|n| *n == 0) {
        return Vec::new();
    }
    let mut slots: BTreeMap<&str, Vec<(&InstanceType, &Offering, usize)>> = BTreeMap::new();
    for instance_type in world.catalogue.types.values() {
        for (index, offering) in instance_type.offerings.iter().enumerate().filter(|(_, o)| o.is_available()) {
            if let Some(id) = &offering.reservation {
                slots.entry(id).or_default().push((instance_type, offering, index));
            }
        }
    }
    let mut holders: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, site) in sites.iter().enumerate() {
        let id = site.claim().filter(|c| c.claim.offering.capacity_type == RESERVED).and_then(|c| c.open.first());
        if let Some(id) = id.and_then(|o| o.offering.reservation.clone()) {
            holders.entry(id).or_default().push(index);
        }
    }
    let slack = Slack { used: limits::in_use(world, sites) };
    let weighed = Weighed::new(world, sites);
    let mover = Mover { world, pinned: pinned_keys(world), slack, slots, sites, shares, weighed };
    let reach = mover.reach();
    let mut found = Vec::new();
    for (site, own) in sites.iter().zip(&reach) {
        let paid =
            site.claim().is_some_and(|c| c.claim.offering.capacity_type != RESERVED && c.claim.offering.price > 0.0);
        if let (true, Some(own)) = (paid, own)
            && let Some(path) = path(own, &holders, &reach, &free)
        {
            let detail = format!("is paid, and a free slot could take its pods: {}", path.join(" then "));
            found.push(Violation::new("augmenting-path", site.name, detail));
        }
    }
    found
}
