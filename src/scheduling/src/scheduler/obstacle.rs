//! Why a node refuses a class.

use berth_model::CounterId;

use super::index::Index;
use super::shape::Shape;
use super::values::{Beside, Values};
use super::world::World;
use crate::filter::{self, Obstacle};
use crate::node_fit::Seen;

/// Of a counter by node: what one node has, and what to take for it.
pub(super) type Instead<'i> = &'i dyn Fn(CounterId) -> Option<(u32, u32)>;
/// Of a spread rule on hosts, by its position among all spread rules: the least count, and over how many nodes.
pub(super) type LeastOnHosts<'l> = &'l dyn Fn(usize, Instead<'_>) -> (u32, u32);

impl World<'_> {
    /// The first filter that keeps a class off a node: with the pods that room is held for, then without.
    pub(super) fn obstacle(&self, index: &Index, values: &Values, node: usize) -> Option<Obstacle> {
        let least_on_hosts = |rule: usize, instead: Instead<'_>| index.least_on_hosts(rule, instead);
        self.obstacle_to((&index.shape, index.shape.spec.priority), (values, &least_on_hosts), node)
    }

    /// The same of a class that may have no index of its own: what it asks, its priority, and the values of its rules.
    pub(super) fn obstacle_to(
        &self,
        (shape, priority): (&Shape, i32),
        (values, least_on_hosts): (&Values, LeastOnHosts<'_>),
        node: usize,
    ) -> Option<Obstacle> {
        let spec = &*shape.spec;
        let (fixed, seen) = (self.cluster.node(node)?, self.seen(node, spec)?);
        let domains = shape.domains_of(fixed);
        let check = |seen: &Seen<'_>, values: &Values, is_claim_held: bool| {
            let on_node = &*seen.state;
            let room = || self.room(node, seen, spec).err();
            filter::before_load(self.cluster, fixed, spec)
                .or_else(|| {
                    filter::load(fixed, spec, on_node, room, || is_claim_held || self.is_claim_taken(seen, spec))
                })
                .or_else(|| filter::volumes(self.cluster, fixed, spec))
                .or_else(|| shape.obstacle(values, &domains, |counter| on_node.host_counts.get(counter)))
        };
        if let Some(obstacle) = self.reserve_obstacle(shape.class, node) {
            return Some(obstacle);
        }
        if let Some(with_held) = self.with_held(node, &seen, priority) {
            let mut beside = Beside { domains: domains.clone(), ..Beside::default() };
            let counters = self.held(node, priority).flat_map(|(class, _)| class.counts_in.iter().copied());
            for counter in counters.filter(|counter| self.counts_on(*counter, node)) {
                *beside.pods.entry(counter).or_default() += 1;
            }
            let mut with_values = shape.values(self.state, &beside, |rule| {
                least_on_hosts(rule, &|counter| {
                    let counts = (seen.state.host_counts.get(counter), with_held.state.host_counts.get(counter));
                    self.counts_on(counter, node).then_some(counts)
                })
            });
            with_values.is_indifferent = values.is_indifferent;
            // kube-scheduler counts the claims of these pods only where it looks at disks, too.
            let claims = &spec.volumes.exclusive_claims;
            let is_claim_held = !spec.volumes.disks.is_empty()
                && self
                    .held(node, priority)
                    .any(|(_, held)| held.volumes.exclusive_claims.iter().any(|claim| claims.contains(claim)));
            if let Some(obstacle) = check(&with_held, &with_values, is_claim_held) {
                return Some(obstacle);
            }
        }
        check(&seen, values, false)
    }
}
