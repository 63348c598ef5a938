//! Two plans beside each other: before and after a change, or as it stands and from scratch.

use std::collections::BTreeMap;

use berth_model::Money;

use crate::Plan;
use crate::table::nodes::{NodeRowKey, groups};

/// The figures that two plans are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) pods: u64,
    pub(crate) unschedulable: u64,
    pub(crate) nodes: u64,
    pub(crate) hourly_cost: Money,
    pub(crate) list_cost: Money,
    pub(crate) node_cost: Money,
}

impl Figures {
    pub(crate) fn of(plan: &Plan) -> Self {
        let summary = plan.summary();
        Figures {
            pods: summary.pods,
            unschedulable: summary.unschedulable + summary.unschedulable_reservations,
            nodes: summary.node_claims,
            hourly_cost: summary.hourly_cost,
            list_cost: summary.list_cost,
            node_cost: summary.node_cost,
        }
    }
}

/// Planned nodes of one offering that are more, or fewer, in one plan than in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed<'a> {
    pub(crate) node_pool: &'a str,
    pub(crate) instance_type: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) capacity_type: &'static str,
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// What that adds, in dollars an hour; below zero where it saves.
    pub(crate) adds: Money,
}

/// What is launched in `after` other than in `before`, the largest differences of cost first.
pub(crate) fn changed<'a>(before: &'a Plan, after: &'a Plan) -> Vec<Changed<'a>> {
    let mut counts: BTreeMap<NodeRowKey<'a>, (u64, u64)> = BTreeMap::new();
    for (key, row) in groups(before) {
        counts.entry(key).or_default().0 += row.nodes;
    }
    for (key, row) in groups(after) {
        counts.entry(key).or_default().1 += row.nodes;
    }
    let differing = counts.into_iter().filter(|(_, (before, after))| before != after);
    let mut changed: Vec<Changed<'a>> = differing
        .map(|(key, (before, after))| Changed {
            node_pool: key.node_pool,
            instance_type: key.instance_type,
            zone: key.zone,
            capacity_type: key.capacity_type.name(),
            before,
            after,
            adds: key.price.times(after) - key.price.times(before),
        })
        .collect();
    changed.sort_by_key(|one| std::cmp::Reverse(one.adds.pico().abs()));
    changed
}
