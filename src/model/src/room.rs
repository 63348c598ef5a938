//! Room on one node: what pods use, what Reservations hold, and what a given pod may have of it.

use crate::{Holding, Node, ReservationId, Resources};

/// What a node has that is not used: free, and held.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// What is neither used nor held: what a pod may have that draws from no Reservation. Below zero where pods took
    /// room that is held, as pods of other schedulers and those that ignore Reservations may.
    pub free: &'a Resources,
    /// The Reservations on the node.
    pub holdings: &'a [Holding],
}

impl Room<'_> {
    /// What a pod may have that draws from this holding. Reservations are not merged: a pod draws from one.
    pub fn free_with(&self, holding: usize) -> Resources {
        let mut free = self.free.clone();
        if let Some(holding) = self.holdings.get(holding) {
            free.add(&holding.available());
        }
        free
    }

    /// What a pod may have that ignores Reservations: all that is not used, what is kept inside of them aside.
    pub fn free_ignoring(&self) -> Resources {
        let mut free = self.free.clone();
        for holding in self.holdings {
            free.add(&holding.available());
        }
        free
    }
}

impl<'a> From<&'a NodeRoom> for Room<'a> {
    fn from(room: &'a NodeRoom) -> Self {
        Room { free: &room.free, holdings: &room.holdings }
    }
}

/// What there is on a node, and who has it. A pod that draws from a Reservation is counted once: as a pod, and what it
/// draws is not held any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    allocatable: Resources,
    free: Resources,
    holdings: Vec<Holding>,
}

impl NodeRoom {
    /// An empty node.
    pub fn new(allocatable: Resources) -> Self {
        NodeRoom { free: allocatable.clone(), allocatable, holdings: Vec::new() }
    }

    /// A node as it stands: `free` is what is neither used nor held by these.
    pub fn of_node(node: &Node) -> Self {
        NodeRoom { allocatable: node.allocatable.clone(), free: node.free.clone(), holdings: node.holdings.clone() }
    }

    /// What is free and what is held, for the node that it was made from.
    pub fn into_parts(self) -> (Resources, Vec<Holding>) {
        (self.free, self.holdings)
    }

    /// What the node has.
    pub fn allocatable(&self) -> &Resources {
        &self.allocatable
    }

    /// What is neither used nor held: what a pod may have that draws from no Reservation. Below zero where pods took
    /// room that is held, as pods of other schedulers and those that ignore Reservations may.
    pub fn free(&self) -> &Resources {
        &self.free
    }

    /// The Reservations on the node.
    pub fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    /// The position of a Reservation among the holdings.
    pub fn position(&self, reservation: ReservationId) -> Option<usize> {
        self.holdings.iter().position(|holding| holding.reservation == reservation)
    }

    /// What a pod may have that draws from this holding. Reservations are not merged: a pod draws from one.
    pub fn free_with(&self, holding: usize) -> Resources {
        Room::from(self).free_with(holding)
    }

    /// What a pod may have that ignores Reservations: all that is not used, what is kept inside of them aside.
    pub fn free_ignoring(&self) -> Resources {
        Room::from(self).free_ignoring()
    }

    /// Whether pods that draw from no Reservation took room that is held.
    pub fn is_room_taken(&self) -> bool {
        self.free.iter().any(|(_, amount)| amount < 0)
    }

    /// Holds room for a Reservation.
    pub fn hold(&mut self, holding: Holding) {
        self.free.subtract(&holding.held());
        self.holdings.push(holding);
    }

    /// Gives up what a Reservation holds; its owners stay, as pods like any other.
    pub fn release(&mut self, reservation: ReservationId) -> Option<Holding> {
        let holding = self.holdings.remove(self.position(reservation)?);
        self.free.add(&holding.held());
        Some(holding)
    }

    /// Adds a pod, which draws from a Reservation on the node or from none.
    pub fn add_pod(&mut self, requests: &Resources, draws_from: Option<ReservationId>) {
        self.change(requests, draws_from, 1);
    }

    /// Removes a pod that was added with the same arguments. What it drew is held again for other owners.
    pub fn remove_pod(&mut self, requests: &Resources, draws_from: Option<ReservationId>) {
        self.change(requests, draws_from, -1);
    }

    fn change(&mut self, requests: &Resources, draws_from: Option<ReservationId>, times: i64) {
        change(&mut self.free, &mut self.holdings, requests, draws_from, times);
    }
}

/// So many pods come, or go where there are fewer than none; what they draw is not held meanwhile.
pub(crate) fn change(
    free: &mut Resources,
    holdings: &mut [Holding],
    requests: &Resources,
    draws_from: Option<ReservationId>,
    times: i64,
) {
    free.add_times(requests, -times);
    if let Some(holding) = holdings.iter_mut().find(|holding| Some(holding.reservation) == draws_from) {
        free.add(&holding.held());
        holding.draw(requests, times);
        free.subtract(&holding.held());
    }
}
