//! What a ResourceQuota adds to writes of pods, in namespaces that hold few and many.
//!
//! ```sh
//! cargo run --release -p berth-apiserver --example quota
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

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Writes of each kind that are timed.
const TIMED: usize = 5_000;

fn pod(n: usize) -> Value {
    let amounts = json!({"cpu": "100m", "memory": "128Mi"});
    json!({"metadata": {"name": format!("p{n:06}"), "labels": {"app": format!("web-{}", n % 100)}},
           "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]}})
}

async fn send(server: &mut ApiServer, method: &str, path: &str, body: &Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let body = Full::new(Bytes::from(serde_json::to_vec(body).unwrap()));
    let response = server.call(request.body(body).unwrap()).await.unwrap();
    assert!(response.status().is_success(), "{method} {path}: {}", response.status());
}

/// Microseconds a write.
async fn timed(writes: impl AsyncFnOnce()) -> f64 {
    let start = Instant::now();
    writes().await;
    start.elapsed().as_secs_f64() * 1e6 / TIMED as f64
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!(
        "{:>7} {:>6} {:>10} {:>14} {:>10} {:>17}",
        "pods", "quotas", "create us", "status patch us", "label us", "after compaction"
    );
    for there in [0, 5_000, 50_000] {
        for quotas in [0, 1, 3] {
            let mut server = ApiServer::new(Config::default());
            for n in 0..quotas {
                let hard = json!({"pods": "1000000", "requests.cpu": "1000000", "limits.memory": "1000000Gi"});
                let quota = json!({"metadata": {"name": format!("q{n}")}, "spec": {"hard": hard}});
                send(&mut server, "POST", "/api/v1/namespaces/default/resourcequotas", &quota).await;
            }
            for n in 0..there {
                send(&mut server, "POST", PODS, &pod(n)).await;
            }
            let created = timed(async || {
                for n in there..there + TIMED {
                    send(&mut server, "POST", PODS, &pod(n)).await;
                }
            });
            let created = created.await;
            // Changes that a quota has to hear of, though they take nothing more: each is followed by a create.
            let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}});
            let patched = timed(async || {
                for n in there..there + TIMED {
                    send(&mut server, "PATCH", &format!("{PODS}/p{n:06}/status"), &status).await;
                }
                send(&mut server, "POST", PODS, &pod(there + TIMED)).await;
            });
            let patched = patched.await;
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            let labelled = timed(async || {
                for n in there..there + TIMED {
                    send(&mut server, "PATCH", &format!("{PODS}/p{n:06}"), &label).await;
                }
            });
            let labelled = labelled.await;
            send(
                &mut server,
                "PATCH",
                &format!("{PODS}/p{there:06}/status"),
                &json!({"status": {"podIP": "10.0.0.2"}}),
            )
            .await;
            server.compact();
            let start = Instant::now();
            send(&mut server, "POST", PODS, &pod(there + TIMED + 1)).await;
            let anew = start.elapsed().as_secs_f64() * 1000.0;
            println!("{there:>7} {quotas:>6} {created:>10.1} {patched:>14.1} {labelled:>10.1} {anew:>14.2} ms");
        }
    }
}
