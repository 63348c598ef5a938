//! NodePool limits: how many more nodes of a type a pool may hold.

use berth_model::{ColumnId, PoolId, Resources};

use crate::tables::Tables;
use crate::world::World;

impl Tables<'_> {
    /// Whether limits, minValues or shares may rule out a column that is otherwise best.
    pub(crate) fn keeps_all(&self, pool: PoolId) -> bool {
        !self.shares.is_empty() || self.is_limited(pool) || !self.table(pool).min_values.is_empty()
    }

    /// What counts against limits when a column of a pool is launched.
    pub(crate) fn capacity(&self, pool: PoolId, column: ColumnId) -> Option<&Resources> {
        let column = self.table(pool).column(column);
        self.cluster.instance_types.get(column.instance_type as usize).map(|known| &known.resources)
    }

    /// The same of the cheapest column; `None` where the pool has none.
    pub(crate) fn first_capacity(&self, pool: PoolId) -> Option<&Resources> {
        let (first, _) = self.table(pool).with_ids().next()?;
        self.capacity(pool, first)
    }

    /// Whether a pool has limits at all.
    pub(crate) fn is_limited(&self, pool: PoolId) -> bool {
        self.definition(pool).is_some_and(|pool| !pool.limits.is_empty() || pool.node_limit.is_some())
    }

    /// Whether a node of `column` would be within the pool's limits beside the nodes that exist.
    pub(crate) fn fits_alone(&self, pool: PoolId, column: ColumnId) -> bool {
        let (Some(definition), Some(capacity)) = (self.definition(pool), self.capacity(pool, column)) else {
            return false;
        };
        definition.limits.iter().all(|(resource, limit)| {
            let each = capacity.get(*resource);
            each <= 0 || definition.used.get(*resource).saturating_add(each) <= *limit
        })
    }
}

impl World<'_> {
    /// Whether limits may refuse one more node of some column of the pool.
    pub(crate) fn is_tight(self, pool: PoolId) -> bool {
        let (Some(definition), Some((used, nodes)), Some(largest)) =
            (self.tables.definition(pool), self.ledger.state.pool_use(pool), self.tables.largest.get(pool.index()))
        else {
            return true;
        };
        definition.node_limit.is_some_and(|limit| nodes >= u64::from(limit))
            || definition.limits.iter().any(|&(resource, limit)| limit - used.get(resource) < largest.get(resource))
    }

    /// How many nodes of `column` the pool's limits still hold, each in place of one of `instead` where that is given.
    pub(crate) fn allowance(self, pool: PoolId, column: ColumnId, instead: Option<ColumnId>) -> u32 {
        let (Some(definition), Some((used, nodes))) = (self.tables.definition(pool), self.ledger.state.pool_use(pool))
        else {
            return 0;
        };
        let Some(capacity) = self.tables.capacity(pool, column) else { return 0 };
        let given_up = instead.and_then(|column| self.tables.capacity(pool, column));
        let mut allowance = i64::from(u32::MAX);
        if let (Some(limit), None) = (definition.node_limit, instead) {
            let left = u64::from(limit).saturating_sub(nodes);
            allowance = allowance.min(i64::try_from(left).unwrap_or(i64::MAX));
        }
        for &(resource, limit) in &definition.limits {
            let each = capacity.get(resource) - given_up.map_or(0, |capacity| capacity.get(resource));
            if each > 0 {
                allowance = allowance.min((limit - used.get(resource)).max(0) / each);
            }
        }
        u32::try_from(allowance).unwrap_or(u32::MAX)
    }

    /// The limit that keeps a pool from one more node of `column`, by resource name.
    pub(crate) fn exceeded_limit(self, pool: PoolId, column: ColumnId) -> Option<String> {
        let definition = self.tables.definition(pool)?;
        let (used, nodes) = self.ledger.state.pool_use(pool)?;
        if definition.node_limit.is_some_and(|limit| nodes >= u64::from(limit)) {
            return Some("nodes".to_owned());
        }
        let capacity = self.tables.capacity(pool, column)?;
        let (resource, _) = definition.limits.iter().find(|(resource, limit)| {
            capacity.get(*resource) > 0 && used.get(*resource).saturating_add(capacity.get(*resource)) > *limit
        })?;
        let name = self.tables.cluster.resource_names.name(*resource)?;
        Some(self.tables.cluster.symbols.text(name).to_owned())
    }
}
