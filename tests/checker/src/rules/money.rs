//! Costs add up.

use crate::Options;
use crate::catalogue::{Catalogue, RESERVED};
use crate::plan::Plan;
use crate::sites::Site;
use crate::violation::Violation;

/// Equal up to rounding in the last digits of printed sums.
pub(crate) fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

pub(crate) fn check(plan: &Plan, sites: &[Site<'_>], options: &Options) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut hourly = 0.0;
    let mut list = 0.0;
    let mut node = 0.0;
    for claim in sites.iter().filter_map(Site::claim) {
        let offering = &claim.claim.offering;
        let paid = offering.capacity_type != RESERVED;
        if paid {
            hourly += offering.price;
        }
        let planned = claim.open.iter().find(|o| {
            o.instance_type.name == offering.instance_type
                && o.offering.zone == offering.zone
                && o.offering.capacity_type == offering.capacity_type
        });
        list += planned.map_or(offering.price, |o| Catalogue::list_price(o.instance_type, o.offering));
        node += options.node_cost;
    }
    for (field, said, sum) in [
        ("hourlyCost", plan.summary.hourly_cost, hourly),
        ("listCost", plan.summary.list_cost, list),
        ("nodeCost", plan.summary.node_cost, node),
    ] {
        if !same(said, sum) {
            found.push(Violation::new("cost", "summary", format!("{field} is {said}, the claims sum to {sum}")));
        }
    }
    if let Some(bound) = plan.summary.lower_bound
        && plan.unschedulable.is_empty()
        && bound > plan.summary.hourly_cost + plan.summary.node_cost + 1e-6
    {
        let detail = format!("lowerBound {bound} is above the plan's own cost {}", plan.summary.hourly_cost);
        found.push(Violation::new("cost", "summary", detail));
    }
    found
}
