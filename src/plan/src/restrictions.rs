//! What a plan was restricted by, as people call it.

use berth_provisioning::{Restricted, Restriction};

use crate::Plan;
use crate::decimal::{exact, thousands};

/// The name of a restriction: a flag as it may be written, or fields of a NodePool.
pub(crate) fn name(plan: &Plan, restricted: &Restricted) -> String {
    match restricted.restriction {
        Restriction::MaxShare(index) => match plan.options.max_shares.get(index) {
            Some(share) => format!("--max-share {share}"),
            None => "--max-share".to_owned(),
        },
        Restriction::GpuTypes => "GPU types only for pods that ask for GPUs".to_owned(),
        Restriction::NodeCost => format!("--node-cost {}", exact(plan.options.node_cost)),
        Restriction::Limits(pool) => format!("limits of NodePool {}", plan.pool_name(pool)),
        Restriction::MinValues(pool) => format!("minValues of NodePool {}", plan.pool_name(pool)),
        Restriction::CapacityType(pool) => format!("capacity types of NodePool {}", plan.pool_name(pool)),
        Restriction::Zone(pool) => format!("zones of NodePool {}", plan.pool_name(pool)),
    }
}

/// The value that has most of the plan, for people: `port-1a 49.8%`.
pub(crate) fn largest(restricted: &Restricted) -> String {
    let Some(first) = restricted.values.first() else { return String::new() };
    format!("{} {}", first.value, percent(first.billionths))
}

/// The values that have most of the plan, for people: `port-1a 49.8%, port-1b 30.1% and 1 more`.
pub(crate) fn shares(restricted: &Restricted, most: usize) -> String {
    let values = restricted.values.iter().take(most).map(|has| format!("{} {}", has.value, percent(has.billionths)));
    let named = values.collect::<Vec<_>>().join(", ");
    let others = match restricted.values.len().saturating_sub(most) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    format!("{named}{others}")
}

/// Tenths of a percent.
pub(crate) fn percent(billionths: u32) -> String {
    let tenths = (billionths + 500_000) / 1_000_000;
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// Whom a restriction leaves without a place, for people.
pub(crate) fn unplaced(restricted: &Restricted) -> String {
    match restricted.cost.map(|cost| cost.unplaced) {
        None | Some(0) => String::new(),
        Some(count) => thousands(count),
    }
}
