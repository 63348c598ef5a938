//! Nodes whose machines have no power any more. Heartbeats of healthy nodes are implied; that they stop is written.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// How long after its last word a node counts as lost: the node lifecycle controller's grace period.
pub(crate) const GRACE: Duration = Duration::from_secs(50);
/// The conditions that a kubelet posts.
const POSTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Writes that nothing is heard of a node any more, as the node lifecycle controller does. It may be gone already.
pub(crate) async fn mark(client: &Client, node: &str, now: Timestamp) {
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let unknown = POSTED.map(|type_| {
        json!({"type": type_, "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": time.to_string()})
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": unknown}}));
    let nodes = Api::<Node>::all(client.clone());
    drop(nodes.patch_status(node, &PatchParams::default(), &patch).await);
}
