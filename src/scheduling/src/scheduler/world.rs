//! What all who look at nodes read: tables, and the ledger as it is now.

use std::ops::Deref;

use berth_model::{ClassId, CounterId, NodeEdit, PodClass, PodSpec};

use super::ledger::Ledger;
use super::tables::Tables;
use crate::node_changes::add_to;
use crate::node_fit::{NodeFit, Seen};

/// Tables and ledger, to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'w> {
    fit: NodeFit<'w>,
    pub(super) tables: &'w Tables<'w>,
    pub(super) ledger: &'w Ledger,
}

// === impl World ===

impl<'w> World<'w> {
    pub(super) fn new(tables: &'w Tables<'w>, ledger: &'w Ledger) -> Self {
        World { fit: tables.fit(&ledger.state), tables, ledger }
    }

    /// The pods of equal or higher priority that room on a node is held for, and those whose priority is no matter now.
    pub(super) fn held(&self, node: usize, priority: i32) -> impl Iterator<Item = (&PodClass, &PodSpec)> {
        let nominated = self.ledger.nominated.get(&node).into_iter().flatten().map(move |id| (*id, priority));
        let expected = self.ledger.expected.get(&node).into_iter().flatten().map(|id| (*id, i32::MIN));
        nominated.chain(expected).filter_map(|(id, least)| {
            let class = self.universe.class(id)?;
            let spec = self.cluster.spec(class.spec)?;
            (spec.priority >= least).then_some((class, spec))
        })
    }

    /// A node as it would be with those pods; `None` without any.
    pub(super) fn with_held(&self, node: usize, seen: &Seen<'_>, priority: i32) -> Option<Seen<'static>> {
        let mut with: Option<Seen<'static>> = None;
        for (class, spec) in self.held(node, priority) {
            let state = with.get_or_insert_with(|| seen.to_owned()).state.to_mut();
            let hostname = self.cluster.well_known.hostname;
            let is_on_host = |id: &CounterId| self.universe.counter(*id).is_some_and(|c| c.key == hostname);
            let on_host: Vec<CounterId> = class.counts_in.iter().copied().filter(is_on_host).collect();
            add_to(&mut NodeEdit::unrecorded(state), spec, None, &on_host);
        }
        with
    }

    /// Whether room is held for pods of a class on the node that they are nominated to.
    pub(super) fn has_room_held(&self, id: ClassId) -> bool {
        let nominated = &self.ledger.nominated;
        let node = if nominated.is_empty() { None } else { self.tables.nominated_node(id) };
        node.and_then(|node| nominated.get(&node)).is_some_and(|held| held.contains(&id))
    }
}

impl<'w> Deref for World<'w> {
    type Target = NodeFit<'w>;

    fn deref(&self) -> &NodeFit<'w> {
        &self.fit
    }
}
