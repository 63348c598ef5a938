//! Reservations come to nodes and leave them, and pods draw from them.

use berth_model::{Assigned, ClassId, HeldUnits, Holding, MemberKind, Phase, Reservation};
use rustc_hash::FxHashMap;

use super::{Eviction, Scheduler};

/// By class of pending Reservations: which they are, in order, and how many have a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    of_class: FxHashMap<ClassId, Vec<u32>>,
    pub(super) placed: FxHashMap<ClassId, usize>,
}

impl Members {
    pub(super) fn new(cluster: &berth_model::Cluster, universe: &berth_model::Universe) -> Self {
        let mut members = Members::default();
        if cluster.reservations.is_empty() {
            return members;
        }
        let pending = |(_, known): &(u32, &Reservation)| known.phase == Phase::Pending;
        let names = (0_u32..).zip(&cluster.reservations).filter(pending);
        let ids: FxHashMap<&str, u32> = names.map(|(id, known)| (cluster.symbols.text(known.name), id)).collect();
        for (class, id) in universe.classes.iter().zip(0..) {
            if class.kind != MemberKind::Reservation {
                continue;
            }
            let rows = class.rows.iter().filter_map(|&row| cluster.pending.get(row as usize));
            let found = rows.flat_map(|row| &row.members).filter_map(|run| ids.get(&*run.name).copied());
            members.of_class.insert(ClassId(id), found.collect());
        }
        members
    }

    fn next(&mut self, class: ClassId) -> Option<u32> {
        let placed = self.placed.entry(class).or_default();
        let id = self.of_class.get(&class)?.get(*placed).copied()?;
        *placed += 1;
        Some(id)
    }
}

impl Scheduler<'_> {
    /// Places the next Reservation of a class on a node: it is available there.
    pub(super) fn place_reservation(&mut self, class: ClassId, node: usize) {
        let Some(id) = self.members.next(class) else { return };
        let Some(reservation) = self.cluster.reservations.get(id as usize) else { return };
        let mut holding = Holding::new(id, reservation);
        holding.waits = false;
        let Some((_, spec)) = self.class_and_spec(class) else { return };
        let reserved = self.assigned_on(spec, node, None);
        self.hold(holding, node);
        self.state.change_node(node, |state| {
            state.placed.push(id);
            if !reserved.is_empty() {
                state.assigned.push((class, Some(id), reserved.clone()));
                let (policy, drawn) = (reservation.policy, Assigned::default());
                state.units.held.push(HeldUnits { reservation: id, policy, reserved, drawn });
            }
            match state.added.iter_mut().find(|(known, _)| *known == class) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => state.added.push((class, 1)),
            }
        });
        self.regroup(node);
    }

    /// Holds room, ports and volumes of a Reservation on a node.
    pub(super) fn hold(&mut self, holding: Holding, node: usize) {
        let id = holding.reservation;
        let stands_in = holding.stands_in();
        if let Some(place) = self.places.get_mut(id as usize) {
            *place = u32::try_from(node).ok();
        }
        let Some(reservation) = self.cluster.reservations.get(id as usize) else { return };
        for &claim in &reservation.volumes.exclusive_claims {
            self.state.use_claim(claim);
        }
        self.state.change_node(node, |state| {
            state.hold(holding);
            state.attach(&reservation.host_ports, &reservation.volumes);
        });
        if stands_in {
            self.stand_in(id, node, true);
        }
        self.regroup(node);
    }

    /// Gives up what a Reservation holds: it is spent, expired, or deleted. Pods that draw from it stay as they are.
    pub fn release(&mut self, reservation: u32) {
        let node = self.places.get(reservation as usize).copied().flatten().map(|node| node as usize);
        let holding = node.and_then(|node| Some((node, self.state.nodes().get(node)?.holding(reservation)?)));
        let Some((node, stands_in)) = holding.map(|(node, holding)| (node, holding.stands_in())) else { return };
        let Some(known) = self.cluster.reservations.get(reservation as usize) else { return };
        for &claim in &known.volumes.exclusive_claims {
            self.state.free_claim(claim);
        }
        if stands_in {
            self.stand_in(reservation, node, false);
        }
        self.state.change_node(node, |state| {
            state.release(reservation);
            state.detach(&known.host_ports, &known.volumes);
        });
        self.regroup(node);
    }

    // The pod that stands in for a Reservation counts, or does not any more.
    fn stand_in(&mut self, reservation: u32, node: usize, comes: bool) {
        let class = self.universe.reserved.get(reservation as usize).copied().flatten();
        let Some(class) = class.and_then(|id| self.universe.class(id)) else { return };
        self.count(class, node, comes);
        let on_host = self.world().stand_in_counters(reservation, node);
        self.state.change_node(node, |state| {
            for &counter in &on_host {
                if comes {
                    state.host_counts.add(counter, 1);
                } else {
                    state.host_counts.subtract(counter, 1);
                }
            }
        });
    }

    /// Changes who draws on a node; the pod of the Reservation counts while nobody does.
    pub(super) fn change_owners(&mut self, node: usize, draws_from: Option<u32>, change: impl FnOnce(&mut Self)) {
        let stands_in = |scheduler: &Self| {
            let state = scheduler.state.nodes().get(node)?;
            Some(state.holding(draws_from?)?.stands_in())
        };
        let before = stands_in(self);
        change(self);
        if let (Some(reservation), Some(before), Some(after)) = (draws_from, before, stands_in(self))
            && before != after
        {
            self.stand_in(reservation, node, after);
        }
    }

    /// From which Reservation a pod of a class would draw on a node.
    pub(super) fn draws_on(&self, class: ClassId, node: usize) -> Option<u32> {
        let (_, spec) = self.class_and_spec(class)?;
        if spec.reservation.owner_of.is_empty() {
            return None;
        }
        let world = self.world();
        let seen = world.seen(node, spec)?;
        Some(world.room(node, &seen, spec).ok()??.reservation)
    }

    /// From which Reservation a running pod draws.
    pub(super) fn drawn_by(&self, node: usize, pod: usize) -> Option<u32> {
        let bound = self.bound_to.get(&Eviction { node, pod }).copied();
        bound.or_else(|| self.cluster.nodes.get(node)?.pods.get(pod)?.draws_from)
    }

    /// Whether a Reservation is for one pod alone.
    pub(super) fn is_for_one(&self, reservation: u32) -> bool {
        self.cluster.reservations.get(reservation as usize).is_some_and(|known| known.allocate_once)
    }
}
