//! Pods that no cluster makes, or that no scheduler sees.

use berth_model::{Cluster, Sym};

use crate::fate::Fate;
use crate::maps::{FxIndexMap, FxIndexSet, Texts};
use crate::node_record::NodeRecord;
use crate::pod_record::PodRecord;
use crate::workloads::{Workload, Workloads};

/// Takes away what workloads want in namespaces that are being deleted, where the API server creates nothing, and what those
/// want whose template names a node that is not there; says so.
pub(crate) fn want_none(
    (terminating, nodes): (&FxIndexSet<Sym>, &FxIndexMap<Sym, NodeRecord>),
    workloads: &mut Workloads,
    cluster: &Cluster,
    warnings: &mut Texts,
) {
    let text = |sym| cluster.symbols.text(sym);
    for at in 0..workloads.len() {
        let Some(workload) = workloads.get(at).filter(|workload| workload.wants > 0) else { continue };
        let &Workload { kind, namespace, name, node, .. } = workload;
        let whose = format!("{} {}/{}", kind.name(), text(namespace), text(name));
        if terminating.contains(&namespace) {
            warnings.insert(format!("{whose}: its namespace is being deleted, so no pods are created"));
        } else if let Some(node) = node.filter(|node| !nodes.contains_key(node)) {
            warnings.insert(format!(
                "{whose}: its template names the node {}, which is not in the input; nothing is launched for its pods",
                text(node)
            ));
        } else {
            continue;
        }
        workloads.want_none(at);
    }
}

/// The same of single pods that are yet to be created.
pub(crate) fn let_go(
    terminating: &FxIndexSet<Sym>,
    (pods, fates): (&[PodRecord], &mut [Fate]),
    cluster: &Cluster,
    warnings: &mut Texts,
) {
    for (pod, fate) in pods.iter().zip(fates) {
        if *fate == Fate::Pending && pod.is_new() && terminating.contains(&pod.namespace) {
            let namespace = cluster.symbols.text(pod.namespace);
            warnings
                .insert(format!("Pod {namespace}/{}: would not be created: its namespace is being deleted", pod.name));
            *fate = Fate::Gone;
        }
    }
}
