//! The nodes that stand: which of them are capacity, and what is left of each once pods, daemons to come and
//! Reservations have their part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{
    BoundPod, Cluster, Cordon, Effect, Holding, Node, NodePool, Phase, PodSpec, ReservationId, SlotId, SpecId, Sym,
    Symbols, Taint, Units, first_untolerated,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::capacity::{Links, Site, with_type};
use crate::in_flight;
use crate::maps::{FxIndexMap, Texts};
use crate::node_record::{NodeClaimRecord, NodeRecord};
use crate::pod_record::PodRecord;
use crate::reservation::ReservationRecord;

/// By node that goes away: the pods that nothing lets leave it, by namespace and name.
pub type StayingPods = BTreeMap<Box<str>, BTreeSet<(Box<str>, Box<str>)>>;

/// The same with the names of a cluster.
pub(crate) type Staying = FxHashMap<Sym, BTreeSet<(Sym, Arc<str>)>>;

/// The same by the names' symbols.
pub(crate) fn staying(pods: &StayingPods, symbols: &mut Symbols) -> Staying {
    let mut staying = Staying::default();
    for (node, pods) in pods {
        let pods = pods.iter().map(|(namespace, name)| (symbols.intern(namespace), Arc::from(&**name)));
        let pods = pods.collect();
        staying.insert(symbols.intern(node), pods);
    }
    staying
}

/// Nodes while pods are bound to them.
#[derive(Clone, Default)]
pub(crate) struct ExistingNodes {
    nodes: Vec<Node>,
    /// For each node, the DaemonSets with pods on it or on their way there, by position among the cluster's daemons, and
    /// how many.
    daemons_on: Vec<BTreeMap<usize, u32>>,
    positions: FxHashMap<Sym, usize>,
    deleting: FxHashSet<Sym>,
    /// By node that is going away: the pods that stay there.
    pub(crate) staying: Staying,
    /// The supplies of which NodeClaims that are not launched take an instance.
    pub(crate) taken: FxHashMap<Sym, SlotId>,
}

/// What nodes are made of beside their records.
pub(crate) struct Parts {
    pub(crate) attach_limits: FxHashMap<Sym, Vec<(Sym, u32)>>,
    pub(crate) units: BTreeMap<Sym, Units>,
    pub(crate) staying: Staying,
}

impl ExistingNodes {
    /// The nodes that are capacity, initialized ones first, then by name: those of the input and NodeClaims in
    /// flight, without those that are going away; of these, the ones that pods stay on come last.
    pub(crate) fn new(
        records: &FxIndexMap<Sym, NodeRecord>,
        claims: &FxIndexMap<Sym, NodeClaimRecord>,
        links: &Links,
        site: &Site<'_>,
        Parts { mut attach_limits, mut units, staying }: Parts,
        cluster: &mut Cluster,
        warnings: &mut Texts,
    ) -> Self {
        let mut existing = ExistingNodes { staying, ..ExistingNodes::default() };
        let mut kept: Vec<(bool, NodeRecord, Option<&NodeClaimRecord>)> = Vec::new();
        let mut left: Vec<&NodeRecord> = Vec::new();
        for (name, record) in records {
            let claim = links.claim_of(*name, &cluster.symbols).and_then(|claim| claims.get(&claim));
            if record.is_deleting || claim.is_some_and(|claim| claim.node.is_deleting) {
                existing.deleting.insert(*name);
                left.extend(existing.staying.contains_key(name).then_some(record));
            } else {
                let is_coming_up = record.is_coming_up(&mut cluster.symbols);
                kept.push((is_coming_up, record.clone(), claim));
            }
        }
        for (name, claim) in claims {
            if links.has_node(*name, &cluster.symbols) || claim.node.is_deleting {
                continue;
            }
            if claim.is_launched {
                kept.push((true, with_type(claim.node.clone(), cluster), Some(claim)));
                continue;
            }
            let Some((record, slot)) = in_flight::promised(claim.node.clone(), &claim.asked, cluster, warnings) else {
                continue;
            };
            kept.push((true, record, Some(claim)));
            if let Some((slot, supply)) = slot.and_then(|slot| Some((slot, cluster.slots.get_mut(slot.index())?))) {
                if supply.free == 0 {
                    let (name, id) = (cluster.symbols.text(*name), cluster.symbols.text(supply.id));
                    warnings
                        .insert(format!("NodeClaim {name}: not launched yet, and {id} has no instance left for it"));
                }
                supply.free = supply.free.saturating_sub(1);
                existing.taken.insert(*name, slot);
            }
        }
        kept.sort_by(|(a_coming, a, _), (b_coming, b, _)| {
            let texts = || cluster.symbols.text(a.name).cmp(cluster.symbols.text(b.name));
            a_coming.cmp(b_coming).then_with(texts)
        });
        for (is_coming_up, record, claim) in kept {
            let limits = attach_limits.remove(&record.name).unwrap_or_default();
            let units = units.remove(&record.name);
            existing.nodes.push(site.node(&record, is_coming_up, claim, limits, units, cluster));
        }
        left.sort_by(|a, b| cluster.symbols.text(a.name).cmp(cluster.symbols.text(b.name)));
        for record in left {
            let limits = attach_limits.remove(&record.name).unwrap_or_default();
            let units = units.remove(&record.name);
            existing.nodes.push(site.leaving_node(record, limits, units, cluster));
        }
        existing.positions = existing.nodes.iter().enumerate().map(|(i, node)| (node.name, i)).collect();
        existing.daemons_on = vec![BTreeMap::new(); existing.nodes.len()];
        existing
    }

    /// A node comes last among the cluster's; its position.
    pub(crate) fn push(&mut self, node: Node, cluster: &mut Cluster) -> usize {
        let at = cluster.nodes.len();
        self.positions.insert(node.name, at);
        self.daemons_on.push(BTreeMap::new());
        cluster.nodes.push(node);
        at
    }

    /// A node goes from the cluster's; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, at: usize, cluster: &mut Cluster) -> Option<Node> {
        if at >= cluster.nodes.len() || at >= self.daemons_on.len() {
            return None;
        }
        let node = cluster.nodes.swap_remove(at);
        self.daemons_on.swap_remove(at);
        self.positions.remove(&node.name);
        if let Some(moved) = cluster.nodes.get(at) {
            self.positions.insert(moved.name, at);
        }
        Some(node)
    }

    /// A node of the input is going away, or is not.
    pub(crate) fn set_deleting(&mut self, name: Sym, is_deleting: bool) {
        if is_deleting {
            self.deleting.insert(name);
        } else {
            self.deleting.remove(&name);
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

    /// One more or one less of a DaemonSet's pods is on a node, or on its way there. Whether room was kept for one before,
    /// and is not now, or the other way round.
    pub(crate) fn count_daemon(&mut self, position: usize, daemon: usize, comes: bool) -> bool {
        let Some(on) = self.daemons_on.get_mut(position) else { return false };
        let count = on.entry(daemon).or_default();
        let before = *count;
        *count = if comes { before.saturating_add(1) } else { before.saturating_sub(1) };
        let after = *count;
        if after == 0 {
            on.remove(&daemon);
        }
        (before == 0) != (after == 0)
    }

    /// No DaemonSet has pods anywhere, until they are counted again.
    pub(crate) fn forget_daemons(&mut self) {
        self.daemons_on.iter_mut().for_each(BTreeMap::clear);
    }

    /// What is left of one of the cluster's nodes, from what it has and what is on it.
    pub(crate) fn settle_room(&self, position: usize, cluster: &mut Cluster) {
        let Cluster { nodes, specs, daemons, symbols, .. } = cluster;
        let (Some(node), Some(on)) = (nodes.get_mut(position), self.daemons_on.get(position)) else { return };
        let mut free = node.allocatable.clone();
        for spec in node.pods.iter().filter_map(|pod| specs.get(pod.spec.index())) {
            free.subtract(&spec.requests);
        }
        for holding in &node.holdings {
            free.subtract(&holding.held());
        }
        for (_, daemon) in daemons.iter().enumerate().filter(|(at, _)| !node.is_leaving && !on.contains_key(at)) {
            if let Some(spec) = specs.get(daemon.spec.index()).filter(|spec| runs_on(spec, node, symbols)) {
                free.subtract(&spec.requests);
            }
        }
        node.free = free;
    }

    /// The node at a position.
    pub(crate) fn node(&self, position: usize) -> Option<&Node> {
        self.nodes.get(position)
    }

    /// The position of a node that is capacity, or of one that is going away and that pods stay on.
    pub(crate) fn position(&self, name: Sym) -> Option<usize> {
        self.positions.get(&name).copied()
    }

    /// The position of a node that is capacity.
    pub(crate) fn standing(&self, name: Sym) -> Option<usize> {
        self.position(name).filter(|_| !self.is_deleting(name))
    }

    /// The position of the node that a pod runs on, where it counts there.
    pub(crate) fn position_under(&self, pod: &PodRecord, node: Sym) -> Option<usize> {
        let stays = || {
            let staying = self.staying.get(&node);
            // What a pod that is a Reservation holds goes with its node.
            staying.is_some_and(|pods| pods.contains(&(pod.namespace, Arc::clone(&pod.name))))
                && pod.operating.is_none()
                && !pod.is_terminating()
        };
        self.position(node).filter(|_| !self.is_deleting(node) || stays())
    }

    /// Whether pods stay on a node that is going away.
    pub(crate) fn has_staying(&self, node: Sym) -> bool {
        self.staying.contains_key(&node)
    }

    /// The nodes on which others stay than now, in no order.
    pub(crate) fn others_stay_on(&self, staying: &Staying) -> Vec<Sym> {
        let others = staying.iter().filter(|(node, pods)| self.staying.get(node) != Some(pods)).map(|(node, _)| *node);
        others.chain(self.staying.keys().filter(|node| !staying.contains_key(node)).copied()).collect()
    }

    /// Whether a node of the input is going away.
    pub(crate) fn is_deleting(&self, name: Sym) -> bool {
        self.deleting.contains(&name)
    }

    /// The nodes of the input that are going away, in no order.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = Sym> + '_ {
        self.deleting.iter().copied()
    }

    /// Whether a node is cordoned.
    pub(crate) fn is_cordoned(&self, position: usize) -> bool {
        self.nodes.get(position).is_some_and(|node| node.cordon != Cordon::None)
    }

    /// Binds a pod, of the DaemonSet at that position if it is of one.
    pub(crate) fn bind(&mut self, position: usize, pod: BoundPod, daemon: Option<usize>, cluster: &Cluster) {
        let Some(node) = self.nodes.get_mut(position) else { return };
        if let Some(spec) = cluster.spec(pod.spec) {
            node.free.subtract(&spec.requests);
            let holding = node.holdings.iter_mut().find(|holding| Some(holding.reservation) == pod.draws_from);
            if let Some(holding) = holding {
                holding.draw_in_sum(&spec.requests);
            }
        }
        node.pods.push(pod);
        if let Some(daemon) = daemon {
            self.count_daemon(position, daemon, true);
        }
    }

    /// The nodes that a pod of a DaemonSet is on its way to, as it names them.
    pub(crate) fn expected_on(&self, spec: SpecId, cluster: &Cluster) -> Vec<usize> {
        let Some(spec) = cluster.spec(spec) else { return Vec::new() };
        let named = spec.required_terms.iter().filter_map(|term| term.get(cluster.well_known.field_name)?.single());
        named.filter_map(|name| self.standing(name)).collect()
    }

    /// A pod of a DaemonSet is on its way to the node that it names: no room is kept there for another.
    pub(crate) fn expect_daemon(&mut self, spec: SpecId, daemon: usize, cluster: &Cluster) {
        for position in self.expected_on(spec, cluster) {
            self.count_daemon(position, daemon, true);
        }
    }

    /// Holds the room of a Reservation on its node, if it has one.
    pub(crate) fn hold(&mut self, id: ReservationId, record: &ReservationRecord) {
        let node = record.reservation.node.filter(|_| record.reservation.phase.holds_room());
        let position = node.and_then(|node| self.standing(node));
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
    ) -> Option<ReservationId> {
        drawn_from(&self.nodes.get(position)?.holdings, named, cluster)
    }

    /// Takes what Reservations hold off what is free.
    pub(crate) fn settle_holdings(&mut self, records: &[ReservationRecord]) {
        for node in &mut self.nodes {
            settle_holdings(&mut node.holdings, |id| records.get(id.index()));
            for holding in &node.holdings {
                node.free.subtract(&holding.held());
            }
        }
    }
}

/// Of the Reservations on a node the one of that name, and uid where it is known.
pub(crate) fn drawn_from(
    holdings: &[Holding],
    named: Option<(Sym, Option<Sym>)>,
    cluster: &Cluster,
) -> Option<ReservationId> {
    let (name, uid) = named?;
    let is_meant = |holding: &&Holding| {
        let reservation = cluster.reservation(holding.reservation);
        // One that was made anew under the same name is another.
        reservation.is_some_and(|r| r.name == name && r.uid.zip(uid).is_none_or(|(mine, theirs)| mine == theirs))
    };
    holdings.iter().find(is_meant).map(|holding| holding.reservation)
}

/// Owners that are not in the input count by the Reservation's status; one for one owner alone that has come holds nothing
/// any more.
pub(crate) fn settle_holdings<'r>(
    holdings: &mut Vec<Holding>,
    record_of: impl Fn(ReservationId) -> Option<&'r ReservationRecord>,
) {
    for holding in &mut *holdings {
        if let Some(record) = record_of(holding.reservation).filter(|_| holding.owners() == 0) {
            holding.draw_in_sum(&record.allocated);
        }
    }
    holdings.retain(|holding| {
        let is_open = |r: &ReservationRecord| {
            r.reservation.phase != Phase::Available || !r.reservation.allocate_once || holding.owners() == 0
        };
        record_of(holding.reservation).is_some_and(is_open)
    });
}

/// Keeps room for daemons to come, counts what pools use, and hands nodes and pools to the cluster. Daemons beyond the
/// first `n_given` are known by their pods alone: where none runs, none is to come. Where `is_planned`, no room is kept for
/// those that have none: returned are the node and the daemon's position, by node.
pub(crate) fn finish(
    existing: &mut ExistingNodes,
    (n_given, is_planned): (usize, bool),
    mut pools: Vec<NodePool>,
    cluster: &mut Cluster,
) -> Vec<(Sym, usize)> {
    let mut without_room = Vec::new();
    for (node, on) in existing.nodes.iter_mut().zip(&existing.daemons_on) {
        if node.is_leaving {
            node.pods.shrink_to_fit();
            continue;
        }
        for (position, daemon) in cluster.daemons.iter().enumerate().take(n_given) {
            let spec = cluster.spec(daemon.spec);
            let Some(spec) = spec.filter(|_| !on.contains_key(&position)) else { continue };
            if !runs_on(spec, node, &cluster.symbols) {
                continue;
            }
            if is_planned && !spec.requests.fits(&node.free) {
                without_room.push((node.name, position));
            } else {
                node.free.subtract(&spec.requests);
            }
        }
        join_pool(node, &mut pools, cluster.well_known.node_pool);
        // They came one by one; as many as there are seldom change.
        node.pods.shrink_to_fit();
    }
    cluster.nodes = std::mem::take(&mut existing.nodes);
    cluster.node_pools = pools.into();
    without_room
}

/// Whether a DaemonSet would run on the node.
pub(crate) fn runs_on(spec: &PodSpec, node: &Node, symbols: &Symbols) -> bool {
    selects(spec, node, symbols) && first_untolerated(&node.taints, &spec.tolerations, false, symbols).is_none()
}

/// Whether a DaemonSet leaves a pod on the node that runs there.
pub(crate) fn keeps_on(spec: &PodSpec, node: &Node, symbols: &Symbols) -> bool {
    let mut evicting = node.taints.iter().filter(|taint| taint.effect == Effect::NoExecute);
    let tolerates = |taint: &Taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, symbols));
    selects(spec, node, symbols) && evicting.all(tolerates)
}

fn selects(spec: &PodSpec, node: &Node, symbols: &Symbols) -> bool {
    let label = |key| node.labels.get(key);
    let terms = &spec.required_terms;
    node.may_satisfy(&spec.node_selector, symbols, label)
        && (terms.is_empty() || terms.iter().any(|term| node.may_satisfy(term, symbols, label)))
}

/// A node counts against its pool's limits.
pub(crate) fn join_pool(node: &mut Node, pools: &mut [NodePool], label: Sym) {
    let pool = node.labels.get(label).filter(|_| !node.is_leaving);
    let position = pool.and_then(|name| pools.iter().position(|pool| pool.name == name));
    if let Some((position, pool)) = position.and_then(|i| Some((i, pools.get_mut(i)?))) {
        pool.used.add(&node.capacity);
        pool.nodes += 1;
        node.node_pool = u32::try_from(position).ok();
    }
}

/// A node counts no more against its pool's limits.
pub(crate) fn leave_pool(node: &mut Node, pools: &mut [NodePool]) {
    let pool = node.node_pool.take().and_then(|at| pools.get_mut(at as usize));
    if let Some(pool) = pool {
        pool.used.subtract(&node.capacity);
        pool.nodes = pool.nodes.saturating_sub(1);
    }
}
