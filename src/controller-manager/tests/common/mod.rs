//! A server with its controllers, in paused time.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use berth_apiserver::{Admission, ApiServer, Config};
use berth_controller_manager::{Clock, ControllerManager, Controllers, Metrics, Options};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// A server, a client of it, and controllers that run until it is dropped.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    running: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.abort();
    }
}

pub(crate) fn config() -> Config {
    Config { epoch: "2026-01-01T00:00:00Z".parse().unwrap(), seed: 3, ..Config::default() }
}

pub(crate) fn options(server: &ApiServer) -> Options {
    let server = server.clone();
    Options::new(Clock::new(move || server.now()))
}

/// What a path stands for: `pods/default/p` or `nodes/n1`, with the group before a plural that has one.
fn path(place: &str) -> String {
    let parts: Vec<&str> = place.split('/').collect();
    let (api, plural) = match parts[0] {
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "controllerrevisions" => {
            ("/apis/apps/v1", parts[0])
        }
        "jobs" | "cronjobs" => ("/apis/batch/v1", parts[0]),
        "poddisruptionbudgets" => ("/apis/policy/v1", parts[0]),
        "horizontalpodautoscalers" => ("/apis/autoscaling/v2", parts[0]),
        "endpointslices" => ("/apis/discovery.k8s.io/v1", parts[0]),
        "leases" => ("/apis/coordination.k8s.io/v1", parts[0]),
        "storageclasses" => ("/apis/storage.k8s.io/v1", parts[0]),
        "customresourcedefinitions" => ("/apis/apiextensions.k8s.io/v1", parts[0]),
        "widgets" => ("/apis/example.com/v1", parts[0]),
        plural => ("/api/v1", plural),
    };
    let is_cluster_wide =
        ["nodes", "persistentvolumes", "namespaces", "storageclasses", "customresourcedefinitions"].contains(&plural);
    match (&parts[1..], is_cluster_wide) {
        ([], _) => format!("{api}/{plural}"),
        ([name], true) => format!("{api}/{plural}/{name}"),
        ([name, sub], true) => format!("{api}/{plural}/{name}/{sub}"),
        ([namespace], false) => format!("{api}/namespaces/{namespace}/{plural}"),
        ([namespace, name], false) => format!("{api}/namespaces/{namespace}/{plural}/{name}"),
        ([namespace, name, sub], false) => format!("{api}/namespaces/{namespace}/{plural}/{name}/{sub}"),
        _ => panic!("no place: {place}"),
    }
}

pub(crate) async fn send(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> kube::Result<Value> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    client.request(request.body(body).unwrap()).await
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(config(), Controllers::all())
    }

    pub(crate) fn with(config: Config, controllers: Controllers) -> Self {
        let server = ApiServer::new(config);
        let options = Options { controllers, ..options(&server) };
        Self::of(server, options)
    }

    /// Everything on that a real cluster has on.
    pub(crate) fn with_admission() -> Self {
        let admission = Admission { taint_new_nodes: true, storage_protection: true, ..Admission::default() };
        Self::with(Config { admission, ..config() }, Controllers::all())
    }

    pub(crate) fn of(server: ApiServer, options: Options) -> Self {
        let client = Client::new(server.clone(), "default");
        Self::through(client, server, options)
    }

    /// The same with controllers that speak through a client of their own.
    pub(crate) fn through(theirs: Client, server: ApiServer, options: Options) -> Self {
        let client = Client::new(server.clone(), "default");
        let manager = ControllerManager::new(theirs, options);
        let metrics = manager.metrics();
        let running = tokio::spawn(manager.run(std::future::pending()));
        Self { server, client, metrics, running }
    }

    pub(crate) async fn try_create(&self, place: &str, object: &Value) -> kube::Result<Value> {
        send(&self.client, "POST", &path(place), "application/json", object).await
    }

    pub(crate) async fn create(&self, place: &str, object: &Value) -> Value {
        self.try_create(place, object).await.unwrap_or_else(|error| panic!("create {place}: {error}"))
    }

    pub(crate) async fn get(&self, place: &str) -> Option<Value> {
        match send(&self.client, "GET", &path(place), "application/json", &Value::Null).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("get {place}: {error}"),
        }
    }

    pub(crate) async fn list(&self, place: &str) -> Vec<Value> {
        let list = send(&self.client, "GET", &path(place), "application/json", &Value::Null).await.unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) async fn patch(&self, place: &str, patch: &Value) -> Value {
        let kind = "application/merge-patch+json";
        send(&self.client, "PATCH", &path(place), kind, patch).await.unwrap_or_else(|e| panic!("patch {place}: {e}"))
    }

    pub(crate) async fn patch_status(&self, place: &str, patch: &Value) -> Value {
        let kind = "application/strategic-merge-patch+json";
        let status = path(&format!("{place}/status"));
        send(&self.client, "PATCH", &status, kind, patch).await.unwrap_or_else(|e| panic!("patch {place}: {e}"))
    }

    pub(crate) async fn delete(&self, place: &str) {
        self.delete_with(place, &json!({})).await;
    }

    pub(crate) async fn delete_with(&self, place: &str, options: &Value) {
        let result = send(&self.client, "DELETE", &path(place), "application/json", options).await;
        result.unwrap_or_else(|error| panic!("delete {place}: {error}"));
    }

    /// Waits until nothing changes any more.
    pub(crate) async fn settle(&self) {
        let mut quiet = 0;
        let mut seen = self.server.resource_version();
        for _ in 0..10_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = self.server.resource_version();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
            if quiet == 8 {
                return;
            }
        }
        panic!("the controllers do not come to rest: {:?}", self.metrics.last_error());
    }

    pub(crate) async fn names(&self, place: &str) -> Vec<String> {
        self.list(place).await.iter().map(|object| name(object).to_owned()).collect()
    }

    pub(crate) async fn pods(&self) -> Vec<Value> {
        self.list("pods/default").await
    }

    pub(crate) async fn node(&self, name: &str, labels: &Value) {
        self.create("nodes", &json!({"metadata": {"name": name, "labels": labels}})).await;
    }

    /// Binds every pod that has no node, those of DaemonSets to the node that they are for, and has it ready.
    pub(crate) async fn run_all(&self, node: &str) {
        for pod in self.pods().await.iter().filter(|pod| is_live(pod)) {
            let place = format!("pods/default/{}", name(pod));
            if pod["spec"]["nodeName"].is_null() {
                let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
                let field = format!("{affinity}/nodeSelectorTerms/0/matchFields/0/values/0");
                let node = pod.pointer(&field).and_then(Value::as_str).unwrap_or(node);
                let target = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name(pod)},
                                    "target": {"kind": "Node", "name": node}});
                let path = path(&format!("{place}/binding"));
                send(&self.client, "POST", &path, "application/json", &target).await.unwrap();
            }
            if !is_ready(pod) {
                let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
                self.patch_status(&place, &json!({"status": {"phase": "Running", "conditions": [ready]}})).await;
            }
        }
    }

    /// Lets pods go that wait for a kubelet.
    pub(crate) async fn reap(&self) {
        for pod in self.pods().await.iter().filter(|pod| !is_live(pod)) {
            self.delete_with(&format!("pods/default/{}", name(pod)), &json!({"gracePeriodSeconds": 0})).await;
        }
    }

    /// As a kubelet: pods run, terminating ones go, until nothing changes.
    pub(crate) async fn live(&self, node: &str) {
        for _ in 0..60 {
            self.settle().await;
            let before = self.server.resource_version();
            self.reap().await;
            self.run_all(node).await;
            if self.server.resource_version() == before {
                return;
            }
        }
        panic!("the pods do not come to rest");
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn is_live(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}

pub(crate) fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    is_true(pod, "Ready")
}

pub(crate) fn workload(name: &str, replicas: i64, image: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub(crate) fn images(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()).collect()
}
