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
        let mut ids = cluster.keyed_map();
        ids.extend(names.map(|(id, known)| (cluster.symbols.text(known.name), id)));
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
        let Some(reservation) = self.cluster.reservation(id) else { return };
        let mut holding = Holding::new(id, reservation);
        holding.waits = false;
        let Some((_, spec)) = self.class_and_spec(class) else { return };
        let reserved = self.assigned_on(spec, node, None);
        self.hold(holding, node);
        self.state.change_node(node, |state| {
            state.note_placed(id);
            if !reserved.is_empty() {
                state.note_assigned(class, Some(id), reserved.clone());
                let (policy, drawn) = (reservation.policy, Assigned::default());
                state.hold_units(HeldUnits { reservation: id, policy, reserved, drawn });
            }
            state.note_added(class, 1);
        });
        self.regroup(node);
    }

    /// Holds room, ports and volumes of a Reservation on a node.
    pub(super) fn hold(&mut self, holding: Holding, node: usize) {
        if let Some(place) = self.places.get_mut(holding.reservation as usize) {
            *place = u32::try_from(node).ok();
        }
        self.tables.hold(&mut self.state, holding, node);
        self.regroup(node);
    }

    /// Gives up what a Reservation holds: it is spent, expired, or deleted. Pods that draw from it stay as they are.
    pub fn release(&mut self, reservation: u32) {
        let node = self.places.get(reservation as usize).copied().flatten().map(|node| node as usize);
        if let Some(node) = node.filter(|&node| self.tables.release(&mut self.state, reservation, node)) {
            self.regroup(node);
        }
    }

    /// From which Reservation a running pod draws.
    pub(super) fn drawn_by(&self, node: usize, pod: usize) -> Option<u32> {
        let bound = self.bound_to.get(&Eviction { node, pod }).copied();
        bound.or_else(|| self.cluster.nodes.get(node)?.pods.get(pod)?.draws_from)
    }
}
