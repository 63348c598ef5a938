//! What a node keeps from pods, by Koordinator's annotation on it or in its NodePool's template.

use std::collections::BTreeMap;

use berth_api::labels::koordinator::NODE_RESERVATION;
use berth_api::{NodeReservation, NodeReservationApplyPolicy};
use berth_model::{Cluster, CpuSet, ResourceId, Resources, Units};

use crate::quantities::{Amounts, Named};
use crate::{Problem, annotations};

const EXAMPLE: &str = r#"{"resources":{"cpu":"5","memory":"2Gi"}} or {"reservedCPUs":"0-3"}"#;
/// Koordinator has taken what a node keeps off these already.
const OVERCOMMITTED: [&str; 2] = ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"];

/// What a node keeps from pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// Off allocatable.
    pub(crate) amounts: Resources,
    /// The CPUs that no pod may have to itself.
    cpus: KeptCpus,
}

#[derive(Clone, Debug, PartialEq)]
enum KeptCpus {
    Listed(CpuSet),
    /// So many, and nobody says yet which.
    Lowest(usize),
}

impl Default for KeptCpus {
    fn default() -> Self {
        KeptCpus::Lowest(0)
    }
}

impl Kept {
    /// What the annotation keeps. Negative amounts are none, as in Koordinator.
    pub(crate) fn read(annotations: Option<&BTreeMap<String, String>>, cluster: &mut Cluster) -> Result<Self, Problem> {
        let is_set = annotations.and_then(|all| all.get(NODE_RESERVATION)).is_some_and(|text| !text.trim().is_empty());
        if !is_set {
            return Ok(Kept::default());
        }
        let Some(found) = annotations::read::<NodeReservation>(annotations, NODE_RESERVATION, EXAMPLE)? else {
            return Ok(Kept::default());
        };
        let cpus: CpuSet = found
            .reserved_cpus
            .parse()
            .map_err(|error| annotations::at(NODE_RESERVATION, format!("reservedCPUs: {error}")))?;
        let mut amounts = found.resources;
        amounts.retain(|name, amount| !amount.is_negative() && !OVERCOMMITTED.contains(&name.as_str()));
        let mut reserved = Amounts::read_exact(&amounts, Named::Offered, cluster)
            .map_err(|problem| annotations::at(NODE_RESERVATION, problem.under("resources").to_string()))?
            .rounded_up();
        if !cpus.is_empty() {
            reserved.set(ResourceId::CPU, i64::try_from(cpus.len()).unwrap_or(i64::MAX).saturating_mul(1000));
        }
        let amounts = match found.apply_policy {
            NodeReservationApplyPolicy::Default => reserved,
            NodeReservationApplyPolicy::ReservedCpusOnly => Resources::new(),
        };
        let n_cpus = u64::try_from(amounts.get(ResourceId::CPU)).unwrap_or(0).div_ceil(1000);
        let lowest = KeptCpus::Lowest(usize::try_from(n_cpus).unwrap_or(usize::MAX));
        Ok(Kept { amounts, cpus: if cpus.is_empty() { lowest } else { KeptCpus::Listed(cpus) } })
    }

    /// What is left of `allocatable`, nothing below zero.
    pub(crate) fn trim(&self, allocatable: &mut Resources) {
        for (id, amount) in self.amounts.iter() {
            allocatable.set(id, allocatable.get(id).saturating_sub(amount).max(0));
        }
    }

    /// Takes the CPUs off those that pods may be bound to, unless an agent that lists them has done so.
    pub(crate) fn take_off(&self, units: &mut Units) {
        if units.are_kept_listed {
            return;
        }
        let kept = match &self.cpus {
            KeptCpus::Listed(cpus) => cpus.clone(),
            KeptCpus::Lowest(n_cpus) => units.cpus.iter().take(*n_cpus).map(|cpu| cpu.id).collect(),
        };
        for node in &mut units.numa {
            let n_kept = units.cpus.iter().filter(|cpu| cpu.numa == node.id && kept.contains(cpu.id)).count();
            let left =
                node.amounts.get(ResourceId::CPU) - i64::try_from(n_kept).unwrap_or(i64::MAX).saturating_mul(1000);
            if n_kept > 0 {
                node.amounts.set(ResourceId::CPU, left.max(0));
            }
        }
        units.cpus.retain(|cpu| !kept.contains(cpu.id));
    }
}
