//! What one Reservation holds on its node.

use crate::resources::Amounts;
use crate::{AllocatePolicy, Counter, Phase, Reservation, ReservationId, ResourceId, Resources};

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

/// How a Reservation counts in affinity, anti-affinity and spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// Not at all.
    Nothing,
    /// With its template's anti-affinity against others.
    AntiAffinity,
    /// As a pod of its template.
    Pod,
}

impl StandIn {
    /// Whether it counts in a counter in which a pod of the template does.
    pub fn counts_in(self, counter: &Counter) -> bool {
        match self {
            StandIn::Nothing => false,
            StandIn::AntiAffinity => counter.counts_owners && counter.pull == 0,
            StandIn::Pod => true,
        }
    }
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

    /// How the Reservation counts in affinity, anti-affinity and spread: as a pod of its template until its first owner has come,
    /// who counts himself then. What the template keeps away stays away as long as there is room for more owners.
    pub fn stand_in(&self) -> StandIn {
        if self.owners() == 0 {
            StandIn::Pod
        } else if self.has_room() {
            StandIn::AntiAffinity
        } else {
            StandIn::Nothing
        }
    }

    /// Whether anything is left for one more owner.
    fn has_room(&self) -> bool {
        let is_left = |resource| self.capacity(resource) > self.allocated.get(resource);
        let mut amounts = self.reserved.iter().filter(|(resource, _)| *resource != ResourceId::PODS);
        (!self.limits_pods() || is_left(ResourceId::PODS)) && amounts.any(|(resource, _)| is_left(resource))
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

    pub(crate) fn draw(&mut self, requests: &Resources, times: i64) {
        for (resource, amount) in requests.iter() {
            if resource != ResourceId::PODS && !self.reserves(resource) {
                continue;
            }
            let sum = self.allocated.get(resource).saturating_add(amount.saturating_mul(times));
            self.allocated.set(resource, sum);
        }
    }
}
