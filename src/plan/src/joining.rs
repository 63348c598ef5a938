//! Owners that are placed by themselves and come to the node of one of their Reservations: they draw from it there.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, Holding, MemberKind, NodeRoom, PodSpec, Resources, Room, Universe};
use berth_provisioning::{Claims, Solution};
use berth_scheduling::reservation::draws_from;

use crate::deal::{Deal, Share};

/// A node of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A node that exists, by index.
    Node(usize),
    /// A node of an entry of the solution's claims.
    Claim(usize, u32),
}

/// By node: pods that draw, and the Reservation of each.
pub(crate) type Joined = BTreeMap<Place, Vec<(Box<str>, u32)>>;

/// Who draws on nodes that the solution fills. What they draw is held no more: claims request less.
pub(crate) fn join(cluster: &Cluster, universe: &Universe, solution: &mut Solution) -> Joined {
    let mut joined = Joined::new();
    if cluster.reservations.is_empty() {
        return joined;
    }
    let deal = Deal::new(cluster, universe, solution);
    let site = Site { cluster, universe, deal: &deal };
    for (entry, shares) in solution.nodes.iter().zip(&deal.nodes) {
        let Some(node) = cluster.nodes.get(entry.node).filter(|_| site.has_owners(shares)) else { continue };
        let mut room = NodeRoom::of_node(node);
        site.hold(shares, 0, &mut room);
        site.draw(shares, 0, &node.labels, &mut room, joined.entry(Place::Node(entry.node)).or_default());
    }
    let mut released: Vec<Resources> = Vec::new();
    for (at, (claims, shares)) in solution.claims.iter().zip(&deal.claims).enumerate() {
        let mut of_one = Resources::new();
        if site.has_owners(shares) && shares.iter().any(|share| deal.kind(*share) == MemberKind::Reservation) {
            for copy in 0..claims.count {
                let mut room = NodeRoom::new(site.room(claims, shares));
                site.hold(shares, copy, &mut room);
                let drawn = joined.entry(Place::Claim(at, copy)).or_default();
                of_one = site.draw(shares, copy, &berth_model::Labels::default(), &mut room, drawn);
            }
        }
        released.push(of_one);
    }
    for (claims, released) in solution.claims.iter_mut().zip(&released) {
        claims.requests.subtract(released);
    }
    joined.retain(|_, drawn| !drawn.is_empty());
    joined
}

struct Site<'a> {
    cluster: &'a Cluster,
    universe: &'a Universe,
    deal: &'a Deal<'a>,
}

impl Site<'_> {
    fn spec(&self, class: ClassId) -> Option<&PodSpec> {
        self.cluster.specs.get(self.universe.class(class)?.spec as usize)
    }

    fn has_owners(&self, shares: &[Share]) -> bool {
        let is_owner = |spec: &PodSpec| !spec.reservation.owner_of.is_empty();
        let mut pods = shares.iter().filter(|share| self.deal.kind(**share) == MemberKind::Pod);
        pods.any(|share| self.spec(share.class).is_some_and(is_owner))
    }

    // What a launched node has for its pods and Reservations, the owners that Reservations were launched with aside.
    fn room(&self, claims: &Claims, shares: &[Share]) -> Resources {
        let of_type = self.cluster.instance_types.get(claims.instance_type as usize);
        let mut room = of_type.map(|of_type| of_type.resources.clone()).unwrap_or_default();
        if let Some(pool) = self.cluster.node_pools.get(claims.node_pool) {
            room.subtract(&pool.reserved);
        }
        room.subtract(&claims.requests);
        for share in shares {
            if let Some(spec) = self.spec(share.class) {
                room.add_times(&spec.requests, i64::from(share.count));
                room.add_times(&spec.reservation.owners_request, -i64::from(share.count));
            }
        }
        room
    }

    fn hold(&self, shares: &[Share], copy: u32, room: &mut NodeRoom) {
        for share in shares.iter().filter(|share| self.deal.kind(**share) == MemberKind::Reservation) {
            let Some(spec) = self.spec(share.class) else { continue };
            for member in self.deal.members(share.of_node(copy)) {
                let name = member.to_string();
                let mut known = self.cluster.reservations.iter().zip(0..);
                let found = known.find(|(known, _)| self.cluster.symbols.text(known.name) == name);
                let Some((reservation, id)) = found else { continue };
                let mut holding = Holding::new(id, reservation);
                if spec.reservation.owners_request != Resources::new() {
                    holding.draw_in_sum(&spec.reservation.owners_request);
                }
                room.hold(holding);
            }
        }
    }

    // Lets pods draw in the order in which they were placed; what Reservations do not hold any more.
    fn draw(
        &self,
        shares: &[Share],
        copy: u32,
        labels: &berth_model::Labels,
        room: &mut NodeRoom,
        drawn: &mut Vec<(Box<str>, u32)>,
    ) -> Resources {
        let mut released = Resources::new();
        for share in shares.iter().filter(|share| self.deal.kind(**share) == MemberKind::Pod) {
            let Some(spec) = self.spec(share.class) else { continue };
            for member in self.deal.members(share.of_node(copy)) {
                let from = draws_from(self.cluster, labels, Room::from(&*room), spec);
                let before = from.and_then(|id| held(room, id));
                room.add_pod(&spec.requests, from);
                let (Some(id), Some(before)) = (from, before) else { continue };
                released.add(&before);
                let is_spent = self.cluster.reservations.get(id as usize).is_some_and(|known| known.allocate_once);
                if is_spent {
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

fn held(room: &NodeRoom, id: u32) -> Option<Resources> {
    room.position(id).and_then(|at| room.holdings().get(at)).map(Holding::held)
}
