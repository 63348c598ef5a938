//! RuntimeClasses, as the API server's RuntimeClass plugin applies them to pods that are created.

use std::collections::BTreeMap;

use berth_model::{Cluster, PodSpec, Requirement, Toleration};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::shape::AdmissionSpec;
use crate::Problem;
use crate::pod::tolerations;
use crate::quantities::Amounts;
use crate::terms::node_key;

/// What a RuntimeClass adds to its pods.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    overhead: BTreeMap<String, Quantity>,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
}

impl Class {
    /// Problems are relative to the object.
    pub(crate) fn read(object: &RuntimeClass, cluster: &mut Cluster) -> Result<Self, Problem> {
        let overhead = object.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.clone()).unwrap_or_default();
        Amounts::asked(&overhead, cluster).map_err(|problem| problem.under("overhead.podFixed"))?;
        let scheduling = object.scheduling.clone().unwrap_or_default();
        let tolerations = tolerations(scheduling.tolerations.as_deref().unwrap_or_default(), cluster)
            .map_err(|problem| problem.under("scheduling"))?;
        Ok(Self { overhead, node_selector: scheduling.node_selector.unwrap_or_default(), tolerations })
    }

    /// Sets the overhead of a pod; else why the API server refuses such a pod.
    pub(super) fn apply(&self, shape: &mut AdmissionSpec) -> Result<(), String> {
        let given = shape.spec.overhead.clone().unwrap_or_default();
        if !given.is_empty() && !are_equal(&given, &self.overhead) {
            return Err("the pod's overhead is not the one of its class".to_owned());
        }
        let own = shape.spec.node_selector.iter().flatten();
        for (key, value) in own {
            if let Some(of_class) = self.node_selector.get(key).filter(|of_class| *of_class != value) {
                return Err(format!(
                    "scheduling.nodeSelector[{key}] is {of_class}, and the pod's nodeSelector has {value}"
                ));
            }
        }
        if !self.overhead.is_empty() {
            shape.spec.overhead = Some(self.overhead.clone());
        }
        Ok(())
    }

    /// Where such pods may run.
    pub(super) fn constrain(&self, spec: &mut PodSpec, cluster: &mut Cluster) {
        for (key, value) in &self.node_selector {
            let (key, value) = (node_key(key, &mut cluster.symbols), cluster.symbols.intern(value));
            spec.node_selector.add(key, Requirement::value(value), &cluster.symbols);
        }
        spec.tolerations.extend(self.tolerations.iter().cloned());
        spec.tolerations.sort_unstable();
        spec.tolerations.dedup();
    }
}

fn are_equal(a: &BTreeMap<String, Quantity>, b: &BTreeMap<String, Quantity>) -> bool {
    let amount = |quantity: &Quantity| quantity.0.parse::<berth_quantity::Quantity>().ok();
    a.len() == b.len() && a.iter().all(|(name, own)| b.get(name).is_some_and(|other| amount(own) == amount(other)))
}
