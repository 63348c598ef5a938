//! kube-rs works on the server unchanged.

mod common;

use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::{ApiServer, Config};
use common::{client, create, from, pod, refusal, server};
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, ObjectReference, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as FinalizerEvent, finalizer};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

#[tokio::test]
async fn a_new_pod_is_owned_field_by_field_and_its_containers_by_name() {
    let pods: Api<Pod> = Api::default_namespaced(client(&server()));
    let made = pods.create(&PostParams { field_manager: Some("me".into()), ..PostParams::default() }, &pod("p")).await;
    let owned = serde_json::to_value(made.unwrap().metadata.managed_fields.unwrap()).unwrap();
    let spec = &owned[0]["fieldsV1"]["f:spec"];
    assert_eq!(owned[0]["manager"], "me");
    assert_eq!(spec["f:containers"]["k:{\"name\":\"c\"}"]["f:image"], json!({}));
    assert_eq!(spec["f:restartPolicy"], json!({}));
    assert_eq!(owned[0]["fieldsV1"]["f:metadata"]["f:labels"]["f:app"], json!({}));
    assert!(owned[0]["fieldsV1"].get("f:status").is_none());
}

#[tokio::test]
async fn where_not_all_managers_are_tracked_those_of_what_was_applied_are() {
    let server = ApiServer::new(Config { tracks_all_managers: false, ..Config::default() });
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let made = pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let changed = pods.patch("p", &PatchParams::default(), &label).await.unwrap();
    assert_eq!((made.metadata.managed_fields, changed.metadata.managed_fields), (None, None));
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let apply = |data: serde_json::Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}))
    };
    maps.patch("m", &PatchParams::apply("me"), &apply(json!({"x": "1", "y": "2"}))).await.unwrap();
    let merge = Patch::Merge(json!({"data": {"z": "3"}}));
    maps.patch("m", &PatchParams::default(), &merge).await.unwrap();
    let left = maps.patch("m", &PatchParams::apply("me"), &apply(json!({"x": "1"}))).await.unwrap();
    assert_eq!(left.metadata.managed_fields.unwrap().len(), 2);
    assert_eq!(left.data.unwrap().into_keys().collect::<Vec<_>>(), ["x", "z"]);
}

#[tokio::test]
async fn a_converted_object_keeps_a_place_for_its_resource_version() {
    use k8s_openapi::api::autoscaling::{v1, v2};
    let client = client(&server());
    let old: Api<v1::HorizontalPodAutoscaler> = Api::default_namespaced(client.clone());
    let new: Api<v2::HorizontalPodAutoscaler> = Api::default_namespaced(client);
    let spec = json!({"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}});
    let object = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
    let made = old.create(&PostParams::default(), &object).await.unwrap();
    let read = new.get("a").await.unwrap();
    assert!(made.resource_version().is_some_and(|version| !version.is_empty()));
    assert_eq!(read.resource_version(), made.resource_version());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_with_streaming_lists_sees_what_is_there_and_what_comes() {
    let client = client(&server());
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("before")).await.unwrap();
    let events = watcher(pods.clone(), watcher::Config::default().streaming_lists());
    pin_mut!(events);
    assert!(matches!(events.try_next().await.unwrap(), Some(watcher::Event::Init)));
    let Some(watcher::Event::InitApply(first)) = events.try_next().await.unwrap() else { panic!("an initial pod") };
    assert_eq!(first.name_any(), "before");
    assert!(matches!(events.try_next().await.unwrap(), Some(watcher::Event::InitDone)));
    pods.create(&PostParams::default(), &pod("after")).await.unwrap();
    let Some(watcher::Event::Apply(second)) = events.try_next().await.unwrap() else { panic!("a new pod") };
    assert_eq!(second.name_any(), "after");
    pods.delete("before", &DeleteParams::default()).await.unwrap();
    let Some(watcher::Event::Delete(gone)) = events.try_next().await.unwrap() else { panic!("a deletion") };
    assert_eq!(gone.name_any(), "before");
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_through_a_compaction() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let (reader, writer) = reflector::store();
    let stream =
        reflector(writer, watcher(pods.clone(), watcher::Config::default())).default_backoff().applied_objects();
    let task = tokio::spawn(async move { stream.for_each(|_| async {}).await });
    reader.wait_until_ready().await.unwrap();
    for name in ["a", "b", "c"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
        server.compact();
    }
    let settled = async {
        while reader.state().len() != 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), settled).await.unwrap();
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_with_finalizer_and_events() {
    #[derive(Debug, thiserror::Error)]
    #[error("reconciling failed")]
    struct Failed(#[source] Box<dyn std::error::Error + Send + Sync>);

    let client = client(&server());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let context = client.clone();
    let controller = Controller::new(maps.clone(), watcher::Config::default()).run(
        |map: Arc<ConfigMap>, client: Arc<kube::Client>| async move {
            let api: Api<ConfigMap> = Api::default_namespaced((*client).clone());
            let recorder = Recorder::new((*client).clone(), Reporter::from("berth-test"));
            let reference = ObjectReference {
                kind: Some("ConfigMap".into()),
                name: map.metadata.name.clone(),
                namespace: map.namespace(),
                uid: map.uid(),
                api_version: Some("v1".into()),
                ..ObjectReference::default()
            };
            finalizer(&api, "berth.sh/test", map, |event| async move {
                let reason = match event {
                    FinalizerEvent::Apply(_) => "Applied",
                    FinalizerEvent::Cleanup(_) => "Cleaned",
                };
                let event = kube::runtime::events::Event {
                    type_: EventType::Normal,
                    reason: reason.into(),
                    note: None,
                    action: "Reconcile".into(),
                    secondary: None,
                };
                recorder.publish(&event, &reference).await?;
                Ok::<_, kube::Error>(Action::await_change())
            })
            .await
            .map_err(|error| Failed(Box::new(error)))
        },
        |_, _, _| Action::requeue(Duration::from_secs(1)),
        Arc::new(context),
    );
    let task = tokio::spawn(controller.for_each(|_| async {}));
    create(&maps, json!({"metadata": {"name": "m"}, "data": {"a": "b"}})).await;
    let until = |wanted: &'static str| {
        let events: Api<Event> = Api::default_namespaced(client.clone());
        async move {
            loop {
                let list = events.list(&ListParams::default().fields(&format!("reason={wanted}"))).await.unwrap();
                if let [event] = list.items.as_slice() {
                    return event.clone();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    let applied = tokio::time::timeout(Duration::from_secs(60), until("Applied")).await.unwrap();
    assert_eq!(applied.involved_object.name.as_deref(), Some("m"));
    assert_eq!(maps.get("m").await.unwrap().finalizers(), ["berth.sh/test"]);
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), until("Cleaned")).await.unwrap();
    let gone = async {
        while maps.get_opt("m").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
    task.abort();
}

fn deployment(replicas: i32, image: &str) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

#[tokio::test]
async fn two_managers_apply_to_one_object() {
    let deployments: Api<Deployment> = Api::default_namespaced(client(&server()));
    let apply = |manager: &'static str, value: serde_json::Value, force: bool| {
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        let deployments = deployments.clone();
        async move { deployments.patch("web", &params, &Patch::Apply(&value)).await }
    };
    apply("a", deployment(2, "one"), false).await.unwrap();
    let own = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}});
    let both = apply("b", own, false).await.unwrap();
    let names: Vec<_> = both.spec.unwrap().template.spec.unwrap().containers.into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["c", "side"]);
    assert_eq!(refusal(apply("c", deployment(3, "one"), false).await), (409, "Conflict".into()));
    apply("c", deployment(3, "one"), true).await.unwrap();
    // Left out by its only owner, the second container goes.
    let none = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    let without = apply("b", none, false).await.unwrap();
    assert_eq!(without.spec.unwrap().template.spec.unwrap().containers.len(), 1);
}

#[allow(clippy::unwrap_used)]
async fn running(pods: &Api<Pod>, name: &str) {
    pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test]
async fn evictions_are_spent_from_the_budget() {
    let client = client(&server());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client);
    create(&budgets, json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {}}})).await;
    running(&pods, "a").await;
    running(&pods, "b").await;
    assert_eq!(refusal(pods.evict("a", &EvictParams::default()).await), (429, "TooManyRequests".into()));
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    budgets.patch_status("b", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    pods.evict("a", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
    assert_eq!(refusal(pods.evict("b", &EvictParams::default()).await), (429, "TooManyRequests".into()));
    assert_eq!(budgets.get("b").await.unwrap().status.unwrap().disruptions_allowed, 0);
}

#[tokio::test]
async fn nodes_are_cordoned_and_pods_bound_once() {
    let client = client(&server());
    let nodes: Api<Node> = Api::all(client.clone());
    create(&nodes, json!({"metadata": {"name": "n1"}})).await;
    nodes.cordon("n1").await.unwrap();
    assert_eq!(nodes.get("n1").await.unwrap().spec.unwrap().unschedulable, Some(true));
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let bind = || {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
        let pods = pods.clone();
        async move {
            pods.create_subresource::<_, serde_json::Value>("binding", "p", &PostParams::default(), &binding).await
        }
    };
    bind().await.unwrap();
    assert_eq!(refusal(bind().await), (409, "Conflict".into()));
    let on_node = pods.list(&ListParams::default().fields("spec.nodeName=n1")).await.unwrap();
    assert_eq!(on_node.items.len(), 1);
}

/// The regression: the nomination stayed with the pod, as on servers before Kubernetes 1.35.
#[tokio::test]
async fn a_pod_that_is_bound_is_nominated_to_no_node() {
    let pods: Api<Pod> = Api::default_namespaced(client(&server()));
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let nominated = Patch::Merge(json!({"status": {"nominatedNodeName": "n1"}}));
    pods.patch_status("p", &PatchParams::default(), &nominated).await.unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    pods.create_subresource::<_, serde_json::Value>("binding", "p", &PostParams::default(), &binding).await.unwrap();
    let bound = pods.get("p").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(bound.status.unwrap().nominated_node_name, None);
}

#[tokio::test]
async fn lists_come_in_pages_of_one_version() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    for n in 0..5 {
        pods.create(&PostParams::default(), &pod(&format!("p{n}"))).await.unwrap();
    }
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    pods.delete("p3", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = pods.list(&ListParams::default().limit(10).continue_token(&token)).await.unwrap();
    assert_eq!(second.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["p2", "p3", "p4"]);
    server.compact();
    let expired = pods.list(&ListParams::default().limit(10).continue_token(&token)).await;
    assert_eq!(refusal(expired), (410, "Expired".into()));
}

#[tokio::test]
async fn a_stale_write_is_a_conflict_and_a_write_of_nothing_is_no_write() {
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server()));
    let old = create(&maps, json!({"metadata": {"name": "m"}, "data": {"a": "1"}})).await;
    let same = maps.replace("m", &PostParams::default(), &old).await.unwrap();
    assert_eq!(same.resource_version(), old.resource_version());
    let mut new = old.clone();
    new.data = Some([("a".to_owned(), "2".to_owned())].into());
    let newer = maps.replace("m", &PostParams::default(), &new).await.unwrap();
    assert_ne!(newer.resource_version(), old.resource_version());
    assert_eq!(refusal(maps.replace("m", &PostParams::default(), &old).await), (409, "Conflict".into()));
}

#[tokio::test]
async fn a_dry_run_answers_as_if_and_leaves_nothing() {
    let pods: Api<Pod> = Api::default_namespaced(client(&server()));
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let shown = pods.create(&params, &pod("p")).await.unwrap();
    assert!(shown.uid().is_some());
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test]
async fn generated_names_are_free_ones() {
    let pods: Api<Pod> = Api::default_namespaced(client(&server()));
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let mut one = pod("x");
        one.metadata.name = None;
        one.metadata.generate_name = Some("p-".into());
        names.insert(pods.create(&PostParams::default(), &one).await.unwrap().name_any());
    }
    assert_eq!(names.len(), 20);
    assert!(names.iter().all(|name| name.len() == 7));
}

#[tokio::test]
async fn typed_objects_survive_the_way_there_and_back() {
    let pods: Api<Pod> = Api::default_namespaced(client(&server()));
    let given: Pod = from(json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "0.1", "memory": "64Mi"}}}],
        "tolerations": [{"key": "a", "operator": "Exists"}]}}));
    let stored = pods.create(&PostParams::default(), &given).await.unwrap();
    let requests = stored.spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap().requests.clone().unwrap();
    assert_eq!(requests["cpu"].0, "100m");
    assert_eq!(pods.get("p").await.unwrap(), stored);
}

/// Tries to take or keep a Lease once; whether `me` holds it afterwards.
async fn campaign(leases: &Api<Lease>, me: &str, now: jiff::Timestamp) -> bool {
    let spec = |transitions: i64| {
        json!({"holderIdentity": me, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
               "renewTime": format!("{now:.6}")})
    };
    let Ok(Some(held)) = leases.get_opt("leader").await else {
        let lease: Lease = from(json!({"metadata": {"name": "leader"}, "spec": spec(0)}));
        return leases.create(&PostParams::default(), &lease).await.is_ok();
    };
    let current = held.spec.clone().unwrap_or_default();
    let is_mine = current.holder_identity.as_deref() == Some(me);
    let renewed = current.renew_time.map(|time| time.0);
    let is_over = renewed.is_none_or(|renewed| now.duration_since(renewed).as_secs() >= 15);
    if !is_mine && !is_over {
        return false;
    }
    let transitions = i64::from(current.lease_transitions.unwrap_or(0)) + i64::from(!is_mine);
    // The version of the lease that was read fences off whoever came in between.
    let version = held.resource_version();
    let lease: Lease =
        from(json!({"metadata": {"name": "leader", "resourceVersion": version}, "spec": spec(transitions)}));
    leases.replace("leader", &PostParams::default(), &lease).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_lease_has_one_holder_and_the_next_one_when_it_falls_silent() {
    let server = server();
    let leases: Api<Lease> = Api::default_namespaced(client(&server));
    let mut holders = Vec::new();
    for second in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The first candidate dies after twenty seconds.
        let names: &[&str] = if second < 20 { &["a", "b", "c"] } else { &["b", "c"] };
        let tried = names.iter().map(|name| campaign(&leases, name, server.now()));
        let won: Vec<&str> = names
            .iter()
            .zip(futures::future::join_all(tried).await)
            .filter(|(_, won)| *won)
            .map(|(name, _)| *name)
            .collect();
        assert!(won.len() <= 1, "{won:?} hold it in second {second}");
        holders.extend(won.first().map(|name| (*name).to_owned()));
    }
    holders.dedup();
    assert_eq!(holders.len(), 2, "{holders:?}");
    let lease = leases.get("leader").await.unwrap().spec.unwrap();
    assert_eq!(lease.lease_transitions, Some(1));
}

#[tokio::test]
async fn logs_of_a_pod_whose_node_has_no_kubelet_say_so() {
    let pods: Api<Pod> = Api::default_namespaced(client(&server()));
    let logs = |name: &'static str| {
        let pods = pods.clone();
        async move {
            let Err(kube::Error::Api(status)) = pods.logs(name, &LogParams::default()).await else { panic!() };
            (status.code, status.message.clone())
        }
    };
    assert_eq!(logs("p").await.0, 404);
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    assert_eq!(pods.logs("p", &LogParams::default()).await.unwrap(), "", "it has no node yet");
    let mut bound = pod("q");
    bound.spec.as_mut().unwrap().node_name = Some("n1".to_owned());
    pods.create(&PostParams::default(), &bound).await.unwrap();
    let (code, message) = logs("q").await;
    assert_eq!(code, 500);
    assert!(message.contains("node \"n1\" has no kubelet endpoint"), "{message}");
}
