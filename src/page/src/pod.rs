//! What a pod asks for, and who it belongs to.

use std::collections::BTreeMap;

use berth_quantity::Quantity;
use berth_slim::PodStatus;
use kube::ResourceExt;
use kube::core::Object;
use serde::Deserialize;

/// The little of a pod that is looked at.
pub(crate) type SeenPod = Object<SeenSpec, PodStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenSpec {
    pub(crate) node_name: Option<String>,
    #[serde(default)]
    containers: Vec<SeenContainer>,
    #[serde(default)]
    init_containers: Vec<SeenContainer>,
    #[serde(default)]
    overhead: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenContainer {
    restart_policy: Option<String>,
    #[serde(default)]
    resources: SeenResources,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct SeenResources {
    #[serde(default)]
    requests: BTreeMap<String, String>,
}

/// Thousandths of a CPU, and mebibytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
}

// === impl Amounts ===

impl Amounts {
    /// Of a list of amounts by resource; one that is none counts as nothing.
    pub(crate) fn of<'a>(list: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut out = Self::default();
        for (name, text) in list {
            let amount = || text.parse::<Quantity>().ok();
            match name.as_str() {
                "cpu" => out.cpu = amount().and_then(Quantity::milli_ceil).unwrap_or(0),
                "memory" => out.memory = amount().and_then(Quantity::value_ceil).unwrap_or(0) / (1024 * 1024),
                _ => {}
            }
        }
        out
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(other.cpu), memory: self.memory.saturating_sub(other.memory) }
    }

    fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }
}

/// What a pod takes of its node, as the scheduler counts it.
pub(crate) fn requests(pod: &SeenPod) -> Amounts {
    let of = |container: &SeenContainer| Amounts::of(&container.resources.requests);
    let mut running = pod.spec.containers.iter().map(of).fold(Amounts::default(), Amounts::plus);
    let mut starting = Amounts::default();
    let mut sidecars = Amounts::default();
    for container in &pod.spec.init_containers {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.plus(of(container));
            starting = starting.max(sidecars);
        } else {
            starting = starting.max(sidecars.plus(of(container)));
        }
    }
    running = running.plus(sidecars);
    running.max(starting).plus(Amounts::of(&pod.spec.overhead))
}

/// The workload that a pod belongs to: its owner without the hash of a Deployment's ReplicaSet, or itself.
pub(crate) fn workload(pod: &SeenPod) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let name = match owner {
        Some(owner) if owner.kind == "ReplicaSet" && pod.labels().contains_key("pod-template-hash") => {
            owner.name.rsplit_once('-').map_or(owner.name.as_str(), |(name, _)| name).to_owned()
        }
        Some(owner) => owner.name.clone(),
        None => pod.name_any(),
    };
    format!("{namespace}/{name}")
}
