//! The stand-ins, driven by hand in paused time.

mod batch;
mod nodes;
mod services;
mod workloads;

use serde_json::{Value, json};

use super::Controllers;
use crate::meta::{self, at, int_at, text_at};
use crate::server::{ApiServer, Config};
use crate::verbs::set_condition;

fn server() -> ApiServer {
    ApiServer::new(Config { epoch: "2026-01-01T00:00:00Z".parse().unwrap(), seed: 3, ..Config::default() })
}

/// Rounds until nothing changes.
fn settle(server: &ApiServer) {
    for _ in 0..200 {
        if !server.reconcile(Controllers::default()) {
            return;
        }
    }
    panic!("the controllers do not come to rest");
}

fn make(server: &ApiServer, storage: &str, object: Value) {
    let namespace = if server.resource_of(storage).unwrap().namespaced { "default" } else { "" };
    let resource = server.resource_of(storage).unwrap();
    server.create_internal(&resource, namespace, object, "test").unwrap();
}

fn node(server: &ApiServer, name: &str, labels: &Value) {
    make(server, "nodes", json!({"metadata": {"name": name, "labels": labels}}));
}

fn pods(server: &ApiServer) -> Vec<Value> {
    server.values("pods", "default")
}

/// Binds every pod that has no node, and has it ready.
fn run_all(server: &ApiServer, node: &str) {
    for pod in pods(server).iter().filter(|pod| !meta::has(pod, "deletionTimestamp")) {
        server.change_object("pods", &super::world::key(pod), |pod| {
            let bound = text_at(pod, &["spec", "nodeName"]).to_owned();
            meta::object_mut(pod, &["spec"])
                .unwrap()
                .insert("nodeName".into(), if bound.is_empty() { node } else { &bound }.into());
            meta::object_mut(pod, &["status"]).unwrap().insert("phase".into(), "Running".into());
            set_condition(
                pod,
                &json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            );
        });
    }
}

/// Lets pods go that wait for a kubelet.
fn reap(server: &ApiServer) {
    for pod in pods(server).iter().filter(|pod| meta::has(pod, "deletionTimestamp")) {
        server.remove_object("pods", &super::world::key(pod), Some(0));
    }
}

fn workload(name: &str, replicas: i64, image: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_from_one_template_to_the_next_within_its_bounds() {
    let server = server();
    node(&server, "n1", &json!({}));
    make(&server, "deployments.apps", workload("web", 4, "one"));
    settle(&server);
    assert_eq!(pods(&server).len(), 4);
    run_all(&server, "n1");
    settle(&server);
    let web = || server.value("deployments.apps", "default/web").unwrap();
    assert_eq!(int_at(&web(), &["status", "availableReplicas"]), Some(4));
    server.change_object("deployments.apps", "default/web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = "two".into();
    });
    for _ in 0..20 {
        settle(&server);
        let live = pods(&server).into_iter().filter(|pod| !meta::has(pod, "deletionTimestamp"));
        let (ready, waiting): (Vec<Value>, Vec<Value>) = live.partition(super::world::is_ready);
        // A quarter more, a quarter fewer.
        assert!(ready.len() >= 3 && ready.len() + waiting.len() <= 5, "{} ready, {} not", ready.len(), waiting.len());
        reap(&server);
        run_all(&server, "n1");
    }
    settle(&server);
    let images: Vec<Value> = pods(&server).iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!(images, ["two", "two", "two", "two"]);
    assert_eq!(int_at(&web(), &["status", "updatedReplicas"]), Some(4));
    assert_eq!(meta::annotation(&web(), "deployment.kubernetes.io/revision"), Some("2"));
    assert_eq!(server.values("replicasets.apps", "default").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_goes_in_order_and_keeps_its_claims() {
    let server = server();
    node(&server, "n1", &json!({}));
    let mut set = workload("db", 3, "one");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    make(&server, "statefulsets.apps", set);
    for n in 1..=3 {
        settle(&server);
        assert_eq!(pods(&server).len(), n);
        run_all(&server, "n1");
    }
    settle(&server);
    let names: Vec<String> = pods(&server).iter().map(|pod| meta::name(pod).to_owned()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    assert_eq!(server.values("persistentvolumeclaims", "default").len(), 3);
    server.change_object("statefulsets.apps", "default/db", |set| set["spec"]["replicas"] = 1.into());
    settle(&server);
    let going: Vec<String> =
        pods(&server).iter().filter(|p| meta::has(p, "deletionTimestamp")).map(|p| meta::name(p).to_owned()).collect();
    assert_eq!(going, ["db-2"]);
    reap(&server);
    settle(&server);
    reap(&server);
    settle(&server);
    assert_eq!(pods(&server).len(), 1);
    assert_eq!(server.values("persistentvolumeclaims", "default").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_on_every_node_that_it_selects() {
    let server = server();
    node(&server, "a", &json!({"disk": "ssd"}));
    node(&server, "b", &json!({}));
    let mut set = workload("log", 0, "one");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    set["spec"].as_object_mut().unwrap().remove("replicas");
    make(&server, "daemonsets.apps", set);
    settle(&server);
    assert_eq!(pods(&server).len(), 1);
    node(&server, "c", &json!({"disk": "ssd"}));
    settle(&server);
    assert_eq!(pods(&server).len(), 2);
    let set = server.value("daemonsets.apps", "default/log").unwrap();
    assert_eq!(int_at(&set, &["status", "desiredNumberScheduled"]), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_complete_when_enough_of_its_pods_succeeded() {
    let server = server();
    make(
        &server,
        "jobs.batch",
        json!({"metadata": {"name": "j"}, "spec": {"parallelism": 2, "completions": 3, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
    );
    for _ in 0..3 {
        settle(&server);
        for pod in pods(&server) {
            server.change_object("pods", &super::world::key(&pod), |pod| pod["status"]["phase"] = "Succeeded".into());
        }
    }
    settle(&server);
    let job = server.value("jobs.batch", "default/j").unwrap();
    assert!(super::world::is_true(&job, "Complete"), "{job}");
    assert_eq!((pods(&server).len(), int_at(&job, &["status", "succeeded"])), (3, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_after_its_backoff_limit() {
    let server = server();
    make(
        &server,
        "jobs.batch",
        json!({"metadata": {"name": "j"}, "spec": {"backoffLimit": 1, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
    );
    for _ in 0..3 {
        settle(&server);
        for pod in pods(&server) {
            server.change_object("pods", &super::world::key(&pod), |pod| pod["status"]["phase"] = "Failed".into());
        }
    }
    settle(&server);
    let job = server.value("jobs.batch", "default/j").unwrap();
    assert!(super::world::is_true(&job, "Failed"));
    assert_eq!(pods(&server).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_what_its_deployment_wants() {
    let server = server();
    node(&server, "n1", &json!({}));
    make(&server, "deployments.apps", workload("web", 4, "one"));
    make(
        &server,
        "poddisruptionbudgets.policy",
        json!({"metadata": {"name": "b"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}}),
    );
    settle(&server);
    let allowed = || {
        let budget = server.value("poddisruptionbudgets.policy", "default/b").unwrap();
        (int_at(&budget, &["status", "expectedPods"]), int_at(&budget, &["status", "disruptionsAllowed"]))
    };
    assert_eq!(allowed(), (Some(4), Some(0)));
    run_all(&server, "n1");
    settle(&server);
    assert_eq!(allowed(), (Some(4), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_silent_node_are_evicted_when_their_tolerations_end() {
    let server = server();
    node(&server, "n1", &json!({}));
    server.change_object("nodes", "n1", |node| {
        set_condition(node, &json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    });
    let lease = server.resource_of("leases.coordination.k8s.io").unwrap();
    let renewed = json!({"metadata": {"name": "n1"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    server.create_internal(&lease, "kube-node-lease", renewed, "test").unwrap();
    make(
        &server,
        "pods",
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}),
    );
    settle(&server);
    let running = server.clone();
    let task = tokio::spawn(async move { running.run_controllers(Controllers::default()).await });
    let node = || server.value("nodes", "n1").unwrap();
    let taints = || meta::list_at(&node(), &["spec", "taints"]).len();
    tokio::time::sleep(std::time::Duration::from_secs(45)).await;
    assert_eq!(taints(), 0);
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(taints(), 2);
    let is_going = || meta::has(&server.value("pods", "default/p").unwrap(), "deletionTimestamp");
    tokio::time::sleep(std::time::Duration::from_secs(290)).await;
    assert!(!is_going());
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    assert!(is_going());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_is_bound_when_a_node_is_chosen_for_it() {
    let server = server();
    node(&server, "n1", &json!({"topology.kubernetes.io/zone": "z1"}));
    make(
        &server,
        "storageclasses.storage.k8s.io",
        json!({"metadata": {"name": "late"}, "provisioner": "p.io/x",
        "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    make(
        &server,
        "persistentvolumeclaims",
        json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "late",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    settle(&server);
    let claim = || server.value("persistentvolumeclaims", "default/c").unwrap();
    assert_eq!(text_at(&claim(), &["status", "phase"]), "Pending");
    server.change_object("persistentvolumeclaims", "default/c", |claim| {
        claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n1"});
    });
    settle(&server);
    assert_eq!(text_at(&claim(), &["status", "phase"]), "Bound");
    let volume = server.value("persistentvolumes", text_at(&claim(), &["spec", "volumeName"])).unwrap();
    assert_eq!(text_at(&volume, &["status", "phase"]), "Bound");
    assert!(at(&volume, &["spec", "nodeAffinity"]).unwrap().to_string().contains("z1"));
    server.remove_object("persistentvolumeclaims", "default/c", None);
    settle(&server);
    assert!(server.values("persistentvolumes", "").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_of_nodes_that_are_gone_go() {
    let server = server();
    node(&server, "n1", &json!({}));
    make(
        &server,
        "pods",
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}),
    );
    settle(&server);
    assert_eq!(pods(&server).len(), 1);
    server.remove_object("nodes", "n1", None);
    settle(&server);
    assert!(pods(&server).is_empty());
}
