//! Pods that come before others of their priority, and those that come after others that are alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Cluster, MemberKind, MemberRun, RowId};
use berth_scheduling::ComeFirst;

use crate::expected::write_name;

/// By row of the cluster: which of its pods have these names. Who is pending is looked through only where there are some.
pub(crate) fn rows_of(cluster: &Cluster, names: &BTreeSet<Box<str>>) -> ComeFirst {
    let mut rows = ComeFirst::new();
    if names.is_empty() {
        return rows;
    }
    let mut name = String::new();
    for (id, row) in cluster.rows().filter(|(_, row)| row.kind == MemberKind::Pod) {
        for run in row.members.iter().filter(|run| run.numbers.is_none()) {
            write_name(&mut name, cluster, row, run);
            if names.contains(&*name) {
                rows.entry(id).or_default().insert(Arc::clone(&run.name));
            }
        }
    }
    rows
}

/// Makes them the first of their rows: alike pods are named in the order of the input.
pub(crate) fn put_first(cluster: &mut Cluster, rows: &ComeFirst) {
    for (id, first) in rows {
        if let Some(row) = cluster.row_mut(*id) {
            row.members.sort_by_key(|run| comes_later(run, first));
        }
    }
}

/// Makes those with these names the last of their rows.
pub(crate) fn put_last(cluster: &mut Cluster, rows: &BTreeMap<RowId, BTreeSet<Arc<str>>>) {
    for (id, last) in rows {
        if let Some(row) = cluster.row_mut(*id) {
            row.members.sort_by_key(|run| is_last(run, last));
        }
    }
}

/// Whether one is among those who come last of its row.
pub(crate) fn is_last(run: &MemberRun, last: &BTreeSet<Arc<str>>) -> bool {
    run.numbers.is_none() && last.contains(&run.name)
}

/// Whether one is not among those who come first of its row.
pub(crate) fn comes_later(run: &MemberRun, first: &BTreeSet<Arc<str>>) -> bool {
    run.numbers.is_some() || !first.contains(&run.name)
}
