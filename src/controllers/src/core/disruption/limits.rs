//! Limits of NodePools while it is not decided yet which of their nodes go.
//!
//! A node that is to go counts no more as soon as it has its taint, and what takes its place counts. Between the two others would
//! have the room that it leaves: it would find nothing to be replaced by, and its NodePool would be beyond its limits for good.

use berth_decisions::Launch;
use berth_model::{NodePool, Resources};
use jiff::Timestamp;

use super::taint::disruption_taint;
use crate::core::Core;
use crate::view::pool_of;

impl Core {
    /// Why a node may not be launched for pods that wait, with the nodes counted that may go or stay; `None` where it may.
    pub(in crate::core) fn over_limits_if_nodes_stay(&mut self, launch: &Launch, now: Timestamp) -> Option<String> {
        let pool_name = &*launch.node_pool.key.name;
        let types: Vec<String> = self
            .disrupting
            .undecided()
            .filter_map(|name| self.view.nodes.get(name))
            .filter(|node| disruption_taint(node).is_some() && pool_of(&node.metadata) == Some(pool_name))
            .map(|node| {
                let labels = node.metadata.labels.as_ref();
                labels.and_then(|labels| labels.get(berth_api::labels::INSTANCE_TYPE)).cloned().unwrap_or_default()
            })
            .collect();
        if types.is_empty() {
            return None;
        }
        let cluster = self.state.cluster(now);
        let pool = cluster.node_pools.iter().find(|pool| cluster.symbols.text(pool.name) == pool_name)?;
        let mut more = Resources::new();
        for name in types.iter().chain([&launch.offering.instance_type]) {
            let known = cluster.instance_types.iter().find(|known| cluster.symbols.text(known.name) == name);
            if let Some(known) = known {
                more.add(&known.resources);
            }
        }
        let count = u32::try_from(types.len()).unwrap_or(u32::MAX).saturating_add(1);
        exceeds(pool, count, &more).then(|| {
            "its limits would be exceeded if nodes stay of which it is being decided whether they go".to_owned()
        })
    }
}

/// Whether a NodePool's limits do not hold so many nodes more, which have so much.
fn exceeds(pool: &NodePool, count: u32, more: &Resources) -> bool {
    pool.node_limit.is_some_and(|limit| pool.nodes.saturating_add(count) > limit)
        || pool.limits.iter().any(|(resource, limit)| {
            more.get(*resource) > 0 && pool.used.get(*resource).saturating_add(more.get(*resource)) > *limit
        })
}
