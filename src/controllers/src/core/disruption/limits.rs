//! Limits of NodePools while nodes have the taint of a disruption that may stay.
//!
//! A node with the taint is not counted, and its replacement is. Until that is launched, the node's share of the limits looks free. A
//! node that is launched there for other pods would leave no room for the replacement, and the NodePool would stay beyond its limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{NodeClaim, labels};
use berth_decisions::Launch;
use berth_model::{Cluster, NodePool, Resources};
use jiff::Timestamp;

use crate::core::Core;
use crate::view::pool_of;

/// By NodePool: how many of its nodes may stay that are not counted, and their capacity.
pub(in crate::core) type MayStay = BTreeMap<String, (u32, Resources)>;

impl Core {
    /// What may stay of each NodePool.
    pub(in crate::core) fn may_stay(&mut self, now: Timestamp) -> MayStay {
        let label = |node: &k8s_openapi::api::core::v1::Node| {
            node.metadata.labels.as_ref()?.get(labels::INSTANCE_TYPE).cloned()
        };
        let nodes = self.uncounted_nodes();
        let nodes =
            nodes.filter_map(|node| Some((pool_of(&node.metadata)?.to_owned(), label(node).unwrap_or_default())));
        let nodes: Vec<(String, String)> = nodes.collect();
        let mut may_stay = MayStay::new();
        if nodes.is_empty() {
            return may_stay;
        }
        let cluster = self.state.cluster(now);
        for (pool, instance_type) in nodes {
            let (count, has) = may_stay.entry(pool).or_default();
            *count += 1;
            add_type(has, cluster, &instance_type);
        }
        may_stay
    }

    /// Of the NodeClaims that a command launched of which nothing comes, those that nobody uses and whose NodePool has more than its
    /// limits hold once the command's nodes stay, which are not counted.
    pub(in crate::core) fn beyond_limits(&mut self, replacements: &[String], now: Timestamp) -> Vec<Arc<NodeClaim>> {
        let is_used = |claim: &NodeClaim| {
            let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
            self.view.has_moving_pods(node) || self.view.reservations_on(node).next().is_some()
        };
        let claims = replacements.iter().filter_map(|name| self.view.claims.get(name));
        let mut unused: Vec<Arc<NodeClaim>> = claims.filter(|claim| !is_used(claim)).cloned().collect();
        if unused.is_empty() {
            return unused;
        }
        let may_stay = self.may_stay(now);
        let cluster = self.state.cluster(now);
        let is_beyond = |name: &str| {
            pool_named(cluster, name)
                .zip(may_stay.get(name))
                .is_some_and(|(pool, (count, has))| !pool.has_room_for(*count, has))
        };
        unused.retain(|claim| pool_of(&claim.metadata).is_some_and(is_beyond));
        unused
    }

    /// Why a node may not be launched for pods that wait, as long as these may stay; `None` where it may.
    pub(in crate::core) fn over_limits_if_they_stay(
        &mut self,
        launch: &Launch,
        may_stay: &MayStay,
        now: Timestamp,
    ) -> Option<String> {
        let name = &*launch.node_pool.key.name;
        let (count, mut more) = may_stay.get(name).cloned()?;
        let cluster = self.state.cluster(now);
        let pool = pool_named(cluster, name)?;
        add_type(&mut more, cluster, &launch.offering.instance_type);
        let nodes = if count == 1 { "node" } else { "nodes" };
        (!pool.has_room_for(count + 1, &more)).then(|| {
            format!("its limits would be exceeded with {count} {nodes} of which it is not decided yet whether they go")
        })
    }
}

fn pool_named<'c>(cluster: &'c Cluster, name: &str) -> Option<&'c NodePool> {
    cluster.node_pools.iter().find(|pool| cluster.symbols.text(pool.name) == name)
}

/// Adds what a node of a type has.
fn add_type(to: &mut Resources, cluster: &Cluster, instance_type: &str) {
    let known = cluster.instance_types.iter().find(|known| cluster.symbols.text(known.name) == instance_type);
    if let Some(known) = known {
        to.add(&known.resources);
    }
}
