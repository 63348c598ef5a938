//! Topology spread, DoNotSchedule: some order of placing keeps every skew.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde_json::to_string;

use super::limits;
use super::scope::{Placed, Scope, matching, placed};
use crate::catalogue::{HOSTNAME, InstanceType, Offering};
use crate::pool::Pool;
use crate::quantity;
use crate::selectors::{NodeView, pod_selects_node};
use crate::sites::{Domain, NAMELESS, Site, admits_candidate, mentioned, own_labels};
use crate::taints;
use crate::violation::Violation;
use crate::world::{Pod, World};

const RULE: &str = "topology-spread";

/// Planned pods with the very same constraint.
struct Group<'a> {
    constraint: &'a TopologySpreadConstraint,
    scope: Scope,
    /// Topology keys of all hard constraints of these pods: a node without one of them does not count.
    keys: Vec<String>,
    members: Vec<&'a Placed<'a>>,
}

fn hard(pod: &Pod) -> impl Iterator<Item = &TopologySpreadConstraint> {
    pod.spec.topology_spread_constraints.iter().flatten().filter(|c| c.when_unsatisfiable == "DoNotSchedule")
}

fn honors_affinity(constraint: &TopologySpreadConstraint) -> bool {
    constraint.node_affinity_policy.as_deref() != Some("Ignore")
}

fn honors_taints(constraint: &TopologySpreadConstraint) -> bool {
    constraint.node_taints_policy.as_deref() == Some("Honor")
}

/// Whether pods that are to be placed are spread over some nodes alone, and count one of these.
pub(crate) fn count_on_some_nodes(world: &World, pods: &[&Pod]) -> bool {
    let pending = world.pods.iter().filter(|pod| pod.node.is_none());
    let mut constraints =
        pending.flat_map(|pod| pod.spec.topology_spread_constraints.iter().flatten().map(move |c| (pod, c)));
    constraints.any(|(pod, constraint)| {
        let selects = pod.spec.node_selector.as_ref().is_some_and(|labels| !labels.is_empty())
            || crate::selectors::required_node_affinity(&pod.spec).is_some();
        let is_picky = (selects && honors_affinity(constraint)) || honors_taints(constraint);
        let scope = Scope::of_spread(pod, constraint);
        is_picky && pods.iter().any(|pod| scope.matches(pod))
    })
}

fn groups<'a>(all: &'a [Placed<'a>]) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<String, Group<'a>> = BTreeMap::new();
    for member in all.iter().filter(|p| p.planned) {
        let pod = member.pod;
        let keys: Vec<String> = hard(pod).map(|c| c.topology_key.clone()).collect();
        for constraint in hard(pod) {
            let scope = Scope::of_spread(pod, constraint);
            let node_side = (
                honors_affinity(constraint)
                    .then_some((&pod.spec.node_selector, crate::selectors::required_node_affinity(&pod.spec))),
                honors_taints(constraint).then_some(&pod.spec.tolerations),
            );
            let name =
                (&scope, &constraint.topology_key, constraint.max_skew, constraint.min_domains, node_side, &keys);
            let name = to_string(&name).unwrap_or_default();
            let new = || Group { constraint, scope, keys: keys.clone(), members: Vec::new() };
            groups.entry(name).or_insert_with(new).members.push(member);
        }
    }
    groups.into_values().collect()
}

impl Group<'_> {
    /// Does the pod count what is on this place?
    fn counts(&self, pod: &Pod, site: &Site<'_>) -> bool {
        let policy = (!honors_affinity(self.constraint) || pod_selects_node(&pod.spec, site.view()))
            && (!honors_taints(self.constraint)
                || taints::untolerated(&site.taints, pod.spec.tolerations.as_deref().unwrap_or_default()).is_none());
        policy && self.keys.iter().all(|key| *site.domain(key) != Domain::Absent)
    }

    /// With fewer domains the least count is 0.
    fn wanted(&self) -> usize {
        self.constraint.min_domains.and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
    }
}

/// Domains that a new node for this pod could surely be launched in: unlimited paid offerings of pools without limits
/// that admit it, on nodes with all the keys that its hard constraints name.
fn reachable(world: &World, pod: &Pod, index: usize, key: &str) -> BTreeSet<String> {
    let mut domains = BTreeSet::new();
    let tolerations = pod.spec.tolerations.as_deref().unwrap_or_default();
    let mentioned = mentioned(world, &[index]);
    let pools = world
        .pools
        .iter()
        .filter(|(_, p)| !p.is_static && p.limits.is_empty() && taints::untolerated(&p.taints, tolerations).is_none());
    for (name, pool) in pools {
        let own = own_labels(world, name, pool, &[], &mentioned);
        for instance_type in world.catalogue.types.values() {
            let fits = pod.requests.iter().all(|(resource, amount)| {
                *amount <= instance_type.resources.get(resource).copied().unwrap_or_default()
            });
            let candidates = instance_type.candidates.iter().filter(|c| {
                fits && instance_type
                    .offerings
                    .get(c.offering)
                    .is_some_and(|o| o.available.is_none() && !o.is_reserved())
                    && admits_candidate(world, &pool.requirements, &c.labels)
            });
            for candidate in candidates {
                for own in &own {
                    let node = NodeView { name: "new", own, base: &candidate.labels };
                    let has_keys =
                        hard(pod).all(|c| c.topology_key == HOSTNAME || node.label(&c.topology_key).is_some());
                    if has_keys
                        && pod_selects_node(&pod.spec, node)
                        && let Some(value) = node.label(key)
                    {
                        domains.insert(value.to_owned());
                    }
                }
            }
        }
    }
    domains
}

/// Every value of the key that anything in the input knows: as many domains as a planner could have counted.
fn imaginable<'a>(world: &'a World, sites: &'a [Site<'_>], key: &str) -> BTreeSet<&'a str> {
    let mut values: BTreeSet<&str> = BTreeSet::new();
    let candidates = world.catalogue.types.values().flat_map(|t| &t.candidates);
    values.extend(candidates.filter_map(|c| c.labels.get(key)).map(String::as_str));
    for site in sites {
        if let Domain::One(value) = site.domain(key)
            && value != NAMELESS
        {
            values.insert(value);
        }
    }
    for pool in world.pools.values() {
        values.extend(pool.labels.get(key).map(String::as_str));
        let on_key = pool.requirements.iter().filter(|r| r.key == key && r.operator == "In");
        values.extend(on_key.flat_map(|r| &r.values).map(String::as_str));
    }
    values
}

/// Whether a node that the constraint looks at can be launched for the pod, within what the plan leaves of limits: then one
/// without pods can always be made. Where its other constraints may keep it off such a node, nobody knows.
fn can_launch(world: &World, group: &Group<'_>, pod: &Pod, index: usize, sites: &[Site<'_>]) -> bool {
    let affinity = pod.spec.affinity.as_ref();
    let is_bound_to_others = affinity.is_some_and(|a| a.pod_affinity.is_some() || a.pod_anti_affinity.is_some());
    if is_bound_to_others || group.keys.iter().any(|key| key != HOSTNAME) {
        return false;
    }
    let used = limits::in_use(world, sites);
    let is_within_limits = |name: &String, pool: &Pool, instance_type: &InstanceType| {
        pool.limits.iter().all(|(resource, limit)| {
            let of_type = instance_type.resources.get(resource).copied();
            let one = if resource == "nodes" { quantity::whole(1) } else { of_type.unwrap_or_default() };
            let used = used.get(name).and_then(|used| used.get(resource)).copied().unwrap_or_default();
            one <= quantity::whole(0) || used + one <= *limit
        })
    };
    let tolerations = pod.spec.tolerations.as_deref().unwrap_or_default();
    let mentioned = mentioned(world, &[index]);
    let has_all = |pool: &Pool| pool.requirements.iter().all(|requirement| requirement.min_values.is_none());
    let takes = |pool: &Pool| has_all(pool) && taints::untolerated(&pool.taints, tolerations).is_none();
    let fits = |instance_type: &InstanceType| {
        let room = |resource: &String| instance_type.resources.get(resource).copied().unwrap_or_default();
        pod.requests.iter().all(|(resource, amount)| *amount <= room(resource))
    };
    world.pools.iter().filter(|(_, pool)| !pool.is_static && takes(pool)).any(|(name, pool)| {
        let own = own_labels(world, name, pool, &[], &mentioned);
        let types = world.catalogue.types.values().filter(|t| fits(t) && is_within_limits(name, pool, t));
        let candidates = types.flat_map(|t| t.candidates.iter().map(move |c| (c, t.offerings.get(c.offering))));
        // Nobody knows how much of a count is still free.
        let is_there =
            |offering: Option<&Offering>| offering.is_some_and(|o| o.available.is_none() && !o.is_reserved());
        let mut launched = candidates.filter(|(candidate, offering)| {
            is_there(*offering) && admits_candidate(world, &pool.requirements, &candidate.labels)
        });
        launched.any(|(candidate, _)| {
            own.iter().any(|own| {
                let node = NodeView { name: "new", own, base: &candidate.labels };
                let has = |key: &String| key == HOSTNAME || node.label(key).is_some();
                group.keys.iter().all(has) && (!honors_affinity(group.constraint) || pod_selects_node(&pod.spec, node))
            })
        })
    })
}

/// Host names: the least count is 0 where a node can be launched, and else that of the nodes that there are.
fn per_host(world: &World, group: &Group<'_>, sites: &[Site<'_>], all: &[Placed<'_>]) -> Vec<Violation> {
    let Some(first) = group.members.first() else { return Vec::new() };
    let eligible = || sites.iter().filter(|site| group.counts(first.pod, site));
    let mut counts: BTreeMap<String, i64> = eligible().map(|site| (site.name.to_owned(), 0)).collect();
    let mut others: BTreeMap<String, i64> = BTreeMap::new();
    let is_member: BTreeSet<usize> = group.members.iter().map(|m| m.index).collect();
    let counts_too = |other: &&Placed<'_>| !is_member.contains(&other.index) && !other.pod.is_terminating();
    for other in matching(&group.scope, all).into_iter().filter(counts_too) {
        let Some(name) = sites.get(other.site).map(|site| site.name).filter(|name| counts.contains_key(*name)) else {
            continue;
        };
        let list = if other.planned { &mut others } else { &mut counts };
        *list.entry(name.to_owned()).or_default() += 1;
    }
    let mut members: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for member in &group.members {
        let name = sites.get(member.site).map_or("", |site| site.name);
        members.entry(name.to_owned()).or_default().push(group.scope.matches(member.pod));
    }
    let least_is_zero = can_launch(world, group, first.pod, first.index, sites) || counts.len() < group.wanted();
    let Some(stuck) = replay(group, counts, members, others, least_is_zero) else { return Vec::new() };
    let detail = format!("no order keeps maxSkew {} over nodes: {stuck}", group.constraint.max_skew);
    vec![Violation::new(RULE, &first.pod.name, detail)]
}

/// Places constrained pods whenever their skew allows, and others that count when it does not, into their final domains.
fn replay(
    group: &Group<'_>,
    mut counts: BTreeMap<String, i64>,
    mut members: BTreeMap<String, Vec<bool>>,
    mut others: BTreeMap<String, i64>,
    least_is_zero: bool,
) -> Option<String> {
    let skew = i64::from(group.constraint.max_skew);
    loop {
        let least = if least_is_zero { 0 } else { counts.values().copied().min().unwrap_or_default() };
        let mut moved = false;
        for (domain, waiting) in &mut members {
            let count = counts.entry(domain.clone()).or_default();
            waiting.retain(|matches| {
                let enters = *count + i64::from(*matches) - least <= skew;
                if enters {
                    *count += i64::from(*matches);
                    moved = true;
                }
                !enters
            });
        }
        members.retain(|_, waiting| !waiting.is_empty());
        if members.is_empty() {
            return None;
        }
        if moved {
            continue;
        }
        let stuck = format!(
            "counts {counts:?}, still to place {:?}",
            members.iter().map(|(d, w)| (d, w.len())).collect::<Vec<_>>()
        );
        let lowest =
            counts.iter().filter(|(domain, _)| others.get(*domain).is_some_and(|n| *n > 0)).min_by_key(|(_, n)| **n);
        let Some(domain) = lowest.map(|(domain, _)| domain.clone()) else {
            return Some(stuck);
        };
        *others.entry(domain.clone()).or_default() -= 1;
        *counts.entry(domain).or_default() += 1;
    }
}

fn per_domain(world: &World, group: &Group<'_>, sites: &[Site<'_>], all: &[Placed<'_>]) -> Vec<Violation> {
    let key = &group.constraint.topology_key;
    let mut found = Vec::new();
    let Some(first) = group.members.first() else {
        return found;
    };
    // A value that nothing names, of a pool that only excludes others, is no domain to balance with.
    let named = imaginable(world, sites, key);
    let reachable = reachable(world, first.pod, first.index, key).into_iter();
    let mut counts: BTreeMap<String, i64> = reachable.filter(|d| named.contains(d.as_str())).map(|d| (d, 0)).collect();
    let mut counted = BTreeSet::new();
    for (index, site) in sites.iter().enumerate() {
        if group.counts(first.pod, site) {
            counted.insert(index);
            if let Domain::One(domain) = site.domain(key)
                && named.contains(domain.as_str())
            {
                counts.entry(domain.clone()).or_default();
            }
        }
    }
    let is_member: BTreeSet<usize> = group.members.iter().map(|m| m.index).collect();
    let mut others: BTreeMap<String, i64> = BTreeMap::new();
    for other in matching(&group.scope, all) {
        if is_member.contains(&other.index) || !counted.contains(&other.site) || other.pod.is_terminating() {
            continue;
        }
        match sites.get(other.site).map(|s| s.domain(key)) {
            Some(Domain::One(domain)) if domain == NAMELESS => {}
            Some(Domain::One(domain)) if other.planned => *others.entry(domain.clone()).or_default() += 1,
            Some(Domain::One(domain)) => *counts.entry(domain.clone()).or_default() += 1,
            Some(Domain::Open(open)) => {
                let detail = format!("counts for a spread over {key}, and its claim leaves {open:?} open");
                found.push(Violation::new(RULE, &other.pod.name, detail));
            }
            _ => {}
        }
    }
    let mut members: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for member in &group.members {
        match sites.get(member.site).map(|s| s.domain(key)) {
            Some(Domain::One(domain)) => {
                members.entry(domain.clone()).or_default().push(group.scope.matches(member.pod));
            }
            Some(Domain::Open(open)) => {
                let detail = format!("is spread over {key}, and its claim leaves {open:?} open");
                found.push(Violation::new(RULE, &member.pod.name, detail));
            }
            _ => found.push(Violation::new(
                RULE,
                &member.pod.name,
                format!("is spread over {key}, which its node lacks"),
            )),
        }
    }
    let least_is_zero = named.len() < group.wanted();
    if let Some(stuck) = replay(group, counts, members, others, least_is_zero) {
        let detail = format!("no order keeps maxSkew {} over {key}: {stuck}", group.constraint.max_skew);
        found.push(Violation::new(RULE, &first.pod.name, detail));
    }
    found
}

pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let all = placed(world, sites);
    let mut found = Vec::new();
    for group in groups(&all) {
        if group.constraint.topology_key == HOSTNAME {
            found.extend(per_host(world, &group, sites, &all));
        } else {
            found.extend(per_domain(world, &group, sites, &all));
        }
    }
    found
}
