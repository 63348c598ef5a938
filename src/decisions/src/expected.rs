//! Pods that nodes were launched for come to these nodes, and are planned for no others meanwhile.

use std::collections::BTreeMap;

use berth_model::{BoundPod, Cluster, MemberKind, PodStage, Sym};
use berth_scheduling::Placement;
use rustc_hash::FxHashMap;

/// By `namespace/name` of a pending pod: the node that was launched for it, or the NodeClaim that the node is to be of.
///
/// Pods that are alike stand in for each other: which of them comes to which of their nodes is not decided by name.
pub type ExpectedNodes = BTreeMap<Box<str>, Box<str>>;

/// Where pods of each row of the input are expected.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// By row: how many are expected on a node, by index.
    counts: BTreeMap<u32, BTreeMap<usize, u32>>,
    /// The row of each pod that may come to such a node.
    row_of: FxHashMap<Box<str>, u32>,
}

// === impl Rows ===

impl Rows {
    /// Those of a cluster, before anything is placed.
    pub(crate) fn new(cluster: &Cluster, names: &ExpectedNodes) -> Self {
        let mut rows = Rows::default();
        if names.is_empty() {
            return rows;
        }
        let mut nodes: FxHashMap<Sym, Option<usize>> =
            names.values().filter_map(|name| Some((cluster.symbols.get(name)?, None))).collect();
        for (at, node) in cluster.nodes.iter().enumerate() {
            if let Some(known) = nodes.get_mut(&node.name) {
                *known = Some(at);
            }
        }
        let node_of = |pod: &str| *nodes.get(&cluster.symbols.get(names.get(pod)?)?)?;
        for (row, id) in cluster.pending.iter().zip(0..).filter(|(row, _)| row.kind == MemberKind::Pod) {
            let namespace = cluster.symbols.text(row.namespace);
            let members = row.members.iter().filter(|run| run.numbers.is_none());
            let pods: Vec<Box<str>> = members.map(|run| format!("{namespace}/{}", run.name).into()).collect();
            let mut is_expected = false;
            for node in pods.iter().filter_map(|pod| node_of(pod)) {
                *rows.counts.entry(id).or_default().entry(node).or_default() += 1;
                is_expected = true;
            }
            if is_expected {
                rows.row_of.extend(pods.into_iter().map(|pod| (pod, id)));
            }
        }
        rows
    }

    /// As the scheduler takes them.
    pub(crate) fn to_schedule(&self) -> berth_scheduling::Expected {
        self.counts.iter().map(|(row, nodes)| (*row, nodes.iter().map(|(node, n)| (*node, *n)).collect())).collect()
    }

    /// Puts those who did not come yet onto their nodes in the cluster, where there is room: nothing else is planned for
    /// them. Says who is to come where.
    pub(crate) fn settle<'p>(
        mut self,
        cluster: &mut Cluster,
        placed: impl IntoIterator<Item = &'p Placement>,
    ) -> Vec<(Box<str>, usize)> {
        for placement in placed.into_iter().filter(|placement| placement.kind == MemberKind::Pod) {
            let row = self.row_of.get(&placement.name).and_then(|row| self.counts.get_mut(row));
            if let Some(count) = row.and_then(|nodes| nodes.get_mut(&placement.node)) {
                *count = count.saturating_sub(1);
            }
        }
        let mut settled = Vec::new();
        for (id, nodes) in self.counts {
            let Cluster { pending, nodes: all, specs, symbols, .. } = &mut *cluster;
            let Some(row) = pending.get_mut(id as usize) else { continue };
            let Some(spec) = specs.get(row.spec as usize) else { continue };
            let mut free = nodes.into_iter().flat_map(|(node, count)| (0..count).map(move |_| node)).peekable();
            row.members.retain(|run| {
                let is_full = |node: &usize| all.get(*node).is_none_or(|node| !spec.requests.fits(&node.free));
                while free.next_if(is_full).is_some() {}
                let next = free.next_if(|_| run.numbers.is_none());
                let Some((node, at)) = next.and_then(|at| Some((all.get_mut(at)?, at))) else { return true };
                node.free.subtract(&spec.requests);
                node.pods.push(BoundPod {
                    namespace: row.namespace,
                    name: run.name.clone(),
                    spec: row.spec,
                    labels: row.labels,
                    stage: PodStage::Planned,
                    started: i64::MAX,
                    draws_from: None,
                    candidate: None,
                    replaced_by: None,
                    assigned: None,
                });
                settled.push((format!("{}/{}", symbols.text(row.namespace), run.name).into(), at));
                false
            });
        }
        settled
    }
}
