//! Slots that what-ifs take and free.

use crate::{State, Time};

// === impl State ===

impl State {
    /// Takes one instance of a finite supply, until it is given back; false where there is none.
    pub fn take_slot(&mut self, id: &str, now: Time) -> bool {
        let cluster = self.cluster(now);
        let known = cluster.slots.iter().find(|slots| cluster.symbols.text(slots.id) == id);
        if known.is_none_or(|slots| slots.free == 0) {
            return false;
        }
        self.cloud.take(id, 1);
        self.supplies_changed();
        true
    }

    /// Gives back what [`State::take_slot`] took.
    pub fn give_slot_back(&mut self, id: &str) {
        self.cloud.take(id, -1);
        self.supplies_changed();
    }

    /// Counts one more instance of a finite supply as free, as once a node that goes has left it, until
    /// [`State::unfree_slot`].
    pub fn free_slot(&mut self, id: &str) {
        self.cloud.take(id, -1);
        self.supplies_changed();
    }

    /// Takes back what [`State::free_slot`] did.
    pub fn unfree_slot(&mut self, id: &str) {
        self.cloud.take(id, 1);
        self.supplies_changed();
    }
}
