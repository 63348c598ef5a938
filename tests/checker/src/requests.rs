//! What a pod asks of a node, as kubelet and kube-scheduler count it (component-helpers' PodRequests).

use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::quantity::{self, Resources};

/// A container's requests; what has only a limit requests its limit, as the API server defaults it.
fn container_requests(container: &Container) -> Resources {
    let Some(resources) = &container.resources else {
        return Resources::new();
    };
    let mut requests = quantity::from_list(resources.requests.as_ref());
    for (name, limit) in quantity::from_list(resources.limits.as_ref()) {
        requests.entry(name).or_insert(limit);
    }
    requests
}

/// An init container that keeps running beside the main ones (a sidecar).
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The pod's requests, one of `pods` included.
///
/// Main containers and sidecars add up; an init container runs with the sidecars started before it; the pod needs
/// the greater of the two. Requests of the pod itself replace cpu, memory and huge pages; overhead comes on top.
pub(crate) fn of_pod(spec: &PodSpec) -> Resources {
    let mut total = Resources::new();
    for container in &spec.containers {
        quantity::add(&mut total, &container_requests(container));
    }
    let mut sidecars = Resources::new();
    let mut start = Resources::new();
    for container in spec.init_containers.iter().flatten() {
        let requests = container_requests(container);
        if is_sidecar(container) {
            quantity::add(&mut total, &requests);
            quantity::add(&mut sidecars, &requests);
            quantity::raise_to(&mut start, &sidecars);
        } else {
            let mut running = sidecars.clone();
            quantity::add(&mut running, &requests);
            quantity::raise_to(&mut start, &running);
        }
    }
    quantity::raise_to(&mut total, &start);
    if let Some(resources) = &spec.resources {
        let mut own = quantity::from_list(resources.requests.as_ref());
        // As the API server defaults them: what has a limit for the pod and no request of any container.
        for (name, limit) in quantity::from_list(resources.limits.as_ref()) {
            if !total.contains_key(&name) {
                own.entry(name).or_insert(limit);
            }
        }
        for (name, amount) in own {
            if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
                total.insert(name, amount);
            }
        }
    }
    quantity::add(&mut total, &quantity::from_list(spec.overhead.as_ref()));
    quantity::add(&mut total, &Resources::from([("pods".to_owned(), quantity::whole(1))]));
    total
}

/// A host port that a pod binds: protocol, address, port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HostPort {
    pub(crate) protocol: String,
    pub(crate) address: String,
    pub(crate) port: i32,
}

impl HostPort {
    /// Two pods cannot both bind these: same protocol and port, and the same address or one of them every address.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let wild = |address: &str| address == "0.0.0.0" || address == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || wild(&self.address) || wild(&other.address))
    }
}

/// The host ports of main containers and sidecars; with `hostNetwork` every container port is one.
pub(crate) fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c));
    let on_host = spec.host_network == Some(true);
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = match port.host_port {
                Some(number) if number > 0 => number,
                _ if on_host => port.container_port,
                _ => return None,
            };
            let address = port.host_ip.as_deref().filter(|ip| !ip.is_empty());
            Some(HostPort {
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                address: address.unwrap_or("0.0.0.0").to_owned(),
                port: number,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::of_pod;
    use crate::quantity::parse;

    fn cpu(spec: &serde_json::Value) -> Option<i128> {
        let spec = serde_json::from_value(spec.clone()).expect("a pod spec");
        of_pod(&spec).get("cpu").copied()
    }

    fn container(cpu: &str, sidecar: bool) -> serde_json::Value {
        let mut value = serde_json::json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        if sidecar {
            value["restartPolicy"] = "Always".into();
        }
        value
    }

    #[test]
    fn init_container_runs_beside_the_sidecars_before_it() {
        let spec = serde_json::json!({
            "containers": [container("1", false)],
            "initContainers": [container("500m", true), container("2", false), container("1", true)],
        });
        // Main + both sidecars = 2.5; the init container with the first sidecar = 2.5.
        assert_eq!(cpu(&spec), parse("2500m"));
        let spec = serde_json::json!({
            "containers": [container("1", false)],
            "initContainers": [container("500m", true), container("3", false)],
        });
        assert_eq!(cpu(&spec), parse("3500m"));
    }

    #[test]
    fn pod_level_request_replaces_the_sum_and_overhead_is_added() {
        let spec = serde_json::json!({
            "containers": [container("1", false)],
            "resources": {"requests": {"cpu": "4"}},
            "overhead": {"cpu": "250m"},
        });
        assert_eq!(cpu(&spec), parse("4250m"));
    }
}
