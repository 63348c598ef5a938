//! The garbage collector and namespaces, in paused time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use berth_apiserver::{ApiServer, FaultRates, Faults};
use berth_controller_manager::{Controller, Controllers};
use common::{World, config, is_live, name, options, pod, workload};
use kube::Client;
use serde_json::{Value, json};

fn owned_by(object: &Value, name: &str, blocks: bool) -> Value {
    let kind = object["kind"].as_str().unwrap();
    json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": object["apiVersion"], "kind": kind,
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"], "blockOwnerDeletion": blocks}]}})
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// The lists of two resources are of two moments. An owner and its dependent that come in between were taken for a
/// dependent without an owner: of 200 Secrets with new owners 120 were deleted beside 20,000 pods.
#[tokio::test(start_paused = true)]
async fn dependents_of_owners_that_were_just_created_are_not_deleted() {
    let world = World::with(config(), Controllers::of(&[Controller::GarbageCollector]));
    for n in 0..500 {
        world.create("pods/default", &pod(&format!("p{n}"))).await;
    }
    for n in 0..200 {
        let owner = world.create("configmaps/default", &named(&format!("owner-{n}"))).await;
        world.create("secrets/default", &owned_by(&owner, &format!("dependent-{n}"), false)).await;
        if n % 20 == 0 {
            tokio::task::yield_now().await;
        }
    }
    world.settle().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.list("secrets/default").await.len(), 200);
    assert_eq!(world.metrics.failures(), 0, "{:?}", world.metrics.last_error());
}

/// The same with watches that lag, end and expire, and requests that fail: an error is not an absence.
#[tokio::test(start_paused = true)]
async fn an_error_never_reads_as_no_objects() {
    for seed in 0..5 {
        let rates = FaultRates {
            latency: 300,
            latency_max: Duration::from_millis(500),
            too_many_requests: 50,
            error_before: 200,
            watch_end: 30,
            watch_expired: 20,
            watch_delay: 300,
            ..FaultRates::default()
        };
        let server = ApiServer::new(config());
        let faulty = Client::new(Faults::seeded(seed, rates).around(server.clone()), "default");
        let world = World::through(faulty, server.clone(), options(&server));
        for n in 0..40 {
            let owner = world.create("configmaps/default", &named(&format!("owner-{n}"))).await;
            world.create("secrets/default", &owned_by(&owner, &format!("dependent-{n}"), false)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(world.list("secrets/default").await.len(), 40, "seed {seed}");
        // And what has to go still goes.
        world.delete("configmaps/default/owner-7").await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(world.list("secrets/default").await.len(), 39, "seed {seed}");
        assert!(world.metrics.failures() > 0);
    }
}

/// The graph knows the UID, which is why nobody looked whether it is the owner that is meant.
#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_or_of_another_name_is_none() {
    let world = World::new();
    world.create("namespaces", &named("other")).await;
    let owner = world.create("configmaps/default", &named("owner")).await;
    world.settle().await;
    let mut misnamed = owned_by(&owner, "misnamed", false);
    misnamed["metadata"]["ownerReferences"][0]["name"] = "nobody".into();
    world.create("secrets/other", &owned_by(&owner, "far", false)).await;
    world.create("secrets/default", &misnamed).await;
    world.create("secrets/default", &owned_by(&owner, "near", false)).await;
    // One that is of no namespace cannot have it as its owner either; as upstream, nothing is deleted for that.
    world.create("nodes", &owned_by(&owner, "node", false)).await;
    world.settle().await;
    let names = |list: Vec<Value>| list.iter().map(|object| name(object).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(world.list("secrets/default").await), ["near"]);
    assert!(world.list("secrets/other").await.is_empty());
    assert_eq!(names(world.list("nodes").await), ["node"]);
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_owner_in_the_background() {
    let world = World::new();
    world.create("deployments/default", &workload("web", 3, "i")).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 3);
    world.delete_with("deployments/default/web", &json!({"propagationPolicy": "Background"})).await;
    world.settle().await;
    assert!(world.list("replicasets/default").await.is_empty());
    assert!(world.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dependent_whose_owner_never_was_goes() {
    let world = World::new();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none", "uid": "0-0"}});
    world.create("secrets/default", &owned_by(&owner, "lost", false)).await;
    world.settle().await;
    assert!(world.get("secrets/default/lost").await.is_none());
}

/// An owner of the same name that was created later is another one.
#[tokio::test(start_paused = true)]
async fn an_owner_is_told_by_its_uid() {
    let world = World::new();
    let first = world.create("configmaps/default", &named("owner")).await;
    world.create("secrets/default", &owned_by(&first, "old", false)).await;
    world.settle().await;
    world.delete("configmaps/default/owner").await;
    world.create("configmaps/default", &named("owner")).await;
    world.settle().await;
    assert!(world.get("secrets/default/old").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_the_foreground_waits_for_those_that_block_it() {
    let world = World::new();
    let owner = world.create("configmaps/default", &named("owner")).await;
    let mut kept = owned_by(&owner, "kept", true);
    kept["metadata"]["finalizers"] = json!(["example.com/wait"]);
    world.create("secrets/default", &kept).await;
    world.create("secrets/default", &owned_by(&owner, "free", false)).await;
    world.settle().await;
    world.delete_with("configmaps/default/owner", &json!({"propagationPolicy": "Foreground"})).await;
    world.settle().await;
    assert!(world.get("secrets/default/free").await.is_none());
    assert!(!is_live(&world.get("secrets/default/kept").await.unwrap()));
    assert!(!is_live(&world.get("configmaps/default/owner").await.unwrap()));
    world.patch("secrets/default/kept", &json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert!(world.get("configmaps/default/owner").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let world = World::new();
    let owner = world.create("configmaps/default", &named("owner")).await;
    world.create("secrets/default", &owned_by(&owner, "orphan", true)).await;
    world.settle().await;
    world.delete_with("configmaps/default/owner", &json!({"propagationPolicy": "Orphan"})).await;
    world.settle().await;
    assert!(world.get("configmaps/default/owner").await.is_none());
    assert!(world.get("secrets/default/orphan").await.unwrap()["metadata"]["ownerReferences"].is_null());
}

#[tokio::test(start_paused = true)]
async fn of_two_owners_the_one_that_is_left_is_kept() {
    let world = World::new();
    let a = world.create("configmaps/default", &named("a")).await;
    let b = world.create("configmaps/default", &named("b")).await;
    let mut both = owned_by(&a, "both", false);
    let second = owned_by(&b, "both", false)["metadata"]["ownerReferences"][0].clone();
    both["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    world.create("secrets/default", &both).await;
    world.settle().await;
    world.delete("configmaps/default/a").await;
    world.settle().await;
    let left = world.get("secrets/default/both").await.unwrap();
    let owners = left["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), owners[0]["name"].as_str()), (1, Some("b")));
}

#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_owned() {
    let world = World::new();
    world.create("customresourcedefinitions", &widgets()).await;
    world.settle().await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = world.create("widgets/default", &widget).await;
    world.create("secrets/default", &owned_by(&widget, "of-widget", false)).await;
    let owner = world.create("configmaps/default", &named("owner")).await;
    let mut second = owned_by(&owner, "owned", false);
    second["apiVersion"] = "example.com/v1".into();
    second["kind"] = "Widget".into();
    world.create("widgets/default", &second).await;
    world.settle().await;
    assert_eq!(world.names("widgets/default").await, ["owned", "w"]);
    world.delete("widgets/default/w").await;
    world.delete("configmaps/default/owner").await;
    world.settle().await;
    assert!(world.get("secrets/default/of-widget").await.is_none());
    assert!(world.list("widgets/default").await.is_empty());
}

fn widgets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

/// Whether an owner is there cannot be told before its kind is served: until then its dependents stay, also those that came
/// while it was being looked up.
#[tokio::test(start_paused = true)]
async fn dependents_of_a_kind_that_is_served_later_go_once_it_is() {
    let world = World::new();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "0-0"}});
    for dependent in ["first", "second", "third"] {
        world.create("secrets/default", &owned_by(&owner, dependent, false)).await;
        world.settle().await;
    }
    for dependent in ["first", "second", "third"] {
        assert!(world.get(&format!("secrets/default/{dependent}")).await.is_some(), "{dependent}");
    }
    world.create("customresourcedefinitions", &widgets()).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.settle().await;
    for dependent in ["first", "second", "third"] {
        assert!(world.get(&format!("secrets/default/{dependent}")).await.is_none(), "{dependent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_all_that_it_has_is_gone() {
    let world = World::new();
    world.create("namespaces", &named("team")).await;
    world.settle().await;
    assert_eq!(world.names("serviceaccounts/team").await, ["default"]);
    world.create("deployments/team", &workload("web", 2, "i")).await;
    let mut kept = named("kept");
    kept["metadata"]["finalizers"] = json!(["example.com/wait"]);
    world.create("configmaps/team", &kept).await;
    world.settle().await;
    assert_eq!(world.list("pods/team").await.len(), 2);
    world.delete("namespaces/team").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (world.list("pods/team").await.len(), world.names("configmaps/team").await),
        (0, vec!["kept".to_owned()])
    );
    assert_eq!(name(&world.get("namespaces/team").await.unwrap()), "team");
    world.patch("configmaps/team/kept", &json!({"metadata": {"finalizers": null}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.get("namespaces/team").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_quota_says_what_is_used() {
    let world = World::new();
    let hard = json!({"pods": "10", "requests.cpu": "4", "count/configmaps": "5", "persistentvolumeclaims": "3"});
    world.create("resourcequotas/default", &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    world.create("configmaps/default", &named("c")).await;
    let mut sized = pod("p");
    sized["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m"}});
    world.create("pods/default", &sized).await;
    world.settle().await;
    let used = async || world.get("resourcequotas/default/q").await.unwrap()["status"]["used"].clone();
    let expected = json!({"pods": "1", "requests.cpu": "500m", "count/configmaps": "1", "persistentvolumeclaims": "0"});
    assert_eq!(used().await, expected);
    world.delete("pods/default/p").await;
    world.settle().await;
    assert_eq!((used().await["pods"].as_str(), used().await["requests.cpu"].as_str()), (Some("0"), Some("0")));
}

/// The same seed, clock and requests give the same objects, to the byte.
#[test]
fn the_same_world_comes_out_the_same() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            for n in 0..4 {
                world.node(&format!("n{n}"), &json!({})).await;
            }
            world.create("deployments/default", &workload("web", 5, "i")).await;
            world.create("statefulsets/default", &workload("db", 2, "i")).await;
            world.live("n1").await;
            world.delete("deployments/default/web").await;
            world.create("deployments/default", &workload("next", 5, "i")).await;
            world.live("n1").await;
            assert_eq!(world.pods().await.len(), 7);
            format!("{:?} {}", world.list("pods").await, world.server.resource_version())
        })
    };
    let first = run();
    for _ in 0..3 {
        assert!(run() == first, "another world");
    }
}
