//! NodePool limits hold with every planned node at its planned type.

use std::collections::BTreeMap;

use crate::quantity::{self, Resources};
use crate::sites::{NODE_POOL, Site};
use crate::violation::Violation;
use crate::world::World;

/// What each pool has in use: existing nodes with their capacity, planned claims with their planned type.
pub(crate) fn in_use(world: &World, sites: &[Site<'_>]) -> BTreeMap<String, Resources> {
    let mut used: BTreeMap<String, Resources> = BTreeMap::new();
    let one_node = Resources::from([("nodes".to_owned(), quantity::whole(1))]);
    for node in world.nodes.values() {
        if let Some(pool) = node.metadata.labels.as_ref().and_then(|l| l.get(NODE_POOL)) {
            let entry = used.entry(pool.clone()).or_default();
            quantity::add(entry, &quantity::from_list(node.status.as_ref().and_then(|s| s.capacity.as_ref())));
            quantity::add(entry, &one_node);
        }
    }
    for claim in sites.iter().filter_map(Site::claim) {
        let entry = used.entry(claim.claim.node_pool.clone()).or_default();
        quantity::add(entry, &one_node);
        if let Some(planned) = world.catalogue.types.get(&claim.claim.offering.instance_type) {
            quantity::add(entry, &planned.resources);
        }
    }
    used
}

/// Existing nodes may be over a limit that was lowered since; then the plan may add nothing of what is over.
pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    let used = in_use(world, sites);
    let before = in_use(world, &[]);
    let amount = |of: &BTreeMap<String, Resources>, pool: &str, resource: &str| {
        of.get(pool).and_then(|r| r.get(resource)).copied().unwrap_or_default()
    };
    for (name, pool) in &world.pools {
        for (resource, limit) in &pool.limits {
            let total = amount(&used, name, resource);
            let running = amount(&before, name, resource);
            if total > *limit && total > running {
                let detail = format!("{resource} {} of limit {}", quantity::show(total), quantity::show(*limit));
                found.push(Violation::new("limits", name, detail));
            }
        }
    }
    // A listed type that alone is more than what running nodes leave can never be launched within the limit.
    for claim in sites.iter().filter_map(Site::claim) {
        for name in &claim.claim.instance_types {
            let Some(listed) = world.catalogue.types.get(name) else {
                continue;
            };
            for (resource, limit) in &claim.pool.limits {
                let of_type = listed.resources.get(resource).copied().unwrap_or_default();
                let running = amount(&before, &claim.claim.node_pool, resource);
                if of_type > 0 && running + of_type > *limit {
                    let detail = format!("lists {name}, whose {resource} is over the limit left by running nodes");
                    found.push(Violation::new("limits", &claim.claim.name, detail));
                }
            }
        }
    }
    found
}
