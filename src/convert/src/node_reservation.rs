//! What a node keeps from pods, by Koordinator's annotation on it or in its NodePool's template.

use std::collections::BTreeMap;

use berth_api::labels::koordinator::NODE_RESERVATION;
use berth_api::{NodeReservation, NodeReservationApplyPolicy};
use berth_model::{Cluster, CpuSet, ResourceId, Resources};

use crate::quantities::Amounts;
use crate::{Problem, annotations};

const EXAMPLE: &str = r#"{"resources":{"cpu":"5","memory":"2Gi"}} or {"reservedCPUs":"0-3"}"#;
/// Koordinator has taken what a node keeps off these already.
const OVERCOMMITTED: [&str; 2] = ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"];

/// What the annotation takes off allocatable. Negative amounts are none, as in Koordinator.
pub(crate) fn reserved(
    annotations: Option<&BTreeMap<String, String>>,
    cluster: &mut Cluster,
) -> Result<Resources, Problem> {
    let is_set = annotations.and_then(|all| all.get(NODE_RESERVATION)).is_some_and(|text| !text.trim().is_empty());
    if !is_set {
        return Ok(Resources::new());
    }
    let Some(found) = annotations::read::<NodeReservation>(annotations, NODE_RESERVATION, EXAMPLE)? else {
        return Ok(Resources::new());
    };
    let cpus: CpuSet = found
        .reserved_cpus
        .parse()
        .map_err(|error| annotations::at(NODE_RESERVATION, format!("reservedCPUs: {error}")))?;
    let mut amounts = found.resources;
    amounts.retain(|name, amount| !amount.is_negative() && !OVERCOMMITTED.contains(&name.as_str()));
    let mut reserved = Amounts::read_exact(&amounts, cluster)
        .map_err(|problem| annotations::at(NODE_RESERVATION, problem.under("resources").to_string()))?
        .rounded_up();
    if !cpus.is_empty() {
        reserved.set(ResourceId::CPU, i64::try_from(cpus.len()).unwrap_or(i64::MAX).saturating_mul(1000));
    }
    Ok(match found.apply_policy {
        NodeReservationApplyPolicy::Default => reserved,
        NodeReservationApplyPolicy::ReservedCpusOnly => Resources::new(),
    })
}

/// What is left of `allocatable`, nothing below zero.
pub(crate) fn trim(allocatable: &mut Resources, reserved: &Resources) {
    for (id, amount) in reserved.iter() {
        allocatable.set(id, allocatable.get(id).saturating_sub(amount).max(0));
    }
}
