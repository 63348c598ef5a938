//! What the cluster is asked to run, by whom, and how requests go out.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};

/// Pods of one Deployment.
pub(crate) const REPLICAS: usize = 500;
/// Pods that have no node.
const UNBOUND: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3D";
/// Requests under way at a time where many are sent.
const AT_ONCE: usize = 32;

pub(crate) async fn send(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> kube::Result<Value> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    client.request(request.body(body).unwrap()).await
}

pub(crate) async fn create(client: &Client, path: &str, object: &Value) {
    send(client, "POST", path, "application/json", object).await.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// A NodeClaim as a provisioner writes it.
fn claim(n: usize) -> Value {
    let types: Vec<String> = (0..20).map(|t| format!("c-{}x-amd64-{}", t + 1, n % 7)).collect();
    let within = |key: &str, values: &[String]| json!({"key": key, "operator": "In", "values": values});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("n{n}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "requirements": [within("karpenter.sh/capacity-type", &["on-demand".to_owned()]),
                within("topology.kubernetes.io/zone", &[format!("zone-{}", n % 3)]),
                within("node.kubernetes.io/instance-type", &types)],
            "resources": {"requests": {"cpu": "4", "memory": "16Gi"}},
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "720h"}})
}

/// As a scheduler: pods without a node get one.
pub(crate) async fn schedule(client: Client, nodes: usize) {
    let mut next = 0;
    loop {
        let version = bind_all(&client, &mut next, nodes).await;
        let request =
            http::Request::get(format!("{UNBOUND}&watch=1&resourceVersion={version}")).body(Vec::new()).unwrap();
        let mut events = Box::pin(client.request_events::<Value>(request).await.unwrap());
        while let Ok(Some(event)) = events.try_next().await {
            match event {
                WatchEvent::Added(pod) => bind(&client, &pod, &mut next, nodes).await,
                // It fell behind what is kept of the past.
                WatchEvent::Error(_) => break,
                _ => {}
            }
        }
    }
}

/// Binds what has no node, some at a time: a list of all may be larger than all else. Gives the version at which none was left.
async fn bind_all(client: &Client, next: &mut usize, nodes: usize) -> String {
    loop {
        // Those that are bound are not in the next list.
        let page =
            send(client, "GET", &format!("{UNBOUND}&limit=500"), "application/json", &Value::Null).await.unwrap();
        for pod in page["items"].as_array().into_iter().flatten() {
            bind(client, pod, next, nodes).await;
        }
        if page["metadata"]["continue"].as_str().is_none_or(str::is_empty) {
            return page["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        }
    }
}

async fn bind(client: &Client, pod: &Value, next: &mut usize, nodes: usize) {
    let own = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let node = pod.pointer(own).and_then(Value::as_str).map_or_else(
        || {
            *next += 1;
            format!("n{}", *next % nodes)
        },
        str::to_owned,
    );
    let (namespace, name) = (pod["metadata"]["namespace"].as_str().unwrap(), pod["metadata"]["name"].as_str().unwrap());
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                         "target": {"kind": "Node", "name": node}});
    // It may have gone meanwhile.
    drop(send(client, "POST", &path, "application/json", &binding).await);
}

/// Creates the definition of NodeClaims.
pub(crate) async fn define_claims(client: &Client) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/karpenter.sh_nodeclaims.yaml");
    let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
}

/// Creates a NodeClaim for each node.
pub(crate) async fn claim_nodes(client: &Client, nodes: usize) {
    write(client, "/apis/karpenter.sh/v1/nodeclaims", nodes, &claim).await;
}

/// Creates so many objects, many at a time.
pub(crate) async fn write(client: &Client, path: &str, count: usize, object: &dyn Fn(usize) -> Value) {
    let creates = futures::stream::iter(0..count).map(|n| async move { create(client, path, &object(n)).await });
    creates.buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Creates a DaemonSet, and Deployments of so many pods with a Service and a budget each; gives how many Deployments.
pub(crate) async fn deploy(client: &Client, pods: usize) -> usize {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}});
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}});
    let log = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template("log")}});
    create(client, "/apis/apps/v1/namespaces/default/daemonsets", &log).await;
    let deployments = pods.div_ceil(REPLICAS);
    for n in 0..deployments {
        let app = format!("web-{n}");
        let selector = json!({"matchLabels": {"app": app}});
        let web = json!({"metadata": {"name": app}, "spec": {"replicas": REPLICAS.min(pods - n * REPLICAS), "selector": selector, "template": template(&app)}});
        create(client, "/apis/apps/v1/namespaces/default/deployments", &web).await;
        let service = json!({"metadata": {"name": app}, "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}});
        create(client, "/api/v1/namespaces/default/services", &service).await;
        let budget = json!({"metadata": {"name": app}, "spec": {"maxUnavailable": "10%", "selector": selector}});
        create(client, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await;
    }
    deployments
}

/// Waits until every pod of the Deployments and the DaemonSet is as its owner wants it, and ready.
pub(crate) async fn all_ready(client: &Client, deployments: usize, nodes: usize) {
    let is_seen = |found: &Value| found["status"]["observedGeneration"] == found["metadata"]["generation"];
    for n in 0..deployments {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/web-{n}");
        let counts = ["replicas", "updatedReplicas", "readyReplicas"];
        until(client, &path, |found| {
            is_seen(found) && counts.iter().all(|count| found["status"][count] == found["spec"]["replicas"])
        })
        .await;
    }
    until(client, "/apis/apps/v1/namespaces/default/daemonsets/log", |found| {
        is_seen(found) && found["status"]["numberReady"] == nodes
    })
    .await;
}

/// Asks now and then, until it is so.
pub(crate) async fn until(client: &Client, path: &str, is: impl Fn(&Value) -> bool) {
    loop {
        if let Ok(object) = send(client, "GET", path, "application/json", &Value::Null).await
            && is(&object)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
