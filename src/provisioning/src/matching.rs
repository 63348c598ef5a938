//! The slot ledger's matching: which planned nodes take which capacity reservations.
//!
//! Nodes with the same contents are a group; a reservation is open to a group whose pods, as a set, fit one of its
//! columns. Which nodes are saved from being paid for is a maximum-weight set of a transversal matroid: taking groups
//! by falling savings, each with augmenting paths, is optimal. Which slots serve them is then chosen from the side of
//! the slots, by rising list price.

use crate::planner::Planner;

impl Planner<'_> {
    pub(crate) fn match_slots(&mut self) {}
}
