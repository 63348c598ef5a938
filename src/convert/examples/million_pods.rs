//! How long a million pods take: `cargo run --release -p berth-convert --example million_pods [pods] [shapes]`.

use std::time::Instant;

use berth_convert::{Builder, Options};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let n_pods = arguments.next().transpose()?.unwrap_or(1_000_000);
    let n_shapes = arguments.next().transpose()?.unwrap_or(2_000).max(1);
    let mut shapes: Vec<Pod> = (0..n_shapes)
        .map(|i| {
            let labels = json!({"app": format!("app-{i}"), "tier": "web"});
            serde_json::from_value(json!({"metadata": {"name": "x", "labels": labels}, "spec": {
                "containers": [{"name": "c", "resources": {
                    "requests": {"cpu": format!("{}m", 100 + i), "memory": "256Mi"}, "limits": {"memory": "256Mi"}}}],
                "nodeSelector": {"kubernetes.io/arch": "amd64"},
                "tolerations": [{"key": "team", "operator": "Exists"}],
                "topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": labels}}]}}))
        })
        .collect::<Result<_, _>>()?;
    let mut builder = Builder::new(Options::default());
    let start = Instant::now();
    for i in 0..n_pods {
        let shape = usize::try_from(i % n_shapes)?;
        if let Some(pod) = shapes.get_mut(shape) {
            pod.metadata.name = Some(format!("pod-{i}"));
            builder.add_pod(pod)?;
        }
    }
    let added = start.elapsed();
    let converted = builder.finish()?;
    let rows = converted.cluster.pending.len();
    println!("{n_pods} pods in {rows} rows: added in {added:?}, all in {:?}", start.elapsed());
    Ok(())
}
