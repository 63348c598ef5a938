//! Pods and Reservations that the scheduler bound to existing nodes: classes of their own on the page, alike in what they
//! request, with their names in the order of nodes.

use std::collections::BTreeMap;

use berth_model::{MemberKind, Resources};

use crate::Plan;
use berth_decisions::Also;

/// What was bound and requests the same.
#[derive(Default)]
pub(super) struct BoundClass<'a> {
    pub(super) is_reservation: bool,
    pub(super) requests: Resources,
    pub(super) names: Vec<&'a str>,
}

/// The classes, and by node how many of which, with the position of the first.
#[derive(Default)]
pub(super) struct Bound<'a> {
    /// How many classes of the plan come before these.
    pub(super) n_pending: usize,
    pub(super) classes: Vec<BoundClass<'a>>,
    pub(super) on_nodes: BTreeMap<usize, Vec<(usize, u32, u32)>>,
}

impl<'a> Bound<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let classes = &plan.universe.classes;
        // Classes that only run come last and are on no bin.
        let n_pending = classes.iter().rposition(|class| class.count > 0).map_or(0, |last| last + 1);
        let mut bound = Bound { n_pending, ..Bound::default() };
        let mut ids: BTreeMap<(bool, Vec<i64>), usize> = BTreeMap::new();
        for entry in &plan.solution.nodes {
            for kind in [MemberKind::Pod, MemberKind::Reservation] {
                for also in plan.allocation.on_node(entry.node, kind, &plan.cluster) {
                    let requests = requests(plan, entry.node, kind, &also);
                    let is_reservation = kind == MemberKind::Reservation;
                    let id = *ids.entry((is_reservation, requests.amounts().to_vec())).or_insert_with(|| {
                        bound.classes.push(BoundClass { is_reservation, requests, names: Vec::new() });
                        bound.classes.len() - 1
                    });
                    let Some(class) = bound.classes.get_mut(id) else { continue };
                    let first = u32::try_from(class.names.len()).unwrap_or(u32::MAX);
                    class.names.push(also.name);
                    let contents = bound.on_nodes.entry(entry.node).or_default();
                    match contents.iter_mut().find(|(known, ..)| *known == id) {
                        Some((_, count, _)) => *count += 1,
                        None => contents.push((id, 1, first)),
                    }
                }
            }
        }
        bound
    }

    /// What is on a node requests in all.
    pub(super) fn requests(&self, node: usize) -> Resources {
        let mut sum = Resources::new();
        for (id, count, _) in self.on_nodes.get(&node).into_iter().flatten() {
            if let Some(class) = self.classes.get(*id) {
                sum.add_times(&class.requests, i64::from(*count));
            }
        }
        sum
    }
}

fn requests(plan: &Plan, node: usize, kind: MemberKind, also: &Also<'_>) -> Resources {
    let cluster = &plan.cluster;
    let found = match kind {
        MemberKind::Pod => cluster.nodes.get(node).and_then(|node| {
            let named = |pod: &&berth_model::BoundPod| {
                let (namespace, name) = also.name.split_once('/').unwrap_or_default();
                *pod.name == *name && cluster.symbols.text(pod.namespace) == namespace
            };
            let spec = node.pods.iter().rev().find(named)?.spec;
            cluster.spec(spec).map(|spec| spec.requests.clone())
        }),
        MemberKind::Reservation => {
            let named = |known: &&berth_model::Reservation| cluster.symbols.text(known.name) == also.name;
            cluster.reservations.iter().find(named).map(|known| known.allocatable.clone())
        }
    };
    found.unwrap_or_default()
}
