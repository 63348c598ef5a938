//! The JSON contract of `berth plan`, streamed.

mod assigned;
mod claim;
mod compared;
mod disruption;
mod restrictions;
mod terms;

use std::io::{self, Write};

use berth_model::MemberKind;
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::decimal::Exact;
use crate::{Plan, Summary};
use berth_decisions::{Also, Assignment, MemberName, PlannedNode, Share};
use berth_provisioning::StopReason;

pub(crate) fn write<W: Write>(plan: &Plan, with_timings: bool, mut writer: W) -> io::Result<()> {
    let assignment = Assignment::new(&plan.cluster, &plan.universe, &plan.solution);
    let document = Document {
        api_version: "berth.sh/v1alpha1",
        kind: "Plan",
        provenance: &plan.provenance,
        summary: SummaryJson::new(plan, with_timings),
        notes: &plan.notes,
        restrictions: restrictions::Restrictions(plan),
        repack: compared::Repack::of(plan),
        diff: compared::Diff::of(plan),
        reservations: Slots(plan),
        node_claims: claim::Claims::new(plan, &assignment),
        nodes: Nodes(plan, &assignment),
        unschedulable: Unschedulable(plan, &assignment),
        disruption: plan.disruption.as_ref().map(disruption::Disrupted),
    };
    serde_json::to_writer(&mut writer, &document)?;
    writer.write_all(b"\n")?;
    writer.flush()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    provenance: &'a crate::provenance::Provenance,
    summary: SummaryJson,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    #[serde(skip_serializing_if = "restrictions::Restrictions::is_empty")]
    restrictions: restrictions::Restrictions<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repack: Option<compared::Repack>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<compared::Diff<'a>>,
    reservations: Slots<'a>,
    node_claims: claim::Claims<'a>,
    nodes: Nodes<'a>,
    unschedulable: Unschedulable<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disruption: Option<disruption::Disrupted<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryJson {
    time: String,
    pods: u64,
    placed: u64,
    unschedulable: u64,
    node_claims: u64,
    hourly_cost: Exact,
    list_cost: Exact,
    node_cost: Exact,
    lower_bound: Option<Exact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_relaxes: Option<Vec<&'static str>>,
    search_stopped: Option<&'static str>,
    optimal: bool,
    read_seconds: Option<f64>,
    solve_seconds: Option<f64>,
    reserved_slots: ReservedSlots,
}

#[derive(Serialize)]
struct ReservedSlots {
    total: u64,
    used: u64,
}

impl SummaryJson {
    fn new(plan: &Plan, with_timings: bool) -> Self {
        let summary: Summary = plan.summary();
        let timings = plan.timings();
        SummaryJson {
            time: plan.now.to_string(),
            pods: summary.pods,
            placed: summary.placed,
            unschedulable: summary.unschedulable,
            node_claims: summary.node_claims,
            hourly_cost: Exact(summary.hourly_cost),
            list_cost: Exact(summary.list_cost),
            node_cost: Exact(summary.node_cost),
            lower_bound: summary.lower_bound.map(Exact),
            bound_relaxes: plan.solution.bound.as_ref().map(|bound| bound.relaxed.clone()),
            search_stopped: summary.search.and_then(search_stopped),
            optimal: summary.is_optimal,
            read_seconds: with_timings.then_some(timings.read.as_secs_f64()),
            solve_seconds: with_timings.then(|| (timings.convert + timings.solve).as_secs_f64()),
            reserved_slots: ReservedSlots { total: summary.slots_total, used: summary.slots_used },
        }
    }
}

// Rounds are work, too.
fn search_stopped(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::Unsolved => None,
        StopReason::Solved => Some("Solved"),
        StopReason::Optimal => Some("Optimal"),
        StopReason::NoColumn => Some("NoColumn"),
        StopReason::Rounds | StopReason::Work => Some("WorkSpent"),
    }
}

/// `[{"id","total","used"}]`
struct Slots<'a>(&'a Plan);

impl Serialize for Slots<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Entry<'a> {
            id: &'a str,
            total: u32,
            used: u32,
        }
        let symbols = &self.0.cluster.symbols;
        let entries = self.0.reservations();
        serializer.collect_seq(entries.map(|(slots, used)| Entry {
            id: symbols.text(slots.id),
            total: slots.free,
            used,
        }))
    }
}

/// Existing nodes with what the plan binds to them.
struct Nodes<'a>(&'a Plan, &'a Assignment<'a>);

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Entry<'a> {
            name: &'a str,
            pods: Members<'a>,
            reservations: Members<'a>,
            allocations: Allocations<'a>,
            preempted: &'a [Box<str>],
            #[serde(skip_serializing_if = "Vec::is_empty")]
            assigned: Vec<assigned::Entry<'a>>,
        }
        let Nodes(plan, assignment) = *self;
        let mut seq = serializer.serialize_seq(None)?;
        for (node, shares) in plan.solution.nodes.iter().zip(&assignment.nodes) {
            let mut pods = plan.allocation.on_node(node.node, MemberKind::Pod, &plan.cluster);
            pods.extend(plan.allocation.with(assignment, shares, 0, &plan.cluster));
            let reservations = plan.allocation.on_node(node.node, MemberKind::Reservation, &plan.cluster);
            let name = plan.cluster.nodes.get(node.node).map_or("", |node| plan.cluster.symbols.text(node.name));
            let of_kind = |also, kind| assigned::entries(also, kind, &plan.cluster).map_err(S::Error::custom);
            let mut assigned = of_kind(&reservations, MemberKind::Reservation)?;
            assigned.extend(of_kind(&pods, MemberKind::Pod)?);
            let own = assignment.assigned(node, shares);
            let own: Vec<Also<'_>> =
                own.iter().map(|(name, own)| Also { name, draws_from: None, assigned: Some(*own) }).collect();
            assigned.extend(of_kind(&own, MemberKind::Pod)?);
            seq.serialize_element(&Entry {
                name,
                pods: Members { assignment, shares, kind: MemberKind::Pod, node: 0, also: &pods },
                reservations: Members {
                    assignment,
                    shares,
                    kind: MemberKind::Reservation,
                    node: 0,
                    also: &reservations,
                },
                allocations: Allocations(
                    &pods,
                    &plan.allocation.joined(PlannedNode::Node(node.node), &plan.cluster).collect::<Vec<_>>(),
                ),
                preempted: plan.allocation.preempted(node.node),
                assigned,
            })?;
        }
        seq.end()
    }
}

/// `[{"pod","reservation"}]`: who draws from which Reservation.
struct Allocations<'a>(&'a [Also<'a>], &'a [Also<'a>]);

impl Serialize for Allocations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Allocation<'a> {
            pod: &'a str,
            reservation: &'a str,
        }
        let drawn = self.0.iter().chain(self.1).filter_map(|also| Some((also.name, also.draws_from?)));
        serializer.collect_seq(drawn.map(|(pod, reservation)| Allocation { pod, reservation }))
    }
}

/// The names of one kind in the shares of a node.
struct Members<'a> {
    assignment: &'a Assignment<'a>,
    shares: &'a [Share],
    kind: MemberKind,
    /// Which of identical nodes.
    node: u32,
    /// Those beside the shares.
    also: &'a [Also<'a>],
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for share in self.shares.iter().filter(|share| self.assignment.kind(**share) == self.kind) {
            for member in self.assignment.members(share.of_node(self.node)) {
                seq.serialize_element(&member)?;
            }
        }
        for also in self.also {
            seq.serialize_element(also.name)?;
        }
        seq.end()
    }
}

/// What could not be placed, an entry a class.
struct Unschedulable<'a>(&'a Plan, &'a Assignment<'a>);

impl Serialize for Unschedulable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Reason<'a> {
            reason: &'a str,
            count: u32,
        }
        #[derive(Serialize)]
        struct Entry<'a> {
            kind: &'static str,
            object: Option<MemberName<'a>>,
            count: u32,
            reasons: Vec<Reason<'a>>,
        }
        let Unschedulable(plan, assignment) = *self;
        let left = plan.solution.unschedulable.iter().zip(&assignment.unschedulable).filter(|(left, _)| left.count > 0);
        serializer.collect_seq(left.map(|(left, share)| Entry {
            kind: match assignment.kind(*share) {
                MemberKind::Pod => "Pod",
                MemberKind::Reservation => "Reservation",
            },
            object: assignment.members(*share).next(),
            count: left.count,
            reasons: plan.reasons(left).map(|(reason, count)| Reason { reason, count }).collect(),
        }))
    }
}
