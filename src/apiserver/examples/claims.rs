//! How many NodeClaims a second the server takes in process, with the definition of crds/: its defaults, patterns, formats
//! and rules.
//!
//! ```sh
//! cargo run --release -p berth-apiserver --example claims -- 100000
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)]

use std::time::Instant;

use berth_apiserver::{ApiServer, Config};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::{Value, json};
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// A NodeClaim as a provisioner writes it: no two are the same.
fn claim(n: usize) -> Value {
    let zones = ["test-zone-a", "test-zone-b", "test-zone-c"];
    let types: Vec<String> = (0..20).map(|t| format!("c-{}x-amd64-{}", t + 1, n % 7)).collect();
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("default-{n:06}"), "labels": {"karpenter.sh/nodepool": "default", "team": format!("team-{}", n % 50)}},
        "spec": {
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "reserved"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zones[n % 3]]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
                {"key": "example.com/generation", "operator": "Gt", "values": [(n % 9).to_string()]},
                {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}],
            "resources": {"requests": {"cpu": format!("{}m", 100 + n % 900), "memory": "512Mi", "pods": "4"}},
            "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "720h", "terminationGracePeriod": "30m"}})
}

/// Seconds of CPU that this process has taken.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may hold anything: user and system time in hundredths.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

async fn send(server: &mut ApiServer, path: &str, body: Vec<u8>) -> u16 {
    let request = http::Request::builder().method("POST").uri(path).header("content-type", "application/json");
    let response = server.call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    response.status().as_u16()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(50_000_usize);
    let mut server = ApiServer::new(Config::default());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/karpenter.sh_nodeclaims.yaml");
    let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(send(&mut server, DEFINITIONS, definition.to_string().into_bytes()).await, 201);
    let bodies: Vec<Vec<u8>> = (0..count).map(|n| claim(n).to_string().into_bytes()).collect();
    let (busy, start) = (cpu(), Instant::now());
    for body in bodies {
        assert_eq!(send(&mut server, CLAIMS, body).await, 201);
    }
    println!(
        "{count} NodeClaims: {:.0} a second, {:.0} a CPU second",
        count as f64 / start.elapsed().as_secs_f64(),
        count as f64 / (cpu() - busy)
    );
}
