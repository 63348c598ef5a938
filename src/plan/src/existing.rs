//! Pending pods and Reservations onto the nodes that exist, as the scheduler would bind them, before any node is launched.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, MemberKind, Sym, Universe};
use berth_provisioning::{Options, launchable};
use berth_scheduling::reservation::reasons;
use berth_scheduling::{Placement, Queue, Scheduler};
use rustc_hash::FxHashMap;

/// What the scheduler bound to existing nodes, and why pods that must draw from a Reservation found none.
#[derive(Debug, Default)]
pub(crate) struct Existing {
    /// By node: Reservations, then pods.
    pub(crate) on_nodes: BTreeMap<usize, Vec<Placement>>,
    /// By name of a Reservation: namespace, spec and labels of the pod that stood in for it.
    pub(crate) stand_ins: FxHashMap<Box<str>, (Sym, u32, u32)>,
    /// By spec.
    pub(crate) refusals: FxHashMap<u32, Vec<(String, u32)>>,
}

/// Binds what finds a node that exists: it is pending no more.
pub(crate) fn bind(cluster: &mut Cluster, options: &Options) -> Existing {
    let mut existing = Existing::default();
    let has_pending = cluster.pending.iter().any(|row| row.members.iter().any(|run| !run.is_empty()));
    let must_draw = cluster.specs.iter().any(|spec| spec.reservation.affinity.is_some());
    if !has_pending || (cluster.nodes.iter().all(|node| node.is_coming_up) && !must_draw) {
        return existing;
    }
    let universe = Universe::with_scores(cluster);
    let mut scheduler = Scheduler::new(cluster, &universe, launchable(cluster, &universe, options));
    let left = scheduler.run(Queue { preempts: false, keeps_homes_whole: true });
    for (class, _) in left {
        if let Some(spec) = spec_of_drawer(cluster, &universe, class) {
            let mut refusals = scheduler.refusals(class);
            if refusals.iter().all(|(reason, _)| reason.starts_with("Reservation(s)")) {
                // Of no node at all.
                refusals.insert(0, (reasons::AFFINITY.to_owned(), 0));
            }
            existing.refusals.insert(spec, refusals);
        }
    }
    let bindings = scheduler.into_bindings();
    for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Reservation) {
        let names = row.members.iter().map(|run| run.name.clone());
        existing.stand_ins.extend(names.map(|name| (name, (row.namespace, row.spec, row.labels))));
    }
    for placement in bindings.apply(cluster) {
        existing.on_nodes.entry(placement.node).or_default().push(placement);
    }
    existing
}

/// The spec of a class of pods that must draw from a Reservation, and may.
fn spec_of_drawer(cluster: &Cluster, universe: &Universe, class: ClassId) -> Option<u32> {
    let class = universe.class(class).filter(|class| class.kind == MemberKind::Pod)?;
    let spec = cluster.specs.get(class.spec as usize)?;
    (spec.reservation.affinity.is_some() && berth_scheduling::reservation::is_open(spec)).then_some(class.spec)
}

impl Existing {
    /// How many there are of a kind.
    pub(crate) fn count(&self, kind: MemberKind) -> u64 {
        self.on_nodes.values().flatten().filter(|placement| placement.kind == kind).count() as u64
    }

    /// What of a kind goes to a node: names, with the Reservation that they draw from.
    pub(crate) fn on_node(&self, node: usize, kind: MemberKind) -> impl Iterator<Item = (&str, Option<u32>)> {
        let placements = self.on_nodes.get(&node).into_iter().flatten();
        placements.filter(move |placement| placement.kind == kind).map(|p| (&*p.name, p.draws_from))
    }
}
