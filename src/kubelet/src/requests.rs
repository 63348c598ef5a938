//! What a pod asks of a node, and whether the node has it: as kubelet admits.

use std::collections::{BTreeMap, BTreeSet};

use berth_quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

/// Amounts by resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Resources that a pod lacks on a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    /// As kubelet words it.
    #[error("Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}")]
    OutOf { resource: String, requested: i64, used: i64, capacity: i64 },
    #[error("Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")]
    NodePorts,
}

impl Rejection {
    /// The reason in the pod's status.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::OutOf { resource, .. } => format!("OutOf{resource}"),
            Self::NodePorts => "NodePorts".to_owned(),
        }
    }
}

/// What a pod asks for in all: the larger of its containers together and of each init container with the sidecars
/// before it; what the pod itself says wins; the overhead comes on top.
pub(crate) fn of_pod(spec: &PodSpec) -> Amounts {
    let mut running = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &own);
            raise(&mut starting, &running);
        } else {
            let mut beside = running.clone();
            add(&mut beside, &own);
            raise(&mut starting, &beside);
        }
    }
    for container in &spec.containers {
        add(&mut running, &of_container(container));
    }
    raise(&mut running, &starting);
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    running.extend(pod_level.map(parsed).unwrap_or_default());
    add(&mut running, &spec.overhead.as_ref().map(parsed).unwrap_or_default());
    running
}

fn of_container(container: &Container) -> Amounts {
    container.resources.as_ref().and_then(|resources| resources.requests.as_ref()).map(parsed).unwrap_or_default()
}

/// The amounts as they are written. The API server takes no text that is no quantity.
pub(crate) fn parsed(written: &BTreeMap<String, Written>) -> Amounts {
    written.iter().filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?))).collect()
}

pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let own = sum.entry(name.clone()).or_insert_with(|| Quantity::from_value(0));
        // What is beyond all bounds stays at them: it fits nowhere.
        *own = own.checked_add(*amount).unwrap_or(*own);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let own = most.entry(name.clone()).or_insert(*amount);
        *own = (*own).max(*amount);
    }
}

/// The ports of the host that a pod takes: protocol, address and number.
pub(crate) fn host_ports(spec: &PodSpec) -> BTreeSet<(String, String, i32)> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|&number| number > 0)?;
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let address = port.host_ip.clone().filter(|address| address != "0.0.0.0").unwrap_or_default();
            Some((protocol, address, number))
        })
        .collect()
}

/// Whether two pods want one port: an address of none is all addresses.
pub(crate) fn ports_clash(a: &BTreeSet<(String, String, i32)>, b: &BTreeSet<(String, String, i32)>) -> bool {
    a.iter().any(|(protocol, address, number)| {
        b.iter().any(|other| {
            *protocol == other.0
                && *number == other.2
                && (address.is_empty() || other.1.is_empty() || *address == other.1)
        })
    })
}

/// Whether `asked` fits beside `used`. A node that names no resource at all takes everything.
pub(crate) fn fits(asked: &Amounts, used: &Amounts, n_pods: usize, allocatable: &Amounts) -> Result<(), Rejection> {
    if allocatable.is_empty() {
        return Ok(());
    }
    let zero = Quantity::from_value(0);
    let whole = |name: &str, amount: Quantity| match name {
        "cpu" => amount.milli_ceil(),
        _ => amount.value_ceil(),
    };
    let out_of = |name: &str, requested: Quantity, used: Quantity, capacity: Quantity| Rejection::OutOf {
        resource: name.to_owned(),
        requested: whole(name, requested).unwrap_or(i64::MAX),
        used: whole(name, used).unwrap_or(i64::MAX),
        capacity: whole(name, capacity).unwrap_or(i64::MAX),
    };
    let n_pods = Quantity::from_value(i64::try_from(n_pods).unwrap_or(i64::MAX));
    let one = Quantity::from_value(1);
    let pods = allocatable.get("pods").map(|&pods| ("pods", one, n_pods, pods));
    let others = asked.iter().filter(|(_, amount)| !amount.is_zero()).map(|(name, &amount)| {
        let used = used.get(name).copied().unwrap_or(zero);
        (name.as_str(), amount, used, allocatable.get(name).copied().unwrap_or(zero))
    });
    for (name, requested, used, capacity) in pods.into_iter().chain(others) {
        if used.checked_add(requested).is_none_or(|sum| sum > capacity) {
            return Err(out_of(name, requested, used, capacity));
        }
    }
    Ok(())
}
