//! Nodes and NodeClaims as they are read.

use std::collections::BTreeMap;

use berth_api::labels;
use berth_api::{NodeClaim, Operator};
use berth_model::{Cluster, Cordon, Effect, Requirements, Sym, Symbols, Taint};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSINode;

use crate::Problem;
use crate::in_flight::read_asked;
use crate::node_record::{Asked, NodeClaimRecord, NodeRecord};
use crate::node_reservation::Kept;
use crate::quantities::{Amounts, Named, room};
use crate::taints::read_taints;
use crate::terms::node_labels;

pub(crate) fn read_node(name: Sym, node: &core::Node, cluster: &mut Cluster) -> Result<NodeRecord, Problem> {
    let spec = node.spec.as_ref();
    let unschedulable = spec.and_then(|spec| spec.unschedulable) == Some(true);
    let spec_taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let mut taints = read_taints(spec_taints, &mut cluster.symbols).map_err(|problem| problem.under("spec.taints"))?;
    let mut state = Cordon::None;
    if unschedulable {
        let cordon = Taint {
            key: cluster.symbols.intern(labels::UNSCHEDULABLE_TAINT),
            value: cluster.symbols.intern(""),
            effect: Effect::NoSchedule,
        };
        state = Cordon::Tainted;
        if !taints.iter().any(|taint| taint.key == cordon.key && taint.effect == cordon.effect) {
            state = Cordon::Untainted;
            taints.push(cordon);
        }
    }
    let disrupted = cluster.symbols.intern(labels::DISRUPTED_TAINT);
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let capacity = status.and_then(|status| status.capacity.as_ref()).or(allocatable);
    let provider_id = spec.and_then(|spec| spec.provider_id.as_deref());
    Ok(NodeRecord {
        name,
        labels: node_labels(node.metadata.labels.iter().flatten(), &mut cluster.symbols),
        open: Requirements::new(),
        is_deleting: node.metadata.deletion_timestamp.is_some()
            || taints.iter().any(|taint| taint.key == disrupted && taint.effect == Effect::NoSchedule),
        taints,
        allocatable: room(allocatable.or(capacity), cluster).map_err(|problem| problem.under("status.allocatable"))?,
        capacity: room(capacity, cluster).map_err(|problem| problem.under("status.capacity"))?,
        kept: Kept::read(node.metadata.annotations.as_ref(), cluster)?,
        provider_id: provider_id.filter(|id| !id.is_empty()).map(|id| cluster.symbols.intern(id)),
        cordon: state,
        images: status.map(|status| read_images(status, cluster)).unwrap_or_default(),
    })
}

fn read_images(status: &core::NodeStatus, cluster: &mut Cluster) -> Vec<(Sym, i64)> {
    let mut images = Vec::new();
    for image in status.images.iter().flatten() {
        let size = image.size_bytes.unwrap_or(0).max(0);
        images.extend(image.names.iter().flatten().map(|name| (cluster.symbols.intern(name), size)));
    }
    images.sort_unstable();
    images.dedup_by_key(|(name, _)| *name);
    images
}

pub(crate) fn read_node_claim(name: Sym, claim: &NodeClaim, cluster: &mut Cluster) -> Result<NodeClaimRecord, Problem> {
    let status = claim.status.as_ref();
    let mut pairs: BTreeMap<&String, &String> = BTreeMap::new();
    for requirement in &claim.spec.requirements {
        if let (Operator::In, [value]) = (requirement.operator, requirement.values.as_slice()) {
            pairs.insert(&requirement.key, value);
        }
    }
    pairs.extend(claim.metadata.labels.iter().flatten());
    let mut amounts = |list: Option<&berth_api::ResourceList>, field: &str| {
        let amounts = list.map(|list| Amounts::read_exact(list, Named::Offered, cluster)).transpose();
        amounts.map(|amounts| amounts.unwrap_or_default().rounded_down()).map_err(|problem| problem.under(field))
    };
    let allocatable = amounts(status.map(|status| &status.allocatable), "status.allocatable")?;
    let capacity = amounts(status.map(|status| &status.capacity), "status.capacity")?;
    let kept = Kept::read(claim.metadata.annotations.as_ref(), cluster)?;
    let provider_id = status.and_then(|s| s.provider_id.as_deref()).filter(|id| !id.is_empty());
    // What it asked for says nothing of an instance that is there, and is long: it lists every type that would do.
    let asked = if provider_id.is_some() {
        Asked::default()
    } else {
        let own = node_labels(claim.metadata.labels.iter().flatten(), &mut cluster.symbols);
        read_asked(claim, &own, cluster)?
    };
    let symbols = &mut cluster.symbols;
    let node_name = status.and_then(|s| s.node_name.as_deref()).filter(|name| !name.is_empty());
    Ok(NodeClaimRecord {
        node: NodeRecord {
            name,
            labels: node_labels(pairs, symbols),
            open: Requirements::new(),
            taints: read_taints(&claim.spec.taints, symbols).map_err(|problem| problem.under("spec.taints"))?,
            allocatable,
            capacity,
            kept,
            provider_id: provider_id.map(|id| symbols.intern(id)),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
            cordon: Cordon::None,
            images: Vec::new(),
        },
        startup_taints: read_taints(&claim.spec.startup_taints, symbols)
            .map_err(|problem| problem.under("spec.startupTaints"))?,
        node_name: node_name.map(|name| symbols.intern(name)),
        is_launched: provider_id.is_some(),
        asked,
    })
}

/// Volumes that may be attached, by driver.
pub(crate) fn read_attach_limits(node: &CSINode, symbols: &mut Symbols) -> Vec<(Sym, u32)> {
    node.spec
        .drivers
        .iter()
        .filter_map(|driver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((symbols.intern(&driver.name), u32::try_from(count).unwrap_or(0)))
        })
        .collect()
}
