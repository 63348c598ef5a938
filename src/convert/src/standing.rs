//! The nodes that stand: which of them are capacity, and what is left of each once pods, daemons to come and
//! Reservations have their part.

use std::collections::BTreeMap;

use berth_api::labels::koordinator;
use berth_model::{
    BoundPod, Cluster, Cordon, Holding, Node, NodePool, Phase, PodSpec, Resources, Sym, Symbols, Taint, Units,
    first_untolerated,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::builder::{FxIndexMap, FxIndexSet};
use crate::node::{NodeClaimRecord, NodeRecord};
use crate::pool::PoolRecord;
use crate::reservation::ReservationRecord;
use crate::units::node_policy;
use crate::{in_flight, node_reservation};

/// Nodes while pods are bound to them.
pub(crate) struct Standing {
    nodes: Vec<Node>,
    /// For each node, the DaemonSets that have a pod on it, by position among the cluster's daemons.
    daemons_on: Vec<FxHashSet<usize>>,
    positions: FxHashMap<Sym, usize>,
    deleting: FxHashSet<Sym>,
}

impl Standing {
    /// The nodes that are capacity, initialized ones first, then by name: those of the input and NodeClaims in
    /// flight, without those that are going away.
    pub(crate) fn new(
        records: FxIndexMap<Sym, NodeRecord>,
        claims: &FxIndexMap<Sym, NodeClaimRecord>,
        pools: &FxIndexMap<Sym, PoolRecord>,
        mut attach_limits: FxHashMap<Sym, Vec<(Sym, u32)>>,
        images: &FxHashSet<Sym>,
        cluster: &mut Cluster,
        warnings: &mut FxIndexSet<String>,
    ) -> Self {
        let by_node = claims.values().filter_map(|claim| Some((claim.node_name?, claim)));
        let by_node: FxHashMap<Sym, &NodeClaimRecord> = by_node.collect();
        let by_provider = claims.values().filter_map(|claim| Some((claim.node.provider_id?, claim)));
        let by_provider: FxHashMap<Sym, &NodeClaimRecord> = by_provider.collect();
        let mut matched: FxHashSet<Sym> = FxHashSet::default();
        let mut deleting: FxHashSet<Sym> = FxHashSet::default();
        let mut kept: Vec<(bool, NodeRecord, Option<&NodeClaimRecord>)> = Vec::new();
        for (name, record) in records {
            let by_provider = record.provider_id.and_then(|id| by_provider.get(&id));
            let claim = by_provider.or_else(|| by_node.get(&name)).copied();
            matched.extend(claim.map(|claim| claim.node.name));
            if record.is_deleting || claim.is_some_and(|claim| claim.node.is_deleting) {
                deleting.insert(name);
            } else {
                let is_coming_up = record.is_coming_up(&mut cluster.symbols);
                kept.push((is_coming_up, record, claim));
            }
        }
        let names: FxHashSet<Sym> = kept.iter().map(|(_, record, _)| record.name).collect();
        for (name, claim) in claims {
            let is_taken = matched.contains(name) || deleting.contains(name) || names.contains(name);
            if is_taken || claim.node.is_deleting {
                continue;
            }
            if !claim.is_launched {
                let promised = in_flight::promised(claim.node.clone(), &claim.asked, cluster, warnings);
                kept.extend(promised.map(|record| (true, record, Some(claim))));
                continue;
            }
            kept.push((true, with_type(claim.node.clone(), cluster), Some(claim)));
        }
        kept.sort_by(|(a_coming, a, _), (b_coming, b, _)| {
            let texts = || cluster.symbols.text(a.name).cmp(cluster.symbols.text(b.name));
            a_coming.cmp(b_coming).then_with(texts)
        });
        let pool_label = cluster.well_known.node_pool;
        let mut nodes = Vec::with_capacity(kept.len());
        for (is_coming_up, record, claim) in kept {
            let pool = record.label(pool_label).and_then(|pool| pools.get(&pool));
            let mut free =
                if is_coming_up { with_claimed(&record.allocatable, claim) } else { record.allocatable.clone() };
            node_reservation::trim(&mut free, &record.reserved);
            nodes.push(Node {
                name: record.name,
                labels: record.all_labels(cluster),
                open: record.open.clone(),
                taints: if is_coming_up {
                    record.lasting_taints(startup_taints(claim, pool), &cluster.symbols)
                } else {
                    record.taints.clone()
                },
                allocatable: free.clone(),
                free,
                capacity: record.capacity.clone(),
                cordon: record.cordon,
                is_coming_up,
                images: record.images.iter().filter(|(name, _)| images.contains(name)).copied().collect(),
                node_pool: None,
                attach_limits: attach_limits.remove(&record.name).unwrap_or_default(),
                holdings: Vec::new(),
                units: Units::default(),
                pods: Vec::new(),
            });
        }
        let positions = nodes.iter().enumerate().map(|(i, node)| (node.name, i)).collect();
        Standing { daemons_on: vec![FxHashSet::default(); nodes.len()], nodes, positions, deleting }
    }

    /// Says which CPUs, devices and NUMA nodes the nodes have.
    pub(crate) fn set_units(&mut self, mut units: BTreeMap<Sym, Units>, symbols: &Symbols) {
        let label = symbols.get(koordinator::NUMA_TOPOLOGY_POLICY);
        for node in &mut self.nodes {
            let unknown = || Units { is_unknown: node.is_coming_up, ..Units::default() };
            node.units = units.remove(&node.name).unwrap_or_else(unknown);
            let named = label.and_then(|label| node.labels.get(label)).map(|name| symbols.text(name));
            node.units.policy = node_policy(named, node.units.policy);
        }
    }

    /// Lends it the nodes that it handed to the cluster, or takes them back.
    pub(crate) fn swap_nodes(&mut self, cluster: &mut Cluster) {
        std::mem::swap(&mut self.nodes, &mut cluster.nodes);
    }

    /// The images of its nodes.
    pub(crate) fn images(&self) -> FxHashSet<Sym> {
        self.nodes.iter().flat_map(|node| node.images.iter().map(|(name, _)| *name)).collect()
    }

    /// The position of a node that is capacity.
    pub(crate) fn position(&self, name: Sym) -> Option<usize> {
        self.positions.get(&name).copied()
    }

    /// Whether a node of the input is going away.
    pub(crate) fn is_deleting(&self, name: Sym) -> bool {
        self.deleting.contains(&name)
    }

    /// Whether a node is cordoned.
    pub(crate) fn is_cordoned(&self, position: usize) -> bool {
        self.nodes.get(position).is_some_and(|node| node.cordon != Cordon::None)
    }

    /// Binds a pod, of the DaemonSet at that position if it is of one.
    pub(crate) fn bind(&mut self, position: usize, pod: BoundPod, daemon: Option<usize>, cluster: &Cluster) {
        let Some(node) = self.nodes.get_mut(position) else { return };
        if let Some(spec) = cluster.specs.get(pod.spec as usize) {
            node.free.subtract(&spec.requests);
            let holding = node.holdings.iter_mut().find(|holding| Some(holding.reservation) == pod.draws_from);
            if let Some(holding) = holding {
                holding.draw_in_sum(&spec.requests);
            }
        }
        node.pods.push(pod);
        if let Some(on) = self.daemons_on.get_mut(position) {
            on.extend(daemon);
        }
    }

    /// A pod of a DaemonSet is on its way to the node that it names: no room is kept there for another.
    pub(crate) fn expect_daemon(&mut self, spec: u32, daemon: usize, cluster: &Cluster) {
        let Some(spec) = cluster.specs.get(spec as usize) else { return };
        let named = spec.required_terms.iter().filter_map(|term| term.get(cluster.well_known.field_name)?.single());
        for position in named.filter_map(|name| self.positions.get(&name).copied()) {
            if let Some(on) = self.daemons_on.get_mut(position) {
                on.insert(daemon);
            }
        }
    }

    /// Holds the room of a Reservation on its node, if it has one.
    pub(crate) fn hold(&mut self, id: u32, record: &ReservationRecord) {
        let node = record.reservation.node.filter(|_| record.reservation.phase.holds_room());
        let position = node.and_then(|node| self.position(node));
        if let Some(node) = position.and_then(|position| self.nodes.get_mut(position)) {
            node.holdings.push(Holding::new(id, &record.reservation));
        }
    }

    /// The Reservation on a node that a pod there says it draws from.
    pub(crate) fn drawn_from(
        &self,
        position: usize,
        named: Option<(Sym, Option<Sym>)>,
        cluster: &Cluster,
    ) -> Option<u32> {
        let (name, uid) = named?;
        let holdings = &self.nodes.get(position)?.holdings;
        let is_meant = |holding: &&Holding| {
            let reservation = cluster.reservations.get(holding.reservation as usize);
            // One that was made anew under the same name is another.
            reservation.is_some_and(|r| r.name == name && r.uid.zip(uid).is_none_or(|(mine, theirs)| mine == theirs))
        };
        holdings.iter().find(is_meant).map(|holding| holding.reservation)
    }

    /// Takes what Reservations hold off what is free. Owners that are not in the input count by the Reservation's
    /// status; one for one owner alone that has come holds nothing any more.
    pub(crate) fn settle_holdings(&mut self, records: &[ReservationRecord]) {
        for node in &mut self.nodes {
            for holding in &mut node.holdings {
                let record = records.get(holding.reservation as usize);
                if let Some(record) = record.filter(|_| holding.owners() == 0) {
                    holding.draw_in_sum(&record.allocated);
                }
            }
            node.holdings.retain(|holding| {
                let record = records.get(holding.reservation as usize);
                let is_open = |r: &ReservationRecord| {
                    r.reservation.phase != Phase::Available || !r.reservation.allocate_once || holding.owners() == 0
                };
                record.is_some_and(is_open)
            });
            for holding in &node.holdings {
                node.free.subtract(&holding.held());
            }
        }
    }
}

/// Keeps room for daemons to come, counts what pools use, and hands nodes and pools to the cluster.
pub(crate) fn finish(standing: &mut Standing, mut pools: Vec<NodePool>, cluster: &mut Cluster) {
    for (node, on) in standing.nodes.iter_mut().zip(&standing.daemons_on) {
        for (position, daemon) in cluster.daemons.iter().enumerate() {
            let spec = cluster.specs.get(daemon.spec as usize);
            if let Some(spec) = spec.filter(|_| !on.contains(&position))
                && runs_on(spec, node, &cluster.symbols)
            {
                node.free.subtract(&spec.requests);
            }
        }
        let pool = node.labels.get(cluster.well_known.node_pool);
        let position = pool.and_then(|name| pools.iter().position(|pool| pool.name == name));
        if let Some((position, pool)) = position.and_then(|i| Some((i, pools.get_mut(i)?))) {
            pool.used.add(&node.capacity);
            pool.nodes += 1;
            node.node_pool = u32::try_from(position).ok();
        }
    }
    cluster.nodes = std::mem::take(&mut standing.nodes);
    cluster.node_pools = pools;
}

/// Whether a DaemonSet would run on the node.
fn runs_on(spec: &PodSpec, node: &Node, symbols: &Symbols) -> bool {
    let label = |key| node.labels.get(key);
    let terms = &spec.required_terms;
    node.may_satisfy(&spec.node_selector, symbols, label)
        && (terms.is_empty() || terms.iter().any(|term| node.may_satisfy(term, symbols, label)))
        && first_untolerated(&node.taints, &spec.tolerations, false, symbols).is_none()
}

fn startup_taints<'a>(claim: Option<&'a NodeClaimRecord>, pool: Option<&'a PoolRecord>) -> &'a [Taint] {
    let of_claim = claim.map(|claim| claim.startup_taints.as_slice());
    of_claim.or(pool.map(|pool| pool.startup_taints.as_slice())).unwrap_or_default()
}

/// What a node that comes up does not report yet its NodeClaim promises: devices appear last.
fn with_claimed(allocatable: &Resources, claim: Option<&NodeClaimRecord>) -> Resources {
    let mut all = allocatable.clone();
    for (id, amount) in claim.into_iter().flat_map(|claim| claim.node.allocatable.iter()) {
        if all.get(id) == 0 {
            all.set(id, amount);
        }
    }
    all
}

/// A NodeClaim in flight that does not say what it will have is what its type has in the catalogue.
fn with_type(mut record: NodeRecord, cluster: &Cluster) -> NodeRecord {
    let named = record.label(cluster.well_known.instance_type);
    let found = cluster.instance_types.iter().find(|known| Some(known.name) == named);
    if let Some(found) = found.filter(|_| record.allocatable == Resources::new()) {
        record.allocatable = found.resources.clone();
    }
    if record.capacity == Resources::new() {
        record.capacity = record.allocatable.clone();
    }
    record
}
