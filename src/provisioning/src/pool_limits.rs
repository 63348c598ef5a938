//! What a NodePool's limits hold beside the nodes that exist.

use berth_model::{Cluster, ColumnId, ColumnTable, NodePool, Resources};

/// By resource, the most that a type of the table has.
pub(crate) fn largest(cluster: &Cluster, table: &ColumnTable) -> Resources {
    let mut largest = Resources::new();
    for column in &table.columns {
        let Some(known) = cluster.instance_types.get(column.instance_type as usize) else { continue };
        for (resource, amount) in known.resources.iter() {
            largest.set(resource, largest.get(resource).max(amount));
        }
    }
    largest
}

/// Whether a pool's limits hold one more node of a column beside the nodes that exist.
pub(crate) fn is_within_limits(cluster: &Cluster, (pool, table): (&NodePool, &ColumnTable), at: ColumnId) -> bool {
    let known = cluster.instance_types.get(table.column(at).instance_type as usize);
    known.is_some_and(|known| pool.has_room_for(1, &known.resources))
}
