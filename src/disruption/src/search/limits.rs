//! What NodePools have of that which their limits count.

use std::collections::BTreeMap;

use berth_decisions::Launch;
use berth_model::NodePool;

use super::Search;

/// By NodePool: what is used of each of its limits, and the limit; that of the number of nodes first.
pub(super) type Used = BTreeMap<String, Vec<(i64, i64)>>;

impl Search<'_> {
    /// The same of the NodePools that these launches are of.
    pub(super) fn used(&mut self, launches: &[Launch]) -> Used {
        let mut used = Used::new();
        if launches.is_empty() {
            return used;
        }
        let cluster = self.state.cluster(self.now);
        for pool in &cluster.node_pools {
            let name = cluster.symbols.text(pool.name);
            if launches.iter().any(|launch| *launch.node_pool.key.name == *name) {
                used.insert(name.to_owned(), limits_of(pool));
            }
        }
        used
    }
}

fn limits_of(pool: &NodePool) -> Vec<(i64, i64)> {
    let nodes = pool.node_limit.map(|limit| (i64::from(pool.nodes), i64::from(limit)));
    let resources = pool.limits.iter().map(|(resource, limit)| (pool.used.get(*resource), *limit));
    nodes.into_iter().chain(resources).collect()
}

/// A NodePool that has more than its limits hold, and more than before.
pub(super) fn exceeded<'u>(before: &Used, after: &'u Used) -> Option<&'u str> {
    let is_more = |(name, now): &(&String, &Vec<(i64, i64)>)| {
        let known = before.get(*name).into_iter().flatten();
        known.zip(*now).any(|((was, _), (is, limit))| is > limit && is > was)
    };
    after.iter().find(is_more).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_exceeded_only_where_more_is_used_than_before() {
        let used = |nodes, cpus| Used::from([("pool".to_owned(), vec![(nodes, 3), (cpus, 16)])]);
        assert_eq!(exceeded(&used(3, 12), &used(3, 16)), None);
        assert_eq!(exceeded(&used(3, 12), &used(3, 18)), Some("pool"));
        assert_eq!(exceeded(&used(3, 12), &used(4, 12)), Some("pool"));
        // Whoever had too much before may have less, or as much.
        assert_eq!(exceeded(&used(5, 24), &used(4, 24)), None);
    }
}
