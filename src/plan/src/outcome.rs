//! The cluster as it will be once the plan is carried out: launched nodes are nodes, and who has a place runs there.

use berth_model::{
    BoundPod, ClassId, Cluster, Cordon, Holding, KeyedMap, Labels, MemberKind, MemberRun, Node, Phase, Reservation,
    ReservationId, Resources, RowId, Sym,
};
use berth_provisioning::{Came, Claims, Taken};

use crate::Plan;
use berth_decisions::{Assignment, PlannedNode, Share};

/// What a plan makes of its cluster, beside what is written into that.
pub(crate) struct Outcome {
    /// How many nodes are there; those of static NodePools that are to be launched follow.
    pub(crate) n_there: usize,
    /// How many nodes exist, those of static NodePools among them; those that are launched follow.
    pub(crate) n_existing: usize,
    /// By launched node: the claims that it is one of.
    pub(crate) claims: Vec<usize>,
    /// What the launched nodes take of shares.
    pub(crate) taken: Vec<Taken>,
}

impl Outcome {
    /// Makes the cluster of a plan what it will be: what is launched is a node, and pending is what has no place. The plan
    /// names nobody any more: who goes where is on the nodes.
    pub(crate) fn of(plan: &mut Plan) -> Self {
        let mut numbers = vec![0_u64; plan.cluster.node_pools.len()];
        let mut names = Vec::new();
        for group in &plan.solution.claims {
            for _ in 0..group.count {
                let number = numbers.get_mut(group.node_pool).map_or(0, |number| {
                    *number += 1;
                    *number
                });
                names.push(format!("{}-{number:05}", plan.pool_name(group.node_pool)));
            }
        }
        let names: Vec<Sym> = names.iter().map(|name| plan.cluster.symbols.intern(name)).collect();
        let taken = Taken::of(&plan.cluster, &plan.universe, &plan.solution);
        let (settled, launched, left) = Self::assigned(plan, &names);
        let Cluster { nodes, node_pools, slots, reservations, pending, .. } = &mut plan.cluster;
        let n_existing = nodes.len();
        for (at, came) in settled {
            if let Some(node) = nodes.get_mut(at) {
                node.free.subtract(&came.requests);
                let freed = came.to(node, reservations);
                node.free.add(&freed);
            }
        }
        let mut claims = Vec::with_capacity(launched.len());
        for (at, mut node, came) in launched {
            came.to(&mut node, reservations);
            let pool = node.node_pool.and_then(|pool| node_pools.get_mut(pool as usize));
            if let Some(pool) = pool {
                pool.used.add(&node.capacity);
                pool.nodes = pool.nodes.saturating_add(1);
            }
            nodes.push(node);
            claims.push(at);
        }
        for (slots, used) in slots.iter_mut().zip(&plan.solution.slots_used) {
            slots.free = slots.free.saturating_sub(*used);
        }
        for row in pending.iter_mut() {
            row.members.clear();
        }
        for (row, member) in left {
            if let Some(row) = pending.get_mut(row.index()) {
                row.members.push(member);
            }
        }
        Outcome { n_there: plan.n_there.min(n_existing), n_existing, claims, taken }
    }

    /// What comes to existing nodes, the nodes that are launched with what comes to them, and who is left, by row.
    #[expect(clippy::type_complexity, reason = "an answer of one place")]
    fn assigned(
        plan: &Plan,
        names: &[Sym],
    ) -> (Vec<(usize, Settled)>, Vec<(usize, Node, Settled)>, Vec<(RowId, MemberRun)>) {
        let assignment = Assignment::new(&plan.cluster, &plan.universe, &plan.solution);
        let held = plan.cluster.reservations_with_ids();
        let mut ids = plan.cluster.keyed_map();
        ids.extend(held.map(|(id, known)| (plan.cluster.symbols.text(known.name), id)));
        let existing = plan.solution.nodes.iter().zip(&assignment.nodes);
        let coming = |shares, copy, place, came| coming(plan, &ids, &assignment, (shares, copy), place, came);
        let settled = existing
            .map(|(entry, shares)| (entry.node, coming(shares, 0, PlannedNode::Node(entry.node), &entry.came[..])))
            .collect();
        let groups = plan.solution.claims.iter().enumerate().zip(&assignment.claims);
        let copies =
            groups.flat_map(|((at, group), shares)| (0..group.count).map(move |copy| (at, group, shares, copy)));
        // Those of static NodePools are among the nodes that pods were bound to.
        let copies = copies.zip(names).filter(|((_, group, ..), _)| !group.contents.is_empty());
        let launched = copies.map(|((at, group, shares, copy), name)| {
            (at, launched(&plan.cluster, group, *name), coming(shares, copy, PlannedNode::Claim(at, copy), &[]))
        });
        let launched = launched.collect();
        let left = assignment.unschedulable.iter().flat_map(|share| assignment.members_with_rows(*share));
        let left = left.map(|(name, row)| (row, MemberRun { name: name.own().into(), numbers: None })).collect();
        (settled, launched, left)
    }
}

/// The node that a claim is launched as, without its pods.
pub(crate) fn launched(cluster: &Cluster, claims: &Claims, name: Sym) -> Node {
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
        open: berth_model::Requirements::new(),
        taints: pool.map(|pool| pool.taints.clone()).unwrap_or_default(),
        free,
        allocatable: room,
        capacity,
        node_pool: u32::try_from(claims.node_pool).ok(),
        attach_limits: Vec::new(),
        volume_pools: Vec::new(),
        cordon: Cordon::None,
        is_coming_up: false,
        is_leaving: false,
        images: Vec::new(),
        holdings: Vec::new(),
        pods: Vec::new(),
        units: berth_model::Units { is_unknown: true, ..berth_model::Units::default() },
    }
}

/// What comes to a node.
#[derive(Default)]
struct Settled {
    /// What all of it requests, of Reservations what they hold.
    requests: Resources,
    pods: Vec<BoundPod>,
    holdings: Vec<Holding>,
    /// Reservations, and how far they have come.
    reservations: Vec<(ReservationId, Phase)>,
    /// What pods draw that were placed by themselves.
    drawn: Vec<(ReservationId, Resources)>,
}

impl Settled {
    /// Comes to a node that its requests are off already; what Reservations do not hold any more, as pods draw it that
    /// were placed by themselves. Claims request that much less already.
    fn to(self, node: &mut Node, reservations: &mut [Reservation]) -> Resources {
        node.pods.extend(self.pods);
        node.holdings.extend(self.holdings);
        let mut freed = Resources::new();
        for (id, requests) in &self.drawn {
            let Some(at) = node.holdings.iter().position(|holding| holding.reservation == *id) else { continue };
            let Some(holding) = node.holdings.get_mut(at) else { continue };
            freed.add(&holding.held());
            holding.draw_in_sum(requests);
            freed.subtract(&holding.held());
            if let Some(known) = reservations.get_mut(id.index()).filter(|known| known.allocate_once) {
                known.phase = Phase::Succeeded;
                freed.add(&node.holdings.remove(at).held());
            }
        }
        for (id, phase) in self.reservations {
            if let Some(known) = reservations.get_mut(id.index()) {
                let is_spent = known.phase == Phase::Succeeded;
                (known.phase, known.node) = (if is_spent { known.phase } else { phase }, Some(node.name));
            }
        }
        freed
    }
}

fn coming(
    plan: &Plan,
    ids: &KeyedMap<&str, ReservationId>,
    assignment: &Assignment<'_>,
    (shares, copy): (&[Share], u32),
    place: PlannedNode,
    known: &[(ClassId, Vec<Came>)],
) -> Settled {
    let mut came = Settled::default();
    for share in shares {
        let Some(class) = plan.universe.class(share.class) else { continue };
        if let Some(spec) = plan.cluster.spec(class.spec) {
            came.requests.add_times(&spec.requests, i64::from(share.count));
        }
        if class.kind == MemberKind::Reservation {
            for member in assignment.members(share.of_node(copy)) {
                if let Some(&id) = ids.get(member.own().as_str()) {
                    came.add_reservation(plan, id);
                }
            }
            continue;
        }
        let mut known = known.iter().filter(|(class, _)| *class == share.class).flat_map(|(_, came)| came);
        for (name, at) in assignment.members_with_rows(share.of_node(copy)) {
            let assigned = known.next().map(|(_, own)| own).filter(|own| !own.is_empty());
            let Some(row) = plan.cluster.row(at) else { continue };
            let draws = plan.allocation.joins(place, name);
            if let Some((id, spec)) = draws.zip(plan.cluster.spec(row.spec)) {
                came.drawn.push((id, spec.requests.clone()));
            }
            let mut pod = BoundPod::planned(row.namespace, name.own().into(), (row.spec, row.labels), draws);
            pod.assigned = assigned.map(|own| Box::new(own.clone()));
            came.pods.push(pod);
        }
    }
    came
}

impl Settled {
    /// A Reservation comes with the pods that go with it.
    fn add_reservation(&mut self, plan: &Plan, id: ReservationId) {
        let Some(known) = plan.cluster.reservation(id) else { return };
        let mut holding = Holding::new(id, known);
        for pod in plan.allocation.bundled_with(id) {
            if let Some(spec) = plan.cluster.spec(pod.spec) {
                holding.draw_in_sum(&spec.requests);
            }
            let own = pod.name.split_once('/').map_or(&*pod.name, |(_, own)| own);
            self.pods.push(BoundPod::planned(pod.namespace, own.into(), (pod.spec, pod.labels), Some(id)));
        }
        if known.allocate_once && holding.owners() > 0 {
            self.reservations.push((id, Phase::Succeeded));
        } else {
            self.reservations.push((id, Phase::Available));
            self.holdings.push(holding);
        }
    }
}
