//! What NodePools may launch for pods, as far as taints and labels tell.

use berth_model::{Cluster, ColumnTable, NodePool, PodSpec, Requirements, first_untolerated};
use fixedbitset::FixedBitSet;

/// The columns that may take pods of a spec, as far as taints and labels tell.
pub(crate) fn columns_of(cluster: &Cluster, pool: &NodePool, table: &ColumnTable, spec: &PodSpec) -> FixedBitSet {
    let symbols = &cluster.symbols;
    if first_untolerated(&pool.taints, &spec.tolerations, false, symbols).is_some() {
        return FixedBitSet::with_capacity(table.columns.len());
    }
    let mut columns = table.admitting(&spec.node_selector, symbols);
    if !spec.required_terms.is_empty() {
        let mut any = FixedBitSet::with_capacity(table.columns.len());
        spec.required_terms.iter().for_each(|term: &Requirements| any.union_with(&table.admitting(term, symbols)));
        columns.intersect_with(&any);
    }
    columns
}
