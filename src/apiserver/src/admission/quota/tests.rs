//! Quotas through requests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::server::{ApiServer, Config};
use crate::testing::send;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn with_quota(spec: Value) -> ApiServer {
    let server = ApiServer::new(Config::default());
    let quota = json!({"metadata": {"name": "q"}, "spec": spec});
    assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/resourcequotas", quota).await.0, 201);
    server
}

fn pod(name: &str, cpu: &str) -> Value {
    let amounts = json!({"cpu": cpu});
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]}})
}

/// What is used of the quota, by the ledger and by a count of everything.
fn used(server: &ApiServer, name: &str) -> String {
    let used = |ledger: &mut super::Ledger| {
        let quotas = ledger.quotas(server, "default");
        quotas.into_iter().find(|quota| quota.name == "q").map(|quota| quota.used.clone()).unwrap_or_default()
    };
    let counted = used(&mut server.inner.quota.lock());
    let anew = used(&mut super::Ledger::default());
    assert_eq!(counted, anew, "the ledger and a count of what is there");
    counted.get(name).map(ToString::to_string).unwrap_or_default()
}

#[tokio::test]
async fn what_ends_or_goes_gives_its_quota_back() {
    let server = with_quota(json!({"hard": {"pods": "2", "cpu": "2"}})).await;
    for (name, code) in [("a", 201), ("b", 201), ("c", 403)] {
        assert_eq!(send(&server, "POST", PODS, pod(name, "1")).await.0, code, "{name}");
    }
    assert_eq!(used(&server, "cpu"), "2");
    let done = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(send(&server, "PATCH", &format!("{PODS}/a/status"), done).await.0, 200);
    assert_eq!(used(&server, "cpu"), "1");
    assert_eq!(send(&server, "POST", PODS, pod("c", "1")).await.0, 201);
    assert_eq!(send(&server, "DELETE", &format!("{PODS}/b"), Value::Null).await.0, 200);
    assert_eq!(used(&server, "pods"), "1");
}

#[tokio::test]
async fn a_pod_that_is_resized_needs_quota_for_what_it_gets() {
    let server = with_quota(json!({"hard": {"requests.cpu": "2"}})).await;
    send(&server, "POST", PODS, pod("a", "1")).await;
    let resize = |cpu: &str| {
        let amounts = json!({"cpu": cpu});
        json!({"spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]}})
    };
    let path = format!("{PODS}/a/resize");
    let (code, refused) = send(&server, "PATCH", &path, resize("3")).await;
    assert_eq!(code, 403, "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("requested: requests.cpu=2, used: requests.cpu=1"),
        "{refused}"
    );
    assert_eq!(send(&server, "PATCH", &path, resize("2")).await.0, 200);
    assert_eq!(used(&server, "requests.cpu"), "2");
    assert_eq!(send(&server, "PATCH", &path, resize("1")).await.0, 200);
    assert_eq!(used(&server, "requests.cpu"), "1");
}

#[tokio::test]
async fn a_claim_that_grows_and_a_service_that_changes_its_type_need_quota() {
    let server = with_quota(json!({"hard": {"requests.storage": "2Gi", "services.nodeports": "0"}})).await;
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(send(&server, "POST", CLAIMS, claim).await.0, 201);
    let grow = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let (code, refused) = send(&server, "PATCH", &format!("{CLAIMS}/a"), grow("3Gi")).await;
    assert!(code == 403 && refused["message"].as_str().unwrap().contains("exceeded quota"), "{refused}");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(send(&server, "POST", SERVICES, service).await.0, 201);
    let open = json!({"spec": {"type": "NodePort"}});
    assert_eq!(send(&server, "PATCH", &format!("{SERVICES}/s"), open).await.0, 403);
}

#[tokio::test]
async fn scopes_decide_which_pods_count() {
    let server = with_quota(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
    let best_effort =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(send(&server, "POST", PODS, best_effort("a")).await.0, 201);
    assert_eq!(send(&server, "POST", PODS, pod("b", "1")).await.0, 201);
    assert_eq!(send(&server, "POST", PODS, best_effort("c")).await.0, 403);
    assert_eq!(used(&server, "pods"), "1");
}

#[tokio::test]
async fn a_forgotten_history_is_counted_anew() {
    let server = with_quota(json!({"hard": {"pods": "3", "count/configmaps": "1"}})).await;
    send(&server, "POST", PODS, pod("a", "1")).await;
    assert_eq!(used(&server, "pods"), "1");
    send(&server, "POST", PODS, pod("b", "1")).await;
    send(&server, "DELETE", &format!("{PODS}/a"), Value::Null).await;
    server.compact();
    assert_eq!(used(&server, "pods"), "1");
    let map = |name: &str| json!({"metadata": {"name": name}});
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(send(&server, "POST", maps, map("a")).await.0, 201);
    assert_eq!(send(&server, "POST", maps, map("b")).await.0, 403);
}

#[tokio::test]
async fn a_quota_that_comes_later_or_changes_counts_what_is_there_beside_another() {
    let server = with_quota(json!({"hard": {"pods": "9"}})).await;
    send(&server, "POST", PODS, pod("a", "1")).await;
    assert_eq!(used(&server, "pods"), "1");
    send(&server, "POST", PODS, pod("b", "2")).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let other = json!({"metadata": {"name": "other"}, "spec": {"hard": {"cpu": "3", "pods": "9"}}});
    assert_eq!(send(&server, "POST", quotas, other).await.0, 201);
    assert_eq!(send(&server, "POST", PODS, pod("c", "1")).await.0, 403);
    assert_eq!(used(&server, "pods"), "2");
    let more = json!({"spec": {"hard": {"cpu": "9"}}});
    assert_eq!(send(&server, "PATCH", &format!("{quotas}/q"), more).await.0, 200);
    assert_eq!(used(&server, "cpu"), "3");
}

#[tokio::test]
async fn pods_that_take_the_same_share_what_is_kept_of_it_through_all_their_changes() {
    let server = with_quota(json!({"hard": {"cpu": "9"}})).await;
    for (name, cpu) in [("a", "1"), ("b", "1"), ("c", "2")] {
        send(&server, "POST", PODS, pod(name, cpu)).await;
    }
    let charge = |name: &str| {
        let pod = server.inner.store.get("pods", &format!("default/{name}")).unwrap();
        pod.charge.clone().unwrap()
    };
    let first = charge("a");
    send(&server, "PATCH", &format!("{PODS}/a/status"), json!({"status": {"phase": "Running"}})).await;
    assert!(Arc::ptr_eq(&first, &charge("a")) && Arc::ptr_eq(&first, &charge("b")));
    assert!(!Arc::ptr_eq(&first, &charge("c")));
    send(&server, "PATCH", &format!("{PODS}/a/status"), json!({"status": {"phase": "Failed"}})).await;
    assert_ne!(first, charge("a"));
    // A server that continues from a snapshot knows them, too.
    let again = ApiServer::restore(Config::default(), &server.snapshot()).unwrap();
    assert_eq!(used(&again, "cpu"), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creates_at_the_same_time_never_exceed_a_quota() {
    let server = with_quota(json!({"hard": {"pods": "50"}})).await;
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..8 {
        let server = server.clone();
        tasks.spawn(async move {
            let mut made = 0;
            for n in 0..20 {
                made += u16::from(send(&server, "POST", PODS, pod(&format!("p-{client}-{n}"), "1")).await.0 == 201);
            }
            made
        });
    }
    let made: u16 = tasks.join_all().await.into_iter().sum();
    assert_eq!(made, 50);
    assert_eq!(used(&server, "pods"), "50");
}

/// What a container asks for, and what it is limited to.
fn container(name: &str, requests: &Value, limits: &Value) -> Value {
    json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
}

/// A pod with an init container, which stays if it is a sidecar.
fn with_init(spec: (Value, Value), is_sidecar: bool) -> Value {
    let (containers, mut init) = spec;
    if is_sidecar {
        init["restartPolicy"] = "Always".into();
    }
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": [init]}})
}

/// Each container states what a quota counts, not only the pod in all.
#[tokio::test]
async fn every_container_states_what_a_quota_counts() {
    let server = with_quota(json!({"hard": {"cpu": "4", "limits.cpu": "8", "memory": "4Gi"}})).await;
    let all = json!({"cpu": "1", "memory": "1Gi"});
    let full = || container("app", &all, &all);
    let cpu = || json!({"cpu": "1"});
    for is_sidecar in [false, true] {
        let pod = with_init((json!([full()]), container("first", &cpu(), &cpu())), is_sidecar);
        let (code, told) = send(&server, "POST", PODS, pod).await;
        assert_eq!(code, 403);
        let told = told["message"].as_str().unwrap();
        assert!(told.ends_with("failed quota: q: must specify memory for: first"), "{told}");
    }
    let pair = json!([full(), container("other", &json!({"memory": "1Gi"}), &json!({"memory": "1Gi"}))]);
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": pair}});
    let told = send(&server, "POST", PODS, pod.clone()).await.1;
    assert!(
        told["message"].as_str().unwrap().ends_with("must specify cpu for: other; limits.cpu for: other"),
        "{told}"
    );
    // What the pod states itself is enough, and is what counts.
    pod["spec"]["resources"] = json!({"requests": {"cpu": "3", "memory": "2Gi"}, "limits": {"cpu": "3"}});
    assert_eq!(send(&server, "POST", PODS, pod).await.0, 201);
    assert_eq!(used(&server, "cpu"), "3");
}

/// A LimitRange's bounds of a pod are of its init containers and sidecars, too.
#[tokio::test]
async fn bounds_of_a_pod_count_what_runs_before_and_beside_its_containers() {
    let cpus = |amount: &str| json!({"cpu": amount});
    for (bound, first, is_sidecar, code) in [
        (json!({"max": cpus("1500m")}), "1", true, 403),
        (json!({"max": cpus("1500m")}), "1", false, 201),
        (json!({"max": cpus("1500m")}), "2", false, 403),
        (json!({"min": cpus("1500m")}), "1", true, 201),
        (json!({"min": cpus("1500m")}), "1", false, 403),
        (json!({"min": cpus("1500m")}), "2", false, 201),
    ] {
        let server = ApiServer::new(Config::default());
        let mut limit = json!({"type": "Pod"});
        limit.as_object_mut().unwrap().extend(bound.as_object().unwrap().clone());
        let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}});
        assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/limitranges", range).await.0, 201);
        let init = container("first", &cpus(first), &cpus(first));
        let pod = with_init((json!([container("app", &cpus("1"), &cpus("1"))]), init), is_sidecar);
        let (got, told) = send(&server, "POST", PODS, pod).await;
        assert_eq!(got, code, "{bound}, {first}, sidecar: {is_sidecar}: {told}");
    }
}
