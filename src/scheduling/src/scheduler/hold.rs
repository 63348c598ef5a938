//! Reservations come to nodes and leave them.

use berth_model::{Assigned, ClassId, HeldUnits, Holding, ReservationId};

use super::ledger::Ledger;
use super::tables::Tables;

impl Ledger {
    /// Places the next Reservation of a class on a node: it is available there.
    pub(super) fn place_reservation(&mut self, tables: &Tables<'_>, class: ClassId, node: usize) {
        let Some(id) = self.held.members.next(class) else { return };
        let Some(reservation) = tables.cluster.reservation(id) else { return };
        let mut holding = Holding::new(id, reservation);
        holding.waits = false;
        let Some((_, spec)) = tables.class_and_spec(class) else { return };
        let reserved = tables.fit(&self.state).assigned_on(spec, node, None);
        self.hold(tables, holding, node);
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
    pub(super) fn hold(&mut self, tables: &Tables<'_>, holding: Holding, node: usize) {
        if let Some(place) = self.held.places.get_mut(holding.reservation.index()) {
            *place = u32::try_from(node).ok();
        }
        tables.hold(&mut self.state, holding, node);
        self.regroup(node);
    }

    /// Gives up what a Reservation holds: it is spent, expired, or deleted. Pods that draw from it stay as they are.
    pub(super) fn release(&mut self, tables: &Tables<'_>, reservation: ReservationId) {
        let node = self.held.place(reservation);
        if let Some(node) = node.filter(|&node| tables.release(&mut self.state, reservation, node)) {
            self.regroup(node);
        }
    }
}
