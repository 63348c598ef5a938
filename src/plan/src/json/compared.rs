//! Two plans beside each other, in the JSON contract.

use serde::Serialize;

use crate::Plan;
use crate::compare::{self, Figures};
use crate::decimal::Exact;
use crate::repack::Fleet;

/// `--repack`: the cluster as it stands, and planned from scratch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Repack {
    now: Now,
    from_scratch: FiguresJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Now {
    nodes: u64,
    hourly_cost: Exact,
    list_cost: Exact,
    node_cost: Exact,
    unpriced_nodes: Vec<String>,
}

/// `--diff`: without the second set of files and with it.
#[derive(Serialize)]
pub(super) struct Diff<'a> {
    before: FiguresJson,
    after: FiguresJson,
    nodes: Vec<Changed<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FiguresJson {
    pods: u64,
    unschedulable: u64,
    node_claims: u64,
    hourly_cost: Exact,
    list_cost: Exact,
    node_cost: Exact,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed<'a> {
    node_pool: &'a str,
    instance_type: &'a str,
    zone: Option<&'a str>,
    capacity_type: &'static str,
    before: u64,
    after: u64,
    adds_hourly_cost: Exact,
}

impl From<Figures> for FiguresJson {
    fn from(figures: Figures) -> Self {
        FiguresJson {
            pods: figures.pods,
            unschedulable: figures.unschedulable,
            node_claims: figures.nodes,
            hourly_cost: Exact(figures.hourly_cost),
            list_cost: Exact(figures.list_cost),
            node_cost: Exact(figures.node_cost),
        }
    }
}

impl Repack {
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let scratch = plan.scratch.as_deref()?;
        let Fleet { nodes, hourly_cost, list_cost, unpriced } = plan.fleet.clone();
        let now = Now {
            nodes,
            hourly_cost: Exact(hourly_cost),
            list_cost: Exact(list_cost),
            node_cost: Exact(plan.node_cost.times(nodes)),
            unpriced_nodes: unpriced,
        };
        Some(Repack { now, from_scratch: Figures::of(scratch).into() })
    }
}

impl<'a> Diff<'a> {
    pub(super) fn of(plan: &'a Plan) -> Option<Self> {
        let before = plan.before.as_deref()?;
        let nodes = compare::changed(before, plan).into_iter().map(|one| Changed {
            node_pool: one.node_pool,
            instance_type: one.instance_type,
            zone: Some(one.zone).filter(|zone| *zone != "-"),
            capacity_type: one.capacity_type,
            before: one.before,
            after: one.after,
            adds_hourly_cost: Exact(one.adds),
        });
        Some(Diff { before: Figures::of(before).into(), after: Figures::of(plan).into(), nodes: nodes.collect() })
    }
}
