//! One node of a stand-in: the Node and Lease objects that its kubelet writes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec as Spec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use serde_json::{Value, json};

use crate::requests::{self, Amounts};
use crate::{KubeletConfig, NodeSpec};

/// The version that the stand-ins say they are: that of the API types.
const VERSION: &str = "v1.35.0";

/// The namespace of the Leases of nodes.
pub(crate) const LEASES: &str = "kube-node-lease";

/// First reports and renewals are spread over this at most.
const SPREAD: Duration = Duration::from_secs(300);

/// How far a kubelet is with its Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The Node is to be created.
    Wanted,
    /// The Node is there, and its Lease is to be created.
    Registered,
    /// Both are there.
    Leased,
}

/// A node with a kubelet.
#[derive(Debug, Clone)]
pub(crate) struct Hosted {
    pub(crate) spec: NodeSpec,
    pub(crate) allocatable: Amounts,
    /// Its number, which its address comes from.
    pub(crate) number: u32,
    pub(crate) registration: Registration,
    /// The UID of its Node, once it is there.
    pub(crate) uid: Option<String>,
    pub(crate) is_ready: bool,
    pub(crate) ready_since: Timestamp,
    /// The Node's status differs from what was written last, or is to be reported again.
    pub(crate) is_dirty: bool,
    pub(crate) lease_due: bool,
}

// === impl Hosted ===

impl Hosted {
    pub(crate) fn new(spec: NodeSpec, number: u32, now: Timestamp) -> Self {
        Self {
            allocatable: requests::parsed(&spec.allocatable),
            spec,
            number,
            registration: Registration::Wanted,
            uid: None,
            is_ready: false,
            ready_since: now,
            is_dirty: false,
            lease_due: false,
        }
    }

    /// When it does for the first time what it does once in a period. Nodes that join together are spread over it, so that
    /// the heartbeats of thousands do not come at one instant.
    pub(crate) fn first_after(&self, period: Duration) -> Duration {
        // By the golden ratio: each comes between those that are there.
        let part = self.number.saturating_sub(1).wrapping_mul(633) % 1024;
        period.saturating_sub(period.min(SPREAD) / 1024 * part)
    }

    /// Its address, in 172.16.0.0/12.
    pub(crate) fn address(&self) -> String {
        Ipv4Addr::from(0xac10_0000 | (self.number & 0x000f_ffff)).to_string()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.spec.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), self.spec.name.clone());
        labels
    }

    /// The Node as it is created.
    pub(crate) fn node(&self, now: Timestamp) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(self.spec.name.clone()),
                labels: Some(self.labels()),
                ..ObjectMeta::default()
            },
            spec: Some(Spec {
                provider_id: Some(self.spec.provider_id.clone()).filter(|id| !id.is_empty()),
                taints: (!self.spec.taints.is_empty()).then(|| self.spec.taints.clone()),
                ..Spec::default()
            }),
            status: Some(self.status(now)),
        }
    }

    /// What a kubelet changes about a Node that is there already: its labels, and no taint.
    pub(crate) fn reconciled(&self) -> Value {
        json!({"metadata": {"labels": self.labels()}})
    }

    /// The Node's status.
    pub(crate) fn status(&self, now: Timestamp) -> NodeStatus {
        let condition = |type_: &str, holds: bool, reason: &str, message: &str| NodeCondition {
            type_: type_.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(self.ready_since)),
        };
        let ready = if self.is_ready {
            condition("Ready", true, "KubeletReady", "kubelet is posting ready status")
        } else {
            condition("Ready", false, "KubeletNotReady", "container runtime network not ready")
        };
        let label = |key: &str, default: &str| self.spec.labels.get(key).cloned().unwrap_or_else(|| default.to_owned());
        NodeStatus {
            capacity: Some(self.spec.capacity.clone()),
            allocatable: Some(self.spec.allocatable.clone()),
            conditions: Some(vec![
                condition(
                    "MemoryPressure",
                    false,
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available",
                ),
                condition("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                ready,
            ]),
            addresses: Some(
                [("InternalIP", self.address()), ("Hostname", self.spec.name.clone())]
                    .map(|(type_, address)| NodeAddress { type_: type_.to_owned(), address })
                    .to_vec(),
            ),
            node_info: Some(NodeSystemInfo {
                architecture: label("kubernetes.io/arch", "amd64"),
                operating_system: label("kubernetes.io/os", "linux"),
                kubelet_version: VERSION.to_owned(),
                kube_proxy_version: VERSION.to_owned(),
                container_runtime_version: "stand-in://1".to_owned(),
                os_image: "stand-in".to_owned(),
                machine_id: self.spec.name.clone(),
                system_uuid: self.spec.name.clone(),
                boot_id: self.spec.name.clone(),
                kernel_version: "stand-in".to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }
    }

    /// Its Lease as it is created: it goes with its Node.
    pub(crate) fn lease(&self, config: &KubeletConfig, now: Timestamp) -> Lease {
        let owner = self.uid.clone().map(|uid| {
            vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: self.spec.name.clone(),
                uid,
                ..OwnerReference::default()
            }]
        });
        let seconds = i32::try_from(config.lease_renewal.as_secs().saturating_mul(4)).unwrap_or(i32::MAX).max(1);
        Lease {
            metadata: ObjectMeta {
                name: Some(self.spec.name.clone()),
                namespace: Some(LEASES.to_owned()),
                owner_references: owner,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.spec.name.clone()),
                lease_duration_seconds: Some(seconds),
                renew_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        }
    }

    /// A renewal of its Lease.
    pub(crate) fn renewal(now: Timestamp) -> Value {
        json!({"spec": {"renewTime": MicroTime(now)}})
    }
}
