//! Taints without heartbeats, and volumes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{make, node, server, settle};
use crate::controllers::Controllers;
use crate::meta::{self, at, list_at, text_at};
use crate::server::{Admission, ApiServer, Config};
use crate::verbs::set_condition;

fn tolerating(server: &ApiServer, name: &str, tolerations: &Value) {
    make(
        server,
        "pods",
        json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0,
            "tolerations": tolerations, "containers": [{"name": "c", "image": "i"}]}}),
    );
}

fn names(server: &ApiServer) -> Vec<String> {
    super::pods(server).iter().map(|pod| meta::name(pod).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_tells_no_time_is_borne_from_when_it_is_seen() {
    let server = server();
    node(&server, "n1", &json!({}));
    let of = |seconds: Option<i64>| {
        let mut toleration = json!({"key": "gone", "operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds {
            toleration["tolerationSeconds"] = seconds.into();
        }
        toleration
    };
    tolerating(&server, "never", &json!([]));
    tolerating(&server, "short", &json!([of(Some(60))]));
    // The first toleration of a taint is the one that counts.
    tolerating(&server, "twice", &json!([of(Some(120)), of(Some(10))]));
    tolerating(&server, "always", &json!([of(None)]));
    let running = server.clone();
    let task = tokio::spawn(async move { running.run_controllers(Controllers::default()).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.change_object("nodes", "n1", |node| {
        node["spec"]["taints"] = json!([{"key": "gone", "value": "yes", "effect": "NoExecute"}]);
    });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(names(&server), ["always", "short", "twice"]);
    // Whatever else changes meanwhile.
    server.change_object("nodes", "n1", |node| meta::set(node, "labels", json!({"a": "b"})));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(names(&server), ["always", "twice"]);
    server.change_object("nodes", "n1", |node| node["spec"]["taints"] = json!([]));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(names(&server), ["always", "twice"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_taint_of_a_new_node_goes_but_what_evicts_waits_for_the_node_to_be_ready() {
    let admission = Admission { taint_new_nodes: true, ..Admission::default() };
    let server = ApiServer::new(Config { admission, ..Config::default() });
    node(&server, "n1", &json!({}));
    let taints = || list_at(&server.value("nodes", "n1").unwrap(), &["spec", "taints"]).to_vec();
    assert_eq!(taints().len(), 1);
    settle(&server);
    assert!(taints().is_empty());
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"});
    server.change_object("nodes", "n1", |node| node["spec"]["taints"] = json!([not_ready]));
    settle(&server);
    assert_eq!(taints().len(), 1);
    server.change_object("nodes", "n1", |node| {
        set_condition(node, &json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    });
    settle(&server);
    assert!(taints().is_empty());
}

fn volume(server: &ApiServer, name: &str, size: &str, more: &Value) {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    make(server, "persistentvolumes", json!({"metadata": {"name": name}, "spec": spec}));
}

fn claim(server: &ApiServer, more: &Value) {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    make(server, "persistentvolumeclaims", json!({"metadata": {"name": "c"}, "spec": spec}));
}

fn phase(server: &ApiServer, volume: &str) -> String {
    text_at(&server.value("persistentvolumes", volume).unwrap(), &["status", "phase"]).to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_smallest_of_the_volumes_with_no_more_modes_than_it_asks_for() {
    let server = server();
    volume(&server, "small", "1Gi", &json!({}));
    volume(&server, "versatile", "3Gi", &json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}));
    volume(&server, "middle", "5Gi", &json!({}));
    volume(&server, "large", "9Gi", &json!({}));
    claim(&server, &json!({}));
    settle(&server);
    let claim = server.value("persistentvolumeclaims", "default/c").unwrap();
    assert_eq!(text_at(&claim, &["spec", "volumeName"]), "middle");
    assert_eq!([phase(&server, "middle"), phase(&server, "versatile")], ["Bound", "Available"]);
    let volume = server.value("persistentvolumes", "middle").unwrap();
    assert_eq!(meta::annotation(&volume, "pv.kubernetes.io/bound-by-controller"), Some("yes"));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_kept_for_a_claim_is_bound_though_its_class_waits() {
    let server = server();
    make(
        &server,
        "storageclasses.storage.k8s.io",
        json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
               "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    volume(&server, "v", "5Gi", &json!({"storageClassName": "local"}));
    claim(&server, &json!({"storageClassName": "local"}));
    settle(&server);
    assert_eq!(phase(&server, "v"), "Available");
    let uid = meta::text(&server.value("persistentvolumeclaims", "default/c").unwrap(), "uid").to_owned();
    server.change_object("persistentvolumes", "v", |volume| {
        volume["spec"]["claimRef"] =
            json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": uid});
    });
    settle(&server);
    assert_eq!(phase(&server, "v"), "Bound");
    let claim = server.value("persistentvolumeclaims", "default/c").unwrap();
    assert_eq!(at(&claim, &["status", "phase"]), Some(&json!("Bound")));
}
