//! Which Reservations owners draw from on the nodes of a solution, as the scheduler would let them: those that were placed
//! with a Reservation and find another beside it, and those that were placed by themselves and come to the node of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{
    ClassId, Cluster, Holding, KeyedMap, Labels, MemberKind, NodeRoom, PodSpec, ReservationId, Resources, Room,
    Universe,
};
use berth_provisioning::{Came, Claims, Solution};
use berth_scheduling::reservation::{Bundled, Draws, draws_from};

use crate::assignment::{Assignment, Share};

/// A node of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlannedNode {
    /// A node that exists, by index.
    Node(usize),
    /// A node of an entry of the solution's claims.
    Claim(usize, u32),
}

/// By node: pods that draw, and the Reservation of each.
pub(crate) type Joined = BTreeMap<PlannedNode, Vec<(Box<str>, ReservationId)>>;

/// Who draws on nodes that the solution fills. What they draw is held no more: claims request less.
pub(crate) fn join(cluster: &Cluster, universe: &Universe, bundled: &mut Draws, solution: &mut Solution) -> Joined {
    let mut joined = Joined::new();
    if cluster.reservations.is_empty() {
        return joined;
    }
    let assignment = Assignment::new(cluster, universe, solution);
    let mut ids = cluster.keyed_map();
    ids.extend(cluster.reservations_with_ids().map(|(id, known)| (cluster.symbols.text(known.name), id)));
    let site = Site { cluster, universe, assignment: &assignment, ids };
    let chosen = site.choose_all(bundled, solution);
    for (entry, shares) in solution.nodes.iter().zip(&assignment.nodes) {
        let Some(node) = cluster.nodes.get(entry.node).filter(|_| site.has_owners(shares)) else { continue };
        let mut room = NodeRoom::of_node(node);
        site.hold(shares, 0, bundled, &mut room);
        let drawn = joined.entry(PlannedNode::Node(entry.node)).or_default();
        site.draw((shares, 0), &entry.came, &node.labels, &mut room, drawn);
    }
    let mut released: Vec<Resources> = Vec::new();
    for (at, (claims, shares)) in solution.claims.iter().zip(&assignment.claims).enumerate() {
        let mut of_one = Resources::new();
        if site.has_owners(shares) && shares.iter().any(|share| assignment.kind(*share) == MemberKind::Reservation) {
            for copy in 0..claims.count {
                let mut room = NodeRoom::new(site.room(claims, shares));
                site.hold(shares, copy, bundled, &mut room);
                let drawn = joined.entry(PlannedNode::Claim(at, copy)).or_default();
                of_one = site.draw((shares, copy), &[], &Labels::default(), &mut room, drawn);
            }
        }
        released.push(of_one);
    }
    for (claims, (joined, chosen)) in solution.claims.iter_mut().zip(released.iter().zip(&chosen)) {
        claims.requests.subtract(joined);
        claims.requests.subtract(chosen);
    }
    joined.retain(|_, drawn| !drawn.is_empty());
    joined
}

struct Site<'a> {
    cluster: &'a Cluster,
    universe: &'a Universe,
    assignment: &'a Assignment<'a>,
    /// Reservations by name.
    ids: KeyedMap<&'a str, ReservationId>,
}

impl Site<'_> {
    fn spec(&self, class: ClassId) -> Option<&PodSpec> {
        self.cluster.spec(self.universe.class(class)?.spec)
    }

    fn has_owners(&self, shares: &[Share]) -> bool {
        let is_owner = |spec: &PodSpec| !spec.reservation.owner_of.is_empty();
        let mut pods = shares.iter().filter(|share| self.assignment.kind(**share) == MemberKind::Pod);
        pods.any(|share| self.spec(share.class).is_some_and(is_owner))
    }

    // What a launched node has for its pods and Reservations, the owners that Reservations were launched with aside.
    fn room(&self, claims: &Claims, shares: &[Share]) -> Resources {
        let mut room = self.room_of_all(claims, shares);
        for share in shares {
            if let Some(spec) = self.spec(share.class) {
                room.add_times(&spec.reservation.owners_request, -i64::from(share.count));
            }
        }
        room
    }

    // What a launched node has for its pods and Reservations.
    fn room_of_all(&self, claims: &Claims, shares: &[Share]) -> Resources {
        let of_type = self.cluster.instance_types.get(claims.instance_type as usize);
        let mut room = of_type.map(|of_type| of_type.resources.clone()).unwrap_or_default();
        if let Some(pool) = self.cluster.node_pools.get(claims.node_pool) {
            room.subtract(&pool.reserved);
        }
        room.subtract(&claims.requests);
        for share in shares {
            if let Some(spec) = self.spec(share.class) {
                room.add_times(&spec.requests, i64::from(share.count));
            }
        }
        room
    }

    // The Reservations that come to a node.
    fn reservations(&self, shares: &[Share], copy: u32) -> Vec<ReservationId> {
        let shares = shares.iter().filter(|share| self.assignment.kind(**share) == MemberKind::Reservation);
        let members = shares.flat_map(|share| self.assignment.members(share.of_node(copy)));
        members.filter_map(|member| self.ids.get(member.to_string().as_str()).copied()).collect()
    }

    fn hold(&self, shares: &[Share], copy: u32, bundled: &Draws, room: &mut NodeRoom) {
        for id in self.reservations(shares, copy) {
            let holding = self.holding(id, bundled.with.get(&id).map_or(&[][..], Vec::as_slice));
            if let Some(holding) = holding {
                room.hold(holding);
            }
        }
    }

    // What a Reservation holds with these owners.
    fn holding(&self, id: ReservationId, owners: &[Bundled]) -> Option<Holding> {
        let mut holding = Holding::new(id, self.cluster.reservation(id)?);
        for spec in owners.iter().filter_map(|owner| self.cluster.spec(owner.spec)) {
            holding.draw_in_sum(&spec.requests);
        }
        Some(holding)
    }

    // Lets the owners that came with a Reservation choose again where others are beside it; by entry of the claims, what
    // is held no more.
    fn choose_all(&self, bundled: &mut Draws, solution: &Solution) -> Vec<Resources> {
        let entries = solution.claims.iter().zip(&self.assignment.claims);
        let released = entries.map(|(claims, shares)| {
            let mut of_one = Resources::new();
            let n_reservations: u32 = shares
                .iter()
                .filter(|share| self.assignment.kind(**share) == MemberKind::Reservation)
                .fold(0, |sum, share| sum.saturating_add(share.count));
            if n_reservations > 1 && !bundled.is_empty() {
                for copy in 0..claims.count {
                    of_one = self.choose(claims, shares, copy, bundled).unwrap_or_default();
                }
            }
            of_one
        });
        released.collect()
    }

    // `None`, and nothing changes, where they would choose as they have, or not all would draw.
    fn choose(&self, claims: &Claims, shares: &[Share], copy: u32, bundled: &mut Draws) -> Option<Resources> {
        let ids = self.reservations(shares, copy);
        let mut owners: Vec<(ReservationId, Bundled)> = Vec::new();
        for &id in &ids {
            owners.extend(bundled.with.get(&id).into_iter().flatten().map(|owner| (id, owner.clone())));
        }
        let priority = |owner: &Bundled| self.cluster.spec(owner.spec).map_or(0, |spec| spec.priority);
        owners.sort_by_key(|(_, owner)| Reverse(priority(owner)));
        let mut room = NodeRoom::new(self.room_of_all(claims, shares));
        ids.iter().filter_map(|&id| self.holding(id, &[])).for_each(|holding| room.hold(holding));
        let mut with: BTreeMap<ReservationId, Vec<Bundled>> = BTreeMap::new();
        let mut changes = false;
        for (before, owner) in owners {
            let spec = self.cluster.spec(owner.spec)?;
            let id = draws_from(self.cluster, &Labels::default(), Room::from(&room), spec)?;
            room.add_pod(&spec.requests, Some(id));
            if self.is_for_one(id) {
                room.release(id);
            }
            changes |= id != before;
            with.entry(id).or_default().push(owner);
        }
        let mut others = Resources::new();
        for share in shares.iter().filter(|share| self.assignment.kind(**share) == MemberKind::Pod) {
            others.add_times(&self.spec(share.class)?.requests, i64::from(share.count));
        }
        if !changes || !others.fits(room.free()) {
            return None;
        }
        let held = |id: ReservationId, owners: &[Bundled]| {
            let is_spent = !owners.is_empty() && self.is_for_one(id);
            let holding = self.holding(id, owners).filter(|_| !is_spent);
            holding.map(|holding| holding.held()).unwrap_or_default()
        };
        let mut released = Resources::new();
        for id in ids {
            let now = with.remove(&id).unwrap_or_default();
            released.subtract(&held(id, &now));
            released.add(&held(id, &bundled.with.remove(&id).unwrap_or_default()));
            if !now.is_empty() {
                bundled.with.insert(id, now);
            }
        }
        Some(released)
    }

    fn is_for_one(&self, reservation: ReservationId) -> bool {
        self.cluster.reservation(reservation).is_some_and(|known| known.allocate_once)
    }

    // Lets pods draw in the order in which they were placed, those that drew when they came as they did; what Reservations
    // do not hold any more.
    fn draw(
        &self,
        (shares, copy): (&[Share], u32),
        came: &[(ClassId, Vec<Came>)],
        labels: &Labels,
        room: &mut NodeRoom,
        drawn: &mut Vec<(Box<str>, ReservationId)>,
    ) -> Resources {
        let mut released = Resources::new();
        for share in shares.iter().filter(|share| self.assignment.kind(**share) == MemberKind::Pod) {
            let Some(spec) = self.spec(share.class) else { continue };
            let mut known = came.iter().filter(|(class, _)| *class == share.class).flat_map(|(_, came)| came);
            for member in self.assignment.members(share.of_node(copy)) {
                let known = known.next().and_then(|(from, _)| *from);
                let from = known.or_else(|| draws_from(self.cluster, labels, Room::from(&*room), spec));
                let before = from.and_then(|id| held(room, id));
                room.add_pod(&spec.requests, from);
                let (Some(id), Some(before)) = (from, before) else { continue };
                released.add(&before);
                if self.is_for_one(id) {
                    room.release(id);
                } else if let Some(after) = held(room, id) {
                    released.subtract(&after);
                }
                drawn.push((member.to_string().into(), id));
            }
        }
        released
    }
}

fn held(room: &NodeRoom, id: ReservationId) -> Option<Resources> {
    room.position(id).and_then(|at| room.holdings().get(at)).map(Holding::held)
}
