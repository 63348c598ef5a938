//! Room on one node: what pods use, what Reservations hold, and what a given pod may have of it.

use crate::resources::Amounts;
use crate::{AllocatePolicy, Node, Phase, Reservation, ReservationId, ResourceId, Resources};

/// What one Reservation holds on its node, and what its owners draw from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which Reservation.
    pub reservation: ReservationId,
    /// Whether its room is not free yet: nobody draws from it but the pods that it is bound to.
    pub waits: bool,
    policy: AllocatePolicy,
    restricted: Vec<ResourceId>,
    reserved: Resources,
    kept: Resources,
    allocated: Resources,
}

impl Holding {
    /// The holding of a Reservation that nobody draws from.
    pub fn new(id: ReservationId, reservation: &Reservation) -> Self {
        let reserved = reservation.allocatable.clone();
        let mut kept = Resources::new();
        for (resource, amount) in reservation.kept.iter() {
            kept.set(resource, amount.clamp(0, reserved.get(resource).max(0)));
        }
        let is_reserved = |resource: &&ResourceId| reserved.get(**resource) > 0;
        let mut restricted: Vec<ResourceId> = reservation.restricted.iter().filter(is_reserved).copied().collect();
        if restricted.is_empty() {
            restricted = reserved.iter().map(|(resource, _)| resource).collect();
        }
        Holding {
            reservation: id,
            waits: reservation.phase == Phase::Waiting,
            policy: reservation.policy,
            restricted: if reservation.policy == AllocatePolicy::Restricted { restricted } else { Vec::new() },
            reserved,
            kept,
            allocated: Resources::new(),
        }
    }

    /// How owners that need more than is reserved are treated.
    pub fn policy(&self) -> AllocatePolicy {
        self.policy
    }

    /// What is reserved.
    pub fn reserved(&self) -> &Resources {
        &self.reserved
    }

    /// What is reserved less what is kept from owners.
    pub fn capacity(&self, resource: ResourceId) -> i64 {
        self.reserved.get(resource) - self.kept.get(resource)
    }

    /// What owners request of the resources that are reserved. More than is reserved, where they take the rest from
    /// the node: nothing is capped, so that what is freed later is freed exactly.
    pub fn allocated(&self) -> &Resources {
        &self.allocated
    }

    /// How many pods draw from it.
    pub fn owners(&self) -> u32 {
        u32::try_from(self.allocated.get(ResourceId::PODS)).unwrap_or(0)
    }

    /// Whether the Reservation counts as a pod of its template in affinity, anti-affinity and spread: until its first
    /// owner has come, who counts himself then.
    pub fn stands_in(&self) -> bool {
        self.owners() == 0
    }

    /// What one more owner may draw. Where pods are not reserved by number there is a place for one, the pod that the
    /// Reservation stands for.
    pub fn available(&self) -> Resources {
        let mut available = Resources::new();
        for (resource, _) in self.reserved.iter() {
            available.set(resource, (self.capacity(resource) - self.allocated.get(resource)).max(0));
        }
        if !self.limits_pods() {
            available.set(ResourceId::PODS, (1 - self.allocated.get(ResourceId::PODS)).max(0));
        }
        available
    }

    /// What nobody but its owners may have: what is available, and what is kept even from them.
    pub fn held(&self) -> Resources {
        let mut held = self.available();
        held.add(&self.kept);
        held
    }

    /// Whether the number of owners is limited: pods are reserved as a resource.
    pub fn limits_pods(&self) -> bool {
        self.reserved.get(ResourceId::PODS) > 0
    }

    /// Whether an owner may draw this resource from the Reservation alone.
    pub fn restricts(&self, resource: ResourceId) -> bool {
        self.restricted.contains(&resource)
    }

    /// Whether a pod requests anything that is reserved.
    pub fn shares_resource(&self, requests: &Resources) -> bool {
        let is_reserved = |(id, amount): (ResourceId, i64)| id != ResourceId::PODS && amount > 0 && self.reserves(id);
        requests.iter().any(is_reserved)
    }

    /// Counts what pods draw that are not known one by one; `pods` among the amounts is their number.
    pub fn draw_in_sum(&mut self, amounts: &Resources) {
        self.draw(amounts, 1);
    }

    /// What pods draw of these resources is as it was.
    pub(crate) fn restore_allocated(&mut self, amounts: &Amounts) {
        self.allocated.restore(amounts);
    }

    fn reserves(&self, resource: ResourceId) -> bool {
        self.reserved.get(resource) > 0
    }

    fn draw(&mut self, requests: &Resources, times: i64) {
        for (resource, amount) in requests.iter() {
            if resource != ResourceId::PODS && !self.reserves(resource) {
                continue;
            }
            let sum = self.allocated.get(resource).saturating_add(amount.saturating_mul(times));
            self.allocated.set(resource, sum);
        }
    }
}

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
