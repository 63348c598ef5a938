//! The rules, by theme.

pub(crate) mod affinity;
pub(crate) mod allocations;
pub(crate) mod claims;
pub(crate) mod coverage;
pub(crate) mod disks;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod matching;
pub(crate) mod min_values;
pub(crate) mod money;
pub(crate) mod nodes;
pub(crate) mod ports;
pub(crate) mod scope;
pub(crate) mod shares;
pub(crate) mod spread;
pub(crate) mod units;

use k8s_openapi::api::core::v1::Taint;

use crate::selectors::{NodeView, pod_selects_node};
use crate::taints;
use crate::volumes;
use crate::world::{Pod, World};

/// Why this node is not for this pod, its neighbours and the node's size left aside.
pub(crate) fn why_not(
    world: &World,
    pod: &Pod,
    node: NodeView<'_>,
    node_taints: &[Taint],
    is_new: bool,
) -> Option<(&'static str, String)> {
    if let Some(taint) = taints::untolerated(node_taints, pod.spec.tolerations.as_deref().unwrap_or_default()) {
        return Some(("taints", format!("does not tolerate {taint}")));
    }
    if !pod_selects_node(&pod.spec, node) {
        return Some(("node-selection", "node selector or required node affinity does not match".to_owned()));
    }
    match volumes::conditions(world, pod) {
        Err(reason) => Some(("volumes", format!("cannot be placed anywhere: {reason}"))),
        Ok(conditions) => conditions
            .iter()
            .find(|condition| !volumes::holds(condition, node, is_new))
            .map(|condition| ("volumes", format!("its volume is not for this node: {condition:?}"))),
    }
}
