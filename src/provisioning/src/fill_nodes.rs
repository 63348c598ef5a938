//! Pods onto nodes that exist, which say themselves whether they take them: see [`berth_scheduling::NodeFit`].

use berth_model::{ClassId, MemberKind, Reservation};
use berth_scheduling::reservation::may_share;

use crate::ledger::Ledger;
use crate::prepared::Scope;
use crate::tables::Tables;
use crate::world::World;

impl Tables<'_> {
    // The Reservation that a class stands in for; those of a class are alike.
    fn reserved_by(&self, id: ClassId) -> Option<&Reservation> {
        let class = self.universe.class(id).filter(|class| class.kind == MemberKind::Reservation)?;
        self.cluster.reservation(self.spec(class).reservation.reserves?)
    }
}

impl World<'_> {
    /// How many pods of a demand an existing node takes; at most one where pods draw from Reservations there, or get CPUs
    /// and devices to themselves: what the next one finds depends on what this one gets.
    pub(crate) fn room_on_node(self, scope: &Scope<'_>, node: usize, count: u32) -> u32 {
        let (Some(fixed), Some(state)) = (self.tables.cluster.nodes.get(node), self.ledger.state.nodes().get(node))
        else {
            return 0;
        };
        if scope.pins.iter().any(|&(key, value)| fixed.labels.get(key) != Some(value)) {
            return 0;
        }
        let (fit, spec) = (self.tables.nodes.fit(&self.ledger.state), scope.spec());
        let mut pods =
            if fit.is_plain(spec, node) { scope.requests().times_in(&state.free, count) } else { count.min(1) };
        if pods == 0 || fit.load_obstacle(scope.class, node).is_some() || !self.may_share_node(scope.class, node) {
            return 0;
        }
        if spec.excludes_its_like() {
            pods = pods.min(1);
        }
        pods.min(self.allowance_on_host(&state.host_counts, scope))
    }

    // Whether a Reservation may be on a node with those that this plan puts there; with the others it is asked elsewhere.
    fn may_share_node(self, id: ClassId, node: usize) -> bool {
        let Some(mine) = self.tables.reserved_by(id) else { return true };
        let added = self.ledger.state.nodes().get(node).map_or(&[][..], |state| &state.added);
        added
            .iter()
            .filter_map(|(id, _)| self.tables.reserved_by(*id))
            .all(|other| may_share(mine.policy, other.policy))
    }
}

impl Ledger {
    /// How many pods of a demand an existing node takes in all; nothing changes.
    pub(crate) fn room_on_node_for_all(
        &mut self,
        tables: &Tables<'_>,
        scope: &Scope<'_>,
        node: usize,
        count: u32,
    ) -> u32 {
        if tables.nodes.fit(&self.state).is_plain(scope.spec(), node) {
            return World::new(tables, self).room_on_node(scope, node, count);
        }
        let mark = self.state.mark();
        let pods = self.fill_node(tables, scope, node, count);
        self.state.rollback(mark);
        self.state.forget(mark);
        pods
    }

    /// Binds up to so many pods to existing nodes; returns how many.
    pub(crate) fn fill_nodes(&mut self, tables: &Tables<'_>, scope: &Scope<'_>, count: u32) -> u32 {
        let mut left = count;
        // Room was made for them there.
        let nodes = scope.prepared.nodes_at(tables, scope.pins);
        let named = scope.spec().nominated_node;
        let nominated = named.and_then(|name| tables.cluster.nodes.iter().position(|node| node.name == name));
        for &node in nominated.iter().filter(|node| nodes.contains(node)).chain(&*nodes) {
            if left == 0 {
                break;
            }
            left -= self.fill_node(tables, scope, node, left);
        }
        count - left
    }

    /// Binds up to so many pods to an existing node; returns how many.
    pub(crate) fn fill_node(&mut self, tables: &Tables<'_>, scope: &Scope<'_>, node: usize, count: u32) -> u32 {
        if tables.nodes.fit(&self.state).is_plain(scope.spec(), node) {
            let pods = World::new(tables, self).room_on_node(scope, node, count);
            if pods > 0 {
                tables.nodes.bind_plain(&mut self.state, scope.class, node, pods);
            }
            return pods;
        }
        let mut pods = 0;
        while pods < count && World::new(tables, self).room_on_node(scope, node, 1) > 0 {
            tables.nodes.bind(&mut self.state, scope.class, node);
            pods += 1;
        }
        pods
    }
}
