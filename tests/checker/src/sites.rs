//! Where pods go: existing nodes, and claims with every node that they leave open.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::catalogue::{Candidate, HOSTNAME, InstanceType, Offering, Requirement};
use crate::plan::{Allocation, Claim, NodeUse, Plan};
use crate::pool::Pool;
use crate::selectors::{Labels, NodeView, selected_keys};
use crate::violation::Violation;
use crate::world::World;

/// Stands for any value that nothing in the input names.
pub(crate) const NAMELESS: &str = "a-value-of-no-one";

pub(crate) const NODE_POOL: &str = "karpenter.sh/nodepool";

/// One node that a claim may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open<'a> {
    pub(crate) instance_type: &'a InstanceType,
    pub(crate) offering: &'a Offering,
    pub(crate) candidate: &'a Candidate,
}

/// A claim with its pool and the nodes that it leaves open.
#[derive(Debug)]
pub(crate) struct ClaimSite<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) pool: Pool,
    /// Pinned: the reservation's own offering. Paid: every available paid offering of the listed types.
    pub(crate) open: Vec<Open<'a>>,
    /// Labels that the pool and the claim give the node, in every combination that pods could tell apart.
    pub(crate) own: Vec<Labels>,
}

/// The kind of place.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Node(&'a Node),
    Claim(Box<ClaimSite<'a>>),
}

/// The values that a topology key may take at a place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Domain {
    Absent,
    One(String),
    Open(BTreeSet<String>),
}

/// A place with the pods on it.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind<'a>,
    /// Pods that the plan puts here.
    pub(crate) planned: Vec<usize>,
    /// Pods that run here and stay.
    pub(crate) bound: Vec<usize>,
    pub(crate) reservations: &'a [String],
    pub(crate) allocations: &'a [Allocation],
    pub(crate) preempted: &'a [String],
    pub(crate) taints: Vec<Taint>,
    domains: BTreeMap<String, Domain>,
    own: Labels,
    base: Labels,
}

impl<'a> Site<'a> {
    /// The node itself, or the one that the plan means to launch.
    pub(crate) fn view(&self) -> NodeView<'_> {
        NodeView { name: self.name, own: &self.own, base: &self.base }
    }

    pub(crate) fn domain(&self, key: &str) -> &Domain {
        self.domains.get(key).unwrap_or(&Domain::Absent)
    }

    pub(crate) fn claim(&self) -> Option<&ClaimSite<'a>> {
        match &self.kind {
            Kind::Claim(claim) => Some(claim),
            Kind::Node(_) => None,
        }
    }

    fn read_domain(&self, key: &str) -> Domain {
        if key == HOSTNAME {
            return Domain::One(self.view().label(key).unwrap_or(self.name).to_owned());
        }
        let mut values = BTreeSet::new();
        match self.claim() {
            Some(claim) if !claim.open.is_empty() => {
                for own in &claim.own {
                    if let Some(value) = own.get(key) {
                        values.insert(Some(value.clone()));
                    } else {
                        values.extend(claim.open.iter().map(|o| o.candidate.labels.get(key).cloned()));
                    }
                }
            }
            _ => {
                values.insert(self.view().label(key).map(str::to_owned));
            }
        }
        let named: BTreeSet<String> = values.iter().flatten().cloned().collect();
        match (values.len(), named.first()) {
            (_, None) => Domain::Absent,
            (1, Some(only)) => Domain::One(only.clone()),
            _ => Domain::Open(named),
        }
    }
}

/// Does every requirement on a key that the catalogue decides admit this candidate?
pub(crate) fn admits_candidate(world: &World, requirements: &[Requirement], labels: &Labels) -> bool {
    requirements
        .iter()
        .filter(|r| world.catalogue.known_keys.contains(&r.key))
        .all(|r| r.admits(labels.get(&r.key).map(String::as_str)))
}

/// Values of a key that the requirements admit and that pods could tell apart, given what pods compare with.
pub(crate) fn witnesses(requirements: &[&Requirement], mentioned: &BTreeSet<String>) -> Vec<Option<String>> {
    if requirements.is_empty() || requirements.iter().any(|r| !r.needs_presence()) {
        return vec![None];
    }
    let mut values: BTreeSet<String> = mentioned.clone();
    for value in requirements.iter().flat_map(|r| &r.values).chain(mentioned) {
        values.insert(value.clone());
        if let Ok(number) = value.parse::<i64>() {
            values.insert(number.saturating_sub(1).to_string());
            values.insert(number.saturating_add(1).to_string());
        }
    }
    values.insert(NAMELESS.to_owned());
    values.into_iter().filter(|v| requirements.iter().all(|r| r.admits(Some(v)))).map(Some).collect()
}

/// The labels that a pool (and a claim of it) gives nodes, in every combination up to a bound that pods could tell apart.
pub(crate) fn own_labels(
    world: &World,
    pool_name: &str,
    pool: &Pool,
    claim: &[Requirement],
    mentioned: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Labels> {
    const MOST: usize = 64;
    let mut first = pool.labels.clone();
    first.insert(NODE_POOL.to_owned(), pool_name.to_owned());
    let mut all = vec![first];
    let requirements: Vec<&Requirement> = pool.requirements.iter().chain(claim).collect();
    let keys: BTreeSet<&String> = requirements
        .iter()
        .map(|r| &r.key)
        .filter(|key| {
            !world.catalogue.known_keys.contains(*key)
                && !pool.labels.contains_key(*key)
                && *key != NODE_POOL
                && *key != HOSTNAME
        })
        .collect();
    let none = BTreeSet::new();
    for key in keys {
        let on_key: Vec<&Requirement> = requirements.iter().filter(|r| r.key == *key).copied().collect();
        let values = witnesses(&on_key, mentioned.get(key).unwrap_or(&none));
        let mut next = Vec::new();
        for labels in &all {
            for value in values.iter().flatten() {
                let mut labels = labels.clone();
                labels.insert(key.clone(), value.clone());
                next.push(labels);
            }
            if values.iter().any(Option::is_none) || values.is_empty() {
                next.push(labels.clone());
            }
        }
        next.truncate(MOST);
        all = next;
    }
    all
}

/// What these pods, and the DaemonSets, compare each label key with.
pub(crate) fn mentioned(world: &World, pods: &[usize]) -> BTreeMap<String, BTreeSet<String>> {
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let on_claim = pods.iter().filter_map(|p| world.pods.get(*p));
    for pod in on_claim.chain(&world.daemons) {
        for (key, values) in selected_keys(&pod.spec) {
            keys.entry(key.to_owned()).or_default().extend(values.into_iter().map(str::to_owned));
        }
    }
    keys
}

/// Every topology key that a hard constraint of any pod names.
fn topology_keys(world: &World) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for pod in &world.pods {
        for constraint in pod.spec.topology_spread_constraints.iter().flatten() {
            keys.insert(constraint.topology_key.clone());
        }
        if let Some(affinity) = &pod.spec.affinity {
            let with = affinity.pod_affinity.iter();
            let with = with.flat_map(|a| a.required_during_scheduling_ignored_during_execution.iter().flatten());
            let apart = affinity.pod_anti_affinity.iter();
            let apart = apart.flat_map(|a| a.required_during_scheduling_ignored_during_execution.iter().flatten());
            keys.extend(with.chain(apart).map(|term| term.topology_key.clone()));
        }
    }
    keys
}

fn known_pods(world: &World, names: &[String]) -> Vec<usize> {
    names.iter().filter_map(|name| world.pod_index.get(name).copied()).collect()
}

fn node_taints(world: &World, node: &Node) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    let labels = node.metadata.labels.as_ref();
    let initialized = labels.is_some_and(|l| l.get("karpenter.sh/initialized").is_some_and(|v| v == "true"));
    let pool = labels.and_then(|l| l.get(NODE_POOL)).and_then(|name| world.pools.get(name));
    let passing =
        ["node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered"];
    let is_startup = |t: &Taint| {
        !initialized && pool.is_some_and(|p| p.startup_taints.iter().any(|s| s.key == t.key && s.effect == t.effect))
    };
    let mut taints: Vec<Taint> = spec.and_then(|s| s.taints.clone()).unwrap_or_default();
    taints.retain(|t| !passing.contains(&t.key.as_str()) && !is_startup(t));
    if spec.is_some_and(|s| s.unschedulable == Some(true)) {
        taints.push(Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    taints
}

/// Pods that run on each node, by the node's name.
fn bound_pods(world: &World) -> BTreeMap<&str, Vec<usize>> {
    let mut bound: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, pod) in world.pods.iter().enumerate() {
        if let Some(node) = &pod.node {
            bound.entry(node).or_default().push(index);
        }
    }
    bound
}

fn node_site<'a>(
    world: &'a World,
    name: &'a str,
    node: &'a Node,
    used: Option<&'a NodeUse>,
    bound: &[usize],
) -> Site<'a> {
    let preempted = used.map_or(&[][..], |u| u.preempted.as_slice());
    let planned = used.map(|u| known_pods(world, &u.pods)).unwrap_or_default();
    let going = bound.iter().filter_map(|at| world.pods.get(*at)).filter(|pod| pod.is_terminating());
    let lowest = going.map(|pod| world.priority(pod)).min();
    // Who is nominated here may count on the room of those that are being deleted, and so may who would preempt them.
    let mut placed = planned.iter().filter_map(|at| world.pods.get(*at));
    let counts_on_it = placed
        .any(|pod| pod.nominated.as_deref() == Some(name) || lowest.is_some_and(|lowest| lowest < world.priority(pod)));
    let stays = |pod: &usize| {
        let pod = world.pods.get(*pod);
        pod.is_some_and(|p| !(preempted.contains(&p.name) || counts_on_it && p.is_terminating()))
    };
    Site {
        name,
        kind: Kind::Node(node),
        planned,
        bound: bound.iter().copied().filter(stays).collect(),
        reservations: used.map_or(&[][..], |u| u.reservations.as_slice()),
        allocations: used.map_or(&[][..], |u| u.allocations.as_slice()),
        preempted,
        taints: node_taints(world, node),
        domains: BTreeMap::new(),
        own: Labels::new(),
        base: node.metadata.labels.clone().unwrap_or_default(),
    }
}

fn open_nodes<'a>(world: &'a World, claim: &Claim) -> Vec<Open<'a>> {
    let pinned = claim.offering.capacity_type == crate::catalogue::RESERVED;
    let names: Vec<&String> =
        if pinned { vec![&claim.offering.instance_type] } else { claim.instance_types.iter().collect() };
    let types = names.into_iter().filter_map(|name| world.catalogue.types.get(name));
    types
        .flat_map(|t| t.candidates.iter().map(move |c| (t, c)))
        .filter_map(|(t, candidate)| {
            Some(Open { instance_type: t, offering: t.offerings.get(candidate.offering)?, candidate })
        })
        .filter(|open| {
            if pinned {
                open.offering.is_reserved()
                    && open.offering.zone == claim.offering.zone
                    && is_same_reservation(open.offering, claim)
            } else {
                open.offering.is_available()
                    && !open.offering.is_reserved()
                    && admits_candidate(world, &claim.requirements, &open.candidate.labels)
            }
        })
        .collect()
}

/// An offering that has no id in the catalogue is found by type and zone alone.
pub(crate) fn is_same_reservation(offering: &Offering, claim: &Claim) -> bool {
    let own_name = format!("{}/{}", claim.offering.instance_type, claim.offering.zone);
    offering.reservation == claim.offering.reservation_id || offering.reservation.as_ref() == Some(&own_name)
}

fn is_planned(claim: &Claim, open: &Open<'_>) -> bool {
    open.instance_type.name == claim.offering.instance_type
        && open.offering.zone == claim.offering.zone
        && open.offering.capacity_type == claim.offering.capacity_type
}

impl ClaimSite<'_> {
    /// Whether a node is what the plan means to launch.
    pub(crate) fn is_planned(&self, open: &Open<'_>) -> bool {
        is_planned(self.claim, open)
    }
}

fn claim_site<'a>(world: &'a World, claim: &'a Claim) -> Site<'a> {
    let pool = world.pool(&claim.node_pool).unwrap_or_default();
    let planned = known_pods(world, &claim.pods);
    let open = open_nodes(world, claim);
    let own = own_labels(world, &claim.node_pool, &pool, &claim.requirements, &mentioned(world, &planned));
    let base = open.iter().find(|o| is_planned(claim, o)).or(open.first()).map(|o| o.candidate.labels.clone());
    let mut named = own.first().cloned().unwrap_or_default();
    named.insert(HOSTNAME.to_owned(), claim.name.clone());
    Site {
        name: &claim.name,
        planned,
        bound: Vec::new(),
        reservations: &claim.reservations,
        allocations: &claim.allocations,
        preempted: &[],
        taints: pool.taints.clone(),
        domains: BTreeMap::new(),
        own: named,
        base: base.unwrap_or_default(),
        kind: Kind::Claim(Box::new(ClaimSite { claim, pool, open, own })),
    }
}

/// Every node and claim, nodes first; and what names nothing.
pub(crate) fn sites<'a>(world: &'a World, plan: &'a Plan) -> (Vec<Site<'a>>, Vec<Violation>) {
    let mut found = Vec::new();
    let used: BTreeMap<&str, &NodeUse> = plan.nodes.iter().map(|n| (n.name.as_str(), n)).collect();
    for name in used.keys().filter(|name| !world.nodes.contains_key(**name)) {
        found.push(Violation::new("node", *name, "the input has no such node"));
    }
    let bound = bound_pods(world);
    let mut sites: Vec<Site<'a>> = Vec::new();
    for (name, node) in &world.nodes {
        let on_node = bound.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        sites.push(node_site(world, name, node, used.get(name.as_str()).copied(), on_node));
    }
    sites.extend(plan.node_claims.iter().map(|claim| claim_site(world, claim)));
    let keys = topology_keys(world);
    for site in &mut sites {
        site.domains = keys.iter().map(|key| (key.clone(), site.read_domain(key))).collect();
    }
    (sites, found)
}
