//! The figures of a whole plan.

use berth_model::{MemberKind, Money};
use berth_provisioning::{StopReason, Unschedulable};

use crate::Plan;

/// Counts and costs of a plan. Pods are pods: pending Reservations are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pods that were pending.
    pub pods: u64,
    /// Pods that have a place.
    pub placed: u64,
    /// Pods that have none.
    pub unschedulable: u64,
    /// Pending Reservations.
    pub reservations: u64,
    /// Pending Reservations that have no place.
    pub unschedulable_reservations: u64,
    /// Nodes to be launched.
    pub node_claims: u64,
    /// Dollars an hour for them; reserved costs nothing.
    pub hourly_cost: Money,
    /// Dollars an hour for them by the price list, reserved included.
    pub list_cost: Money,
    /// `--node-cost` times the nodes.
    pub node_cost: Money,
    /// What every plan that puts the same on new nodes costs at least, dollars an hour, node cost included; `None` where it was not
    /// asked for.
    pub lower_bound: Option<Money>,
    /// Why the search for cheaper nodes than first fit's stopped; `None` where nothing was searched for.
    pub search: Option<StopReason>,
    /// Whether everything has a place, and it is proved that to put the same on new nodes costs no less; without a proof it may
    /// be so, too.
    pub is_optimal: bool,
    /// Whether some pods or Reservations go to nodes that exist.
    pub(crate) is_beside_existing: bool,
    /// Free instances of all capacity reservations before the plan.
    pub slots_total: u64,
    /// How many of them the plan uses.
    pub slots_used: u64,
}

impl Summary {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut summary = Summary::default();
        for class in &plan.universe.classes {
            match class.kind {
                MemberKind::Pod => summary.pods += u64::from(class.count),
                MemberKind::Reservation => summary.reservations += u64::from(class.count),
            }
        }
        for left in &plan.solution.unschedulable {
            match plan.universe.class(left.class).map(|class| class.kind) {
                Some(MemberKind::Reservation) => summary.unschedulable_reservations += u64::from(left.count),
                _ => summary.unschedulable += u64::from(left.count),
            }
        }
        // They have their place, and are in no class any more.
        summary.pods += plan.allocation.count(MemberKind::Pod);
        summary.reservations += plan.allocation.count(MemberKind::Reservation);
        summary.is_beside_existing = plan.allocation.uses_existing();
        summary.placed = summary.pods.saturating_sub(summary.unschedulable);
        for claims in &plan.solution.claims {
            let count = u64::from(claims.count);
            summary.node_claims += count;
            summary.hourly_cost += claims.price.times(count);
            summary.list_cost += claims.list_price.times(count);
        }
        summary.lower_bound = plan.solution.bound.as_ref().map(|bound| bound.cost);
        summary.search = plan.solution.search;
        summary.node_cost = plan.node_cost.times(summary.node_claims);
        let least = plan.solution.bound.as_ref().map(|bound| bound.cost).max(plan.solution.least);
        let has_all =
            summary.unschedulable + summary.unschedulable_reservations == 0 && !plan.cluster.has_shared_out_volumes;
        summary.is_optimal =
            has_all && least.is_some_and(|least| is_optimal(summary.hourly_cost + summary.node_cost, least));
        for (slots, used) in plan.reservations() {
            summary.slots_total += u64::from(slots.free);
            summary.slots_used += u64::from(used);
        }
        summary
    }
}

impl Summary {
    /// How near the plan is to the cheapest one: "optimal", or "within" so many percent, rounded up; `None` without a bound
    /// above zero.
    pub fn nearness(&self) -> Option<String> {
        nearness(self.hourly_cost + self.node_cost, self.lower_bound?)
    }
}

/// A bound is rounded down to a millionth of a dollar: what is not dearer by more than that is optimal.
const LEAST_GAP: i128 = 2_000_000;

fn nearness(cost: Money, bound: Money) -> Option<String> {
    gap(cost, bound).map(|gap| if is_optimal(cost, bound) { "optimal".to_owned() } else { format!("within {gap}") })
}

fn is_optimal(cost: Money, bound: Money) -> bool {
    (cost - bound).pico() < LEAST_GAP
}

fn gap(cost: Money, bound: Money) -> Option<String> {
    let (above, bound) = ((cost - bound).pico().max(0), bound.pico());
    (bound > 0).then(|| {
        let hundredths = above.saturating_mul(10_000).saturating_add(bound - 1) / bound;
        format!("{}.{:02}%", hundredths / 100, hundredths % 100)
    })
}

impl Plan {
    /// The capacity reservations of the catalogue, with how many instances the plan uses of each.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = (&berth_model::Slots, u32)> {
        let used = self.solution.slots_used.iter().copied().chain(std::iter::repeat(0));
        let mut found: Vec<_> = self.cluster.slots.iter().zip(used).filter(|(slots, _)| slots.is_reservation).collect();
        found.sort_by_key(|(slots, _)| self.cluster.symbols.text(slots.id));
        found.into_iter()
    }

    /// Why members of a class have no place, with counts; a count of 0 is about neither nodes nor instance types.
    pub(crate) fn reasons<'a>(&'a self, left: &'a Unschedulable) -> impl Iterator<Item = (&'a str, u32)> {
        self.allocation.reasons(left, &self.cluster, &self.universe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_never_rounded_down() {
        let dollars = |dollars: i128| Money::from_pico(dollars * 1_000_000_000_000);
        assert_eq!(gap(dollars(100), dollars(100)).unwrap(), "0.00%");
        assert_eq!(gap(dollars(100) + Money::from_pico(1), dollars(100)).unwrap(), "0.01%");
        assert_eq!(gap(dollars(100), Money::ZERO), None);
        let (bound, micro) = (dollars(100), Money::from_pico(1_000_000));
        assert_eq!(nearness(bound + micro, bound).unwrap(), "optimal", "the bound is rounded down");
        assert_eq!(nearness(bound + micro + micro, bound).unwrap(), "within 0.01%");
    }
}
