//! What a change of a node or of its Lease means. Heartbeats come by the thousand and touch nothing but their time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::controllers::taints::has_no_execute;
use crate::core::Core;
use crate::objects::{Labels, Lease};
use crate::store::{Delta, Kept};
use crate::work::Work;

/// What decides where daemons run and what a node is tainted with.
type Facts<'n> = (Option<&'n Labels>, &'n [Taint], bool, Vec<(&'n str, &'n str)>);

fn facts(node: &Node) -> Facts<'_> {
    let spec = node.spec.as_ref();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions = conditions.map(|condition| (condition.type_.as_str(), condition.status.as_str()));
    (
        node.metadata.labels.as_ref(),
        spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default(),
        spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
        conditions.collect(),
    )
}

pub(crate) fn node(core: &mut Core, delta: &Delta<Node>) {
    let name: Arc<str> = delta.key.name.clone();
    let (old, new) = (delta.old.as_deref(), delta.new.as_deref());
    let Some(new) = new else {
        core.heartbeats.forget(&name);
        // Not at once: it may come back, and another watch may know better.
        core.add_after(Work::OrphanedPods(name.clone()), core.options.timings.pod_gc_quarantine);
        add_daemons(core, &name);
        return;
    };
    if crate::controllers::nodes::posted_status(old, new) {
        crate::controllers::nodes::heard(core, &name);
    }
    if old.is_some_and(|old| facts(old) == facts(new) && old.view().is_deleted == new.view().is_deleted) {
        return;
    }
    core.add(Work::NodeTaints(name.clone()));
    if old.is_none() {
        core.add(Work::NodeHealth(name.clone()));
    }
    let placing = |node: &Node| {
        let (labels, taints, _, _) = facts(node);
        (labels.cloned(), taints.to_vec())
    };
    if old.is_none_or(|old| placing(old) != placing(new)) {
        add_daemons(core, &name);
    }
    let no_execute = |node: &Node| -> Vec<Taint> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
    };
    let was = old.map(&no_execute).unwrap_or_default();
    if was != no_execute(new) || (old.is_none() && has_no_execute(new)) {
        let pods: Vec<_> = core.caches.indexes.pods_on.get(&*name).cloned().collect();
        for pod in pods {
            core.add(Work::TaintEviction(pod));
        }
    }
}

fn add_daemons(core: &mut Core, node: &Arc<str>) {
    let sets: Vec<_> = core.caches.daemon_sets.iter().map(|(key, _)| key.clone()).collect();
    for set in sets {
        core.add(Work::DaemonNode(set, node.clone()));
    }
}

pub(crate) fn lease(core: &mut Core, delta: &Delta<Lease>) {
    let Some(lease) = &delta.new else { return };
    let renewed = |lease: &Lease| lease.spec.renew_time.clone();
    if &*delta.key.namespace == "kube-node-lease"
        && delta.old.as_deref().is_none_or(|old| renewed(old) != renewed(lease))
    {
        crate::controllers::nodes::heard(core, &delta.key.name);
    }
}
