//! In-place resize: until the kubelet has carried it out, a running pod counts with the larger of what it asks for and what
//! it has, as in kube-scheduler.

use std::collections::BTreeMap;

use berth_quantity::Quantity as Exact;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod_record::PodParts;

type Amounts = BTreeMap<String, Quantity>;

/// The spec of a bound pod with the requests that count, where they are not its own.
pub(crate) fn resized(pod: &PodParts<'_>) -> Option<PodSpec> {
    let (spec, status) = (pod.spec?, pod.status?);
    pod.node.filter(|node| !node.is_empty())?;
    let is_infeasible = is_infeasible(status);
    let statuses = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let counted = |container: &Container| {
        let of_container = statuses().find(|of| of.name == container.name)?;
        counting(container, of_container, is_infeasible)
    };
    let is_sidecar = |of: &&Container| of.restart_policy.as_deref() == Some("Always");
    let init = spec.init_containers.iter().flatten().filter(is_sidecar);
    if spec.containers.iter().chain(init).all(|container| counted(container).is_none()) {
        return None;
    }
    let mut changed = spec.clone();
    let sidecars = changed.init_containers.iter_mut().flatten().filter(|of| is_sidecar(&&**of));
    for container in changed.containers.iter_mut().chain(sidecars) {
        if let Some(requests) = counted(container) {
            container.resources.get_or_insert_default().requests = Some(requests);
        }
    }
    Some(changed)
}

/// Whether the kubelet will never do what the spec asks for: what the pod has counts alone.
fn is_infeasible(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|of| of.type_ == "PodResizePending" && of.reason.as_deref() == Some("Infeasible"))
        || status.resize.as_deref() == Some("Infeasible")
}

/// The requests of a container that count, where they are not those of its spec.
fn counting(container: &Container, status: &ContainerStatus, is_infeasible: bool) -> Option<Amounts> {
    let none = Amounts::new();
    let asked = container.resources.as_ref().and_then(|of| of.requests.as_ref()).unwrap_or(&none);
    let actual = status.resources.as_ref()?.requests.as_ref().unwrap_or(&none);
    let allocated = status.allocated_resources.as_ref().unwrap_or(&none);
    if (actual == asked || actual.is_empty()) && (allocated == asked || allocated.is_empty()) {
        return None;
    }
    let mut counted = if is_infeasible { Amounts::new() } else { asked.clone() };
    for (name, amount) in actual.iter().chain(allocated) {
        let is_more = counted.get(name).is_none_or(|known| is_less(known, amount));
        if is_more {
            counted.insert(name.clone(), amount.clone());
        }
    }
    (counted != *asked).then_some(counted)
}

fn is_less(known: &Quantity, other: &Quantity) -> bool {
    let exact = |quantity: &Quantity| quantity.0.parse::<Exact>().ok();
    exact(known).zip(exact(other)).is_some_and(|(known, other)| known < other)
}
