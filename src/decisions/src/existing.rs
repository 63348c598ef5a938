//! Pending pods and Reservations onto the nodes that exist, as the scheduler would bind them, before any node is launched.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_model::{
    ClassId, Cluster, LabelsId, MemberKind, MemberRun, Node, Phase, Refusal, Reservation, ReservationId, SpecId, Sym,
    Universe,
};
use berth_provisioning::Launching;
use berth_scheduling::reservation::reasons;
use berth_scheduling::{ComeFirst, KeptByBudgets, Placement, Scheduler, Waiting, expect_replacements};
use rustc_hash::FxHashMap;

use crate::come_first;
use crate::expected::{ExpectedRows, waiting};
use crate::options::Placing;

/// Why a Reservation that pre-allocates is left where there is no node to ask: those that come up have no pods to bind it to.
const NO_NODE_UP: &str = "a Reservation that pre-allocates takes room on nodes that are up, and there is none";
/// Why it is left where no node says more.
const UNBOUND: &str = "a Reservation that pre-allocates takes room on nodes that are up, and none has it";

/// What the scheduler bound to existing nodes, and why pods that must draw from a Reservation found none.
#[derive(Debug, Default)]
pub(crate) struct Existing {
    /// By node: Reservations, then pods.
    pub(crate) on_nodes: BTreeMap<usize, Vec<Placement>>,
    /// By node: the pods that give way there, by `namespace/name`, in order.
    pub(crate) preempted: BTreeMap<usize, Vec<Box<str>>>,
    /// By name of a Reservation: namespace, spec and labels of the pod that stood in for it.
    pub(crate) stand_ins: BTreeMap<Arc<str>, (Sym, SpecId, LabelsId)>,
    /// Pods that are to come to nodes that were launched for them, by `namespace/name`, Reservations by name, and the node's
    /// index.
    pub(crate) settled: Vec<(Box<str>, usize)>,
    /// By spec.
    pub(crate) refusals: FxHashMap<SpecId, Vec<(String, u32)>>,
    /// By namespace, spec and labels of pods that were left: whom PodDisruptionBudgets keep, where that was asked for.
    pub(crate) kept: FxHashMap<(Sym, SpecId, LabelsId), Kept>,
}

/// Pods that would give way to one of higher priority, but for PodDisruptionBudgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Their node, by name.
    pub node: Sym,
    /// Who would have to go, by `namespace/name`, most important first.
    pub pods: Vec<Box<str>>,
    /// The budgets in the way, by `namespace/name`, each with how many more pods it lets go.
    pub budgets: Vec<(Box<str>, i32)>,
}

/// Binds what finds a node that exists: it is pending no more. Neither is who is expected on a node that comes up.
pub(crate) fn bind(cluster: &mut Cluster, launching: &Launching, placing: Placing<'_>) -> Existing {
    let rows = ExpectedRows::new(cluster, placing.expected, placing.drawers);
    let first = come_first::rows_of(cluster, placing.come_first);
    come_first::put_first(cluster, &first);
    let waiting = waiting(cluster, placing.expected, placing.waited_for);
    come_first::put_last(cluster, &waiting.named_last);
    let mut existing = bind_now(cluster, launching, (&rows, first, waiting), placing);
    existing.settled = rows.settle(cluster, placing.counts_on(), existing.on_nodes.values().flatten());
    existing
}

fn bind_now(
    cluster: &mut Cluster,
    launching: &Launching,
    (rows, first, waiting): (&ExpectedRows, ComeFirst, Waiting),
    placing: Placing<'_>,
) -> Existing {
    let queue = placing.queue();
    let mut existing = Existing::default();
    let has_pending = cluster.pending.iter().any(|row| row.members.iter().any(|run| !run.is_empty()));
    let must_draw = cluster.specs.iter().any(|spec| spec.reservation.affinity.is_some());
    let binds = cluster.reservations.iter().any(is_to_be_bound);
    let has_nodes = cluster.nodes.iter().any(Node::is_up);
    if !binds && (!has_pending || (!has_nodes && !must_draw)) {
        return existing;
    }
    if queue.preempts {
        expect_replacements(cluster);
    }
    let universe = Universe::with_scores(cluster);
    let mut scheduler = Scheduler::new(cluster, &universe, launching.launchable(cluster, &universe));
    scheduler.expect(rows.to_schedule());
    scheduler.let_wait(rows.with_drawers(waiting));
    scheduler.let_come_first(first);
    let left = scheduler.run(queue);
    for (class, _) in left {
        if placing.names_budgets && !cluster.budgets.is_empty() {
            existing.note_kept(&mut scheduler, cluster, &universe, class);
        }
        if let Some(spec) = spec_of_drawer(cluster, &universe, class) {
            let mut refusals = scheduler.refusals(class);
            if refusals.len() == scheduler.reservation_refusals(class).len() {
                // Of no node at all.
                refusals.insert(0, (reasons::AFFINITY.to_owned(), 0));
            }
            existing.refusals.insert(spec, refusals);
        }
    }
    let unbound: Vec<(ReservationId, Vec<(String, u32)>)> =
        scheduler.pre_allocating().into_iter().map(|id| (id, scheduler.refusals_of_pre_allocation(id))).collect();
    let bindings = scheduler.into_bindings();
    for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Reservation) {
        let names = row.members.iter().map(|run| run.name.clone());
        existing.stand_ins.extend(names.map(|name| (name, (row.namespace, row.spec, row.labels))));
    }
    for eviction in bindings.evicted() {
        let pod = cluster.nodes.get(eviction.node).and_then(|node| node.pods.get(eviction.pod));
        let name = pod.map(|pod| format!("{}/{}", cluster.symbols.text(pod.namespace), pod.name).into());
        existing.preempted.entry(eviction.node).or_default().extend(name);
    }
    for placement in bindings.apply(cluster) {
        existing.on_nodes.entry(placement.node).or_default().push(placement);
    }
    for (id, reasons) in unbound {
        existing.leave(id, reasons, cluster);
    }
    existing
}

/// Whether a Reservation takes a node that exists, for its running pods, or none.
pub(crate) fn is_to_be_bound(reservation: &Reservation) -> bool {
    reservation.phase == Phase::Pending && reservation.pre_allocation.is_some() && !reservation.is_terminating
}

/// The spec of a class of pods that must draw from a Reservation, and may.
fn spec_of_drawer(cluster: &Cluster, universe: &Universe, class: ClassId) -> Option<SpecId> {
    let class = universe.class(class).filter(|class| class.kind == MemberKind::Pod)?;
    let spec = cluster.spec(class.spec)?;
    (spec.reservation.affinity.is_some() && berth_scheduling::reservation::is_open(spec)).then_some(class.spec)
}

impl Existing {
    /// Notes who would give way to pods of a class but for PodDisruptionBudgets.
    fn note_kept(&mut self, scheduler: &mut Scheduler<'_>, cluster: &Cluster, universe: &Universe, class: ClassId) {
        let Some(KeptByBudgets { node, pods, budgets }) = scheduler.kept_by_budgets(class) else { return };
        let Some(node) = cluster.nodes.get(node) else { return };
        let text = |sym| cluster.symbols.text(sym);
        let pods = pods.into_iter().filter_map(|at| node.pods.get(at));
        let pods = pods.map(|pod| format!("{}/{}", text(pod.namespace), pod.name).into());
        let budgets = budgets.into_iter().filter_map(|at| cluster.budgets.get(at));
        let budgets =
            budgets.map(|budget| (format!("{}/{}", text(budget.namespace), text(budget.name)).into(), budget.allowed));
        let kept = Kept { node: node.name, pods: pods.collect(), budgets: budgets.collect() };
        let rows = universe.class(class).into_iter().flat_map(|class| &class.rows);
        for row in rows.filter_map(|row| cluster.row(*row)) {
            self.kept.insert((row.namespace, row.spec, row.labels), kept.clone());
        }
    }

    /// Leaves a Reservation that pre-allocates pending, for these reasons: nothing is launched for it.
    fn leave(&mut self, id: ReservationId, mut reasons: Vec<(String, u32)>, cluster: &mut Cluster) {
        let Some(known) = cluster.reservation(id) else { return };
        let Some(template) = known.template else { return };
        let name = cluster.symbols.text(known.name).into();
        if reasons.is_empty() {
            let is_any_up = cluster.nodes.iter().any(Node::is_up);
            let why = if is_any_up { UNBOUND } else { NO_NODE_UP };
            reasons.push((why.to_owned(), 0));
        }
        let mut spec = cluster.spec(template.spec).cloned().unwrap_or_default();
        // Of its own, as its reasons are.
        spec.reservation.reserves = Some(id);
        spec.refusal = Some(Refusal(UNBOUND.to_owned()));
        let spec = cluster.intern_spec(spec);
        if let Some(row) = cluster.pending_row(MemberKind::Reservation, template.namespace, spec, template.labels) {
            row.members.push(MemberRun { name, numbers: None });
        }
        self.refusals.insert(spec, reasons);
    }

    /// The pods that give way on a node.
    pub(crate) fn preempted(&self, node: usize) -> &[Box<str>] {
        self.preempted.get(&node).map_or(&[], Vec::as_slice)
    }

    /// How many there are of a kind.
    pub(crate) fn count(&self, kind: MemberKind) -> u64 {
        self.on_nodes.values().flatten().filter(|placement| placement.kind == kind).count() as u64
    }

    /// What of a kind goes to a node.
    pub(crate) fn on_node(&self, node: usize, kind: MemberKind) -> impl Iterator<Item = &Placement> {
        let placements = self.on_nodes.get(&node).into_iter().flatten();
        placements.filter(move |placement| placement.kind == kind)
    }
}
