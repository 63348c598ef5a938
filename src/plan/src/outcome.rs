//! The cluster as it will be once the plan is carried out: launched nodes are nodes, and who has a place runs there.

use berth_model::{
    BoundPod, Cluster, Cordon, Holding, Labels, MemberKind, MemberRun, Node, Phase, Reservation, Resources, Sym,
};
use berth_provisioning::{Claims, Taken};
use rustc_hash::FxHashMap;

use crate::Plan;
use crate::deal::{Deal, Share};

/// The cluster that a plan makes.
pub(crate) struct Outcome {
    /// Nodes that exist come first, then those that are launched; pending is what has no place.
    pub(crate) cluster: Cluster,
    /// How many nodes exist.
    pub(crate) n_existing: usize,
    /// By launched node: the claims that it is one of.
    pub(crate) claims: Vec<usize>,
    /// What the launched nodes take of shares.
    pub(crate) taken: Vec<Taken>,
}

impl Outcome {
    /// The cluster of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut cluster = plan.cluster.clone();
        let n_existing = cluster.nodes.len();
        let deal = Deal::new(&plan.cluster, &plan.universe, &plan.solution);
        let named = (0_u32..).zip(&plan.cluster.reservations);
        let ids = named.map(|(id, known)| (plan.cluster.symbols.text(known.name), id)).collect();
        for row in &mut cluster.pending {
            row.members.clear();
        }
        for (entry, shares) in plan.solution.nodes.iter().zip(&deal.nodes) {
            if let Some(node) = cluster.nodes.get_mut(entry.node) {
                settle(plan, &deal, shares, 0, node, true);
                hold(plan, &ids, &deal, shares, 0, node, &mut cluster.reservations);
            }
        }
        let mut claims = Vec::new();
        let mut numbers = vec![0_u64; plan.cluster.node_pools.len()];
        for (at, (group, shares)) in plan.solution.claims.iter().zip(&deal.claims).enumerate() {
            for copy in 0..group.count {
                let number = numbers.get_mut(group.node_pool).map_or(0, |number| {
                    *number += 1;
                    *number
                });
                let name = cluster.symbols.intern(&format!("{}-{number:05}", plan.pool_name(group.node_pool)));
                let mut node = launched(&cluster, group, name);
                settle(plan, &deal, shares, copy, &mut node, false);
                hold(plan, &ids, &deal, shares, copy, &mut node, &mut cluster.reservations);
                if let Some(pool) = cluster.node_pools.get_mut(group.node_pool) {
                    pool.used.add(&node.capacity);
                    pool.nodes = pool.nodes.saturating_add(1);
                }
                cluster.nodes.push(node);
                claims.push(at);
            }
        }
        for (slots, used) in cluster.slots.iter_mut().zip(&plan.solution.slots_used) {
            slots.free = slots.free.saturating_sub(*used);
        }
        for share in &deal.unschedulable {
            for (name, at) in deal.members_with_rows(*share) {
                let Some(row) = cluster.pending.get_mut(at as usize) else { continue };
                row.members.push(MemberRun { name: name.own().into(), numbers: None });
            }
        }
        let taken = Taken::of(&plan.cluster, &plan.universe, &plan.solution);
        Outcome { cluster, n_existing, claims, taken }
    }
}

/// The node that a claim is launched as, without its pods.
fn launched(cluster: &Cluster, claims: &Claims, name: Sym) -> Node {
    let known = &cluster.well_known;
    let pool = cluster.node_pools.get(claims.node_pool);
    let of_type = cluster.instance_types.get(claims.instance_type as usize);
    let offering = of_type.and_then(|of_type| {
        of_type.offerings.iter().find(|offering| {
            (offering.zone, offering.capacity_type, offering.slots) == (claims.zone, claims.capacity_type, claims.slots)
        })
    });
    let decided = claims.requirements.iter().filter_map(|(key, asked)| Some((key, asked.single()?)));
    let mut labels: Vec<(Sym, Sym)> = of_type.into_iter().flat_map(|of_type| of_type.labels.iter()).collect();
    labels.extend(offering.into_iter().flat_map(|offering| offering.labels.iter()));
    labels.extend(of_type.map(|of_type| (known.instance_type, of_type.name)));
    labels.extend(decided);
    labels.extend(pool.map(|pool| (known.node_pool, pool.name)));
    labels.extend([(known.hostname, name), (known.field_name, name)]);
    let mut room = of_type.map(|of_type| of_type.resources.clone()).unwrap_or_default();
    let capacity = room.clone();
    if let Some(pool) = pool {
        room.subtract(&pool.reserved);
    }
    let mut free = room.clone();
    free.subtract(&claims.requests);
    Node {
        name,
        labels: Labels::new(labels),
        taints: pool.map(|pool| pool.taints.clone()).unwrap_or_default(),
        free,
        allocatable: room,
        capacity,
        node_pool: u32::try_from(claims.node_pool).ok(),
        attach_limits: Vec::new(),
        cordon: Cordon::None,
        is_coming_up: false,
        images: Vec::new(),
        holdings: Vec::new(),
        pods: Vec::new(),
        units: berth_model::Units::default(),
    }
}

/// Pods come to a node; `takes` where their requests are not off its room yet.
fn settle(plan: &Plan, deal: &Deal<'_>, shares: &[Share], copy: u32, node: &mut Node, takes: bool) {
    for share in shares {
        let Some(class) = plan.universe.class(share.class) else { continue };
        let requests = plan.cluster.specs.get(class.spec as usize).map_or_else(Resources::new, |s| s.requests.clone());
        if takes {
            node.free.add_times(&requests, -i64::from(share.count));
        }
        if class.kind == MemberKind::Reservation {
            continue;
        }
        for (name, at) in deal.members_with_rows(share.of_node(copy)) {
            let Some(row) = plan.cluster.pending.get(at as usize) else { continue };
            node.pods.push(BoundPod {
                namespace: row.namespace,
                name: name.own().into(),
                spec: row.spec,
                labels: row.labels,
                started: i64::MAX,
                draws_from: None,
                candidate: None,
                assigned: None,
            });
        }
    }
}

/// Reservations come to a node with the pods that go with them; their room is off the node's already.
fn hold(
    plan: &Plan,
    ids: &FxHashMap<&str, u32>,
    deal: &Deal<'_>,
    shares: &[Share],
    copy: u32,
    node: &mut Node,
    reservations: &mut [Reservation],
) {
    for share in shares.iter().filter(|share| deal.kind(**share) == MemberKind::Reservation) {
        for member in deal.members(share.of_node(copy)) {
            let Some(&id) = ids.get(member.own().as_str()) else { continue };
            let Some(known) = reservations.get_mut(id as usize) else { continue };
            known.phase = Phase::Available;
            known.node = Some(node.name);
            let mut holding = Holding::new(id, known);
            for pod in plan.drawing.bundled_with(id) {
                if let Some(spec) = plan.cluster.specs.get(pod.spec as usize) {
                    holding.draw_in_sum(&spec.requests);
                }
                let own = pod.name.split_once('/').map_or(&*pod.name, |(_, own)| own);
                node.pods.push(BoundPod {
                    namespace: pod.namespace,
                    name: own.into(),
                    spec: pod.spec,
                    labels: pod.labels,
                    started: i64::MAX,
                    draws_from: Some(id),
                    candidate: None,
                    assigned: None,
                });
            }
            if known.allocate_once && holding.owners() > 0 {
                known.phase = Phase::Succeeded;
            } else {
                node.holdings.push(holding);
            }
        }
    }
}
