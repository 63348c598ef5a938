//! Workloads and what they own, in paused time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::collections::BTreeMap;

use common::{World, condition, images, is_live, is_ready, is_true, name, pod, workload};
use serde_json::{Value, json};

async fn set_image(world: &World, place: &str, image: &str) {
    let set = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    world.patch(place, &set).await;
    world.live("n1").await;
}

async fn revisions(world: &World) -> Vec<(i64, Value)> {
    let all = world.list("controllerrevisions/default").await;
    let mut all: Vec<(i64, Value)> = all.into_iter().map(|one| (one["revision"].as_i64().unwrap(), one)).collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

async fn numbers(world: &World) -> Vec<i64> {
    revisions(world).await.into_iter().map(|(number, _)| number).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_from_one_template_to_the_next_within_its_bounds() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("deployments/default", &workload("web", 4, "one")).await;
    world.live("n1").await;
    let web = world.get("deployments/default/web").await.unwrap();
    assert_eq!(web["status"]["availableReplicas"], 4);
    let two = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    world.patch("deployments/default/web", &two).await;
    for _ in 0..20 {
        world.settle().await;
        let live = world.pods().await.into_iter().filter(is_live);
        let (ready, waiting): (Vec<Value>, Vec<Value>) = live.partition(is_ready);
        // A quarter more, a quarter fewer.
        assert!(ready.len() >= 3 && ready.len() + waiting.len() <= 5, "{} ready, {} not", ready.len(), waiting.len());
        world.reap().await;
        world.run_all("n1").await;
    }
    world.settle().await;
    assert_eq!(images(&world.pods().await), ["two", "two", "two", "two"]);
    let web = world.get("deployments/default/web").await.unwrap();
    assert_eq!(web["status"]["updatedReplicas"], 4);
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert!(is_true(&web, "Available"));
    assert_eq!(condition(&web, "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
    assert_eq!(world.list("replicasets/default").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_keeps_what_it_scales_within_its_bounds() {
    let world = World::new();
    let web = "deployments/default/web";
    let replicas = async |world: &World| world.get(web).await.unwrap()["spec"]["replicas"].as_i64().unwrap();
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"minReplicas": 3, "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    // It may come before what it scales.
    world.create("horizontalpodautoscalers/default", &autoscaler).await;
    world.settle().await;
    world.create("deployments/default", &workload("web", 1, "one")).await;
    world.settle().await;
    assert_eq!(replicas(&world).await, 3);
    let status = world.get("horizontalpodautoscalers/default/web").await.unwrap()["status"].clone();
    assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(3), &json!(3)), "{status}");
    for (set, expected) in [(9, 5), (4, 4), (2, 3), (0, 0)] {
        world.patch(web, &json!({"spec": {"replicas": set}})).await;
        world.settle().await;
        assert_eq!(replicas(&world).await, expected, "{set} were asked for");
    }
    // Two would undo what the other does, for ever: neither does anything, until one is alone.
    let mut other = autoscaler.clone();
    other["metadata"]["name"] = json!("other");
    other["spec"]["minReplicas"] = json!(1);
    other["spec"]["maxReplicas"] = json!(2);
    world.create("horizontalpodautoscalers/default", &other).await;
    world.patch(web, &json!({"spec": {"replicas": 9}})).await;
    world.settle().await;
    assert_eq!(replicas(&world).await, 9);
    let status = world.get("horizontalpodautoscalers/default/other").await.unwrap()["status"].clone();
    assert_eq!(status["conditions"][1]["reason"], "AmbiguousSelector", "{status}");
    world.delete("horizontalpodautoscalers/default/other").await;
    world.settle().await;
    assert_eq!(replicas(&world).await, 5);
    let raise = json!({"spec": {"minReplicas": 4}});
    world.patch("horizontalpodautoscalers/default/web", &raise).await;
    world.patch(web, &json!({"spec": {"replicas": 1}})).await;
    world.settle().await;
    assert_eq!(replicas(&world).await, 4);
}

/// The regression: pods went in the order of their names, so that nodes emptied by themselves.
#[tokio::test(start_paused = true)]
async fn of_too_many_pods_those_go_that_share_a_node_with_most_others() {
    let world = World::new();
    let web = "deployments/default/web";
    world.create("deployments/default", &workload("web", 2, "one")).await;
    let mut before = 0;
    for (node, replicas) in [("a", 2), ("b", 5), ("c", 11)] {
        world.node(node, &json!({})).await;
        world.patch(web, &json!({"spec": {"replicas": replicas}})).await;
        world.live(node).await;
        assert_eq!(world.pods().await.len() - before, replicas - before);
        before = replicas;
    }
    world.patch(web, &json!({"spec": {"replicas": 5}})).await;
    world.settle().await;
    let mut on: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for pod in world.pods().await.iter().filter(|pod| is_live(pod)) {
        *on.entry(pod["spec"]["nodeName"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    // Ranks are those of before the first goes, as in the real one: all six of c, for they share it with most.
    assert_eq!(on, [("a".to_owned(), 2), ("b".to_owned(), 3)].into());
}

/// The regression: the revision was noted beside the status, and an annotation alone is another generation.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_nobody_changed_stays_of_its_first_generation() {
    let world = World::new();
    world.create("deployments/default", &workload("web", 1, "one")).await;
    world.settle().await;
    let web = world.get("deployments/default/web").await.unwrap();
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!((&web["metadata"]["generation"], &web["status"]["observedGeneration"]), (&json!(1), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_does_not_progress_says_so_after_its_deadline() {
    let world = World::new();
    let mut web = workload("web", 1, "one");
    web["spec"]["progressDeadlineSeconds"] = 60.into();
    world.create("deployments/default", &web).await;
    world.settle().await;
    let progressing = async || {
        let web = world.get("deployments/default/web").await.unwrap();
        condition(&web, "Progressing").unwrap().clone()
    };
    tokio::time::sleep(std::time::Duration::from_secs(50)).await;
    assert_eq!(progressing().await["status"], "True");
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    assert_eq!(progressing().await["reason"], "ProgressDeadlineExceeded");
}

/// A Deployment of two that recreates, whose pods run on `n1`.
async fn with_recreating() -> World {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut web = workload("web", 2, "one");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create("deployments/default", &web).await;
    world.live("n1").await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_recreates_waits_for_the_end_of_its_old_pods() {
    let world = with_recreating().await;
    let two = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    world.patch("deployments/default/web", &two).await;
    world.settle().await;
    let pods = world.pods().await;
    assert_eq!((images(&pods), pods.iter().filter(|pod| is_live(pod)).count()), (vec!["one".into(), "one".into()], 0));
    world.live("n1").await;
    assert_eq!(images(&world.pods().await), ["two", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_goes_in_order_and_keeps_its_claims() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 3, "one");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    world.create("statefulsets/default", &set).await;
    for n in 1..=3 {
        world.settle().await;
        assert_eq!(world.pods().await.len(), n);
        world.run_all("n1").await;
    }
    world.settle().await;
    assert_eq!(world.names("pods/default").await, ["db-0", "db-1", "db-2"]);
    assert_eq!(world.list("persistentvolumeclaims/default").await.len(), 3);
    world.patch("statefulsets/default/db", &json!({"spec": {"replicas": 1}})).await;
    world.settle().await;
    let pods = world.pods().await;
    let going: Vec<&str> = pods.iter().filter(|pod| !is_live(pod)).map(name).collect();
    assert_eq!(going, ["db-2"]);
    world.live("n1").await;
    assert_eq!(world.names("pods/default").await, ["db-0"]);
    assert_eq!(world.list("persistentvolumeclaims/default").await.len(), 3);
}

/// A set `db` of two that run, with a claim each.
async fn with_claims(policy: &Value) -> World {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 2, "one");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] = policy.clone();
    world.create("statefulsets/default", &set).await;
    world.live("n1").await;
    assert_eq!(world.names("persistentvolumeclaims/default").await, ["data-db-0", "data-db-1"]);
    world
}

/// The regression: the pod was made anew while its claim was on its way out, and waited for it for good.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_deleted_is_made_again_for_its_member() {
    let world = with_claims(&Value::Null).await;
    let uid = async || {
        world.get("persistentvolumeclaims/default/data-db-1").await.map(|claim| claim["metadata"]["uid"].clone())
    };
    let before = uid().await;
    let claim = "persistentvolumeclaims/default/data-db-1";
    world.patch(claim, &json!({"metadata": {"finalizers": ["example.com/stays"]}})).await;
    world.delete_with(claim, &json!({})).await;
    world.delete_with("pods/default/db-1", &json!({"gracePeriodSeconds": 0})).await;
    world.settle().await;
    assert_eq!(world.names("pods/default").await, ["db-0"], "the claim of old is there yet");
    world.patch(claim, &json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert_eq!(world.names("pods/default").await, ["db-0", "db-1"]);
    assert!(uid().await.is_some_and(|uid| Some(&uid) != before.as_ref()));
    // So is one that goes while its pod waits.
    let before = uid().await;
    world.delete_with(claim, &json!({})).await;
    world.settle().await;
    assert!(uid().await.is_some_and(|uid| Some(&uid) != before.as_ref()));
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_what_the_retention_policy_says() {
    let claims = async |world: &World| world.names("persistentvolumeclaims/default").await;
    for (scaled, deleted) in [("Retain", "Retain"), ("Delete", "Retain"), ("Retain", "Delete"), ("Delete", "Delete")] {
        let world = with_claims(&json!({"whenScaled": scaled, "whenDeleted": deleted})).await;
        world.patch("statefulsets/default/db", &json!({"spec": {"replicas": 1}})).await;
        world.live("n1").await;
        assert_eq!(world.names("pods/default").await, ["db-0"]);
        let left = if scaled == "Delete" { vec!["data-db-0"] } else { vec!["data-db-0", "data-db-1"] };
        assert_eq!(claims(&world).await, left, "{scaled} {deleted}");
        world.delete_with("statefulsets/default/db", &json!({})).await;
        world.live("n1").await;
        let left = if deleted == "Delete" { Vec::new() } else { left };
        assert_eq!(claims(&world).await, left, "{scaled} {deleted}");
    }
}

#[tokio::test(start_paused = true)]
async fn going_back_to_an_old_template_makes_its_revision_the_newest() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("statefulsets/default", &workload("db", 2, "one")).await;
    world.live("n1").await;
    set_image(&world, "statefulsets/default/db", "two").await;
    assert_eq!(numbers(&world).await, [1, 2]);
    let first = name(&revisions(&world).await[0].1).to_owned();
    set_image(&world, "statefulsets/default/db", "one").await;
    assert_eq!(numbers(&world).await, [2, 3]);
    assert_eq!(name(&revisions(&world).await[1].1), first);
    assert_eq!(images(&world.pods().await), ["one", "one"]);
    let set = world.get("statefulsets/default/db").await.unwrap();
    assert_eq!([&set["status"]["currentRevision"], &set["status"]["updateRevision"]], [&first, &first]);
}

#[tokio::test(start_paused = true)]
async fn members_below_the_partition_are_made_again_as_they_were() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 3, "one");
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    world.create("statefulsets/default", &set).await;
    world.live("n1").await;
    set_image(&world, "statefulsets/default/db", "two").await;
    assert_eq!(images(&world.pods().await), ["one", "one", "two"]);
    world.delete_with("pods/default/db-0", &json!({"gracePeriodSeconds": 0})).await;
    world.settle().await;
    assert_eq!(images(&world.pods().await), ["one", "one", "two"]);
}

/// How many members of a set that run are going away once its template is another, and nothing more is ready.
async fn n_going(policy: &str, more: &Value) -> usize {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 6, "one");
    set["spec"]["podManagementPolicy"] = policy.into();
    for (key, value) in more.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    world.create("statefulsets/default", &set).await;
    world.live("n1").await;
    assert_eq!(world.pods().await.iter().filter(|pod| is_ready(pod)).count(), 6);
    world
        .patch(
            "statefulsets/default/db",
            &json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}),
        )
        .await;
    for _ in 0..4 {
        world.settle().await;
        world.reap().await;
    }
    world.settle().await;
    6 - images(&world.pods().await).iter().filter(|image| *image == "one").count()
}

/// The regression: of a Parallel set two members were down at once, and `maxUnavailable` changed nothing.
#[tokio::test(start_paused = true)]
async fn as_many_members_are_down_at_once_as_may_be() {
    for policy in ["OrderedReady", "Parallel"] {
        assert_eq!(n_going(policy, &json!({})).await, 1, "{policy}");
        let three = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}});
        assert_eq!(n_going(policy, &three).await, 3, "{policy}");
    }
}

/// The regression: the next member came as soon as the one before was ready.
#[tokio::test(start_paused = true)]
async fn a_stateful_set_waits_until_a_member_has_been_ready_for_long_enough() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 2, "one");
    set["spec"]["minReadySeconds"] = 60.into();
    world.create("statefulsets/default", &set).await;
    world.settle().await;
    world.run_all("n1").await;
    world.settle().await;
    assert_eq!(world.names("pods/default").await, ["db-0"]);
    tokio::time::sleep(std::time::Duration::from_secs(62)).await;
    assert_eq!(world.names("pods/default").await, ["db-0", "db-1"]);
}

#[tokio::test(start_paused = true)]
async fn revisions_beyond_the_history_go() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 0, "0");
    set["spec"]["revisionHistoryLimit"] = 2.into();
    set["spec"].as_object_mut().unwrap().remove("replicas");
    world.create("daemonsets/default", &set).await;
    world.live("n1").await;
    for image in ["1", "2", "3"] {
        set_image(&world, "daemonsets/default/db", image).await;
    }
    assert_eq!(numbers(&world).await, [2, 3, 4]);
    assert_eq!(images(&world.pods().await), ["3"]);
    let (_, newest) = revisions(&world).await.pop().unwrap();
    assert_eq!(newest["data"]["spec"]["template"]["$patch"], "replace");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_on_every_node_that_it_selects() {
    let world = World::new();
    world.node("a", &json!({"disk": "ssd"})).await;
    world.node("b", &json!({})).await;
    let mut set = workload("log", 0, "one");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    set["spec"].as_object_mut().unwrap().remove("replicas");
    world.create("daemonsets/default", &set).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 1);
    world.node("c", &json!({"disk": "ssd"})).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 2);
    let status = async || world.get("daemonsets/default/log").await.unwrap()["status"].clone();
    assert_eq!(status().await["desiredNumberScheduled"], 2);
    world.patch("nodes/b", &json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.settle().await;
    assert_eq!((world.pods().await.len(), status().await["currentNumberScheduled"].as_i64()), (3, Some(3)));
    world.delete("nodes/a").await;
    world.settle().await;
    assert_eq!(status().await["desiredNumberScheduled"], 2);
}

/// The regression: it waited for ever.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_waits_for_a_node_which_is_gone_goes_too() {
    let world = World::new();
    world.node("a", &json!({})).await;
    world.node("b", &json!({})).await;
    let mut set = workload("log", 0, "one");
    set["spec"].as_object_mut().unwrap().remove("replicas");
    world.create("daemonsets/default", &set).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 2);
    world.delete("nodes/a").await;
    world.settle().await;
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let left: Vec<Value> = world.pods().await.iter().filter_map(|pod| pod.pointer(affinity).cloned()).collect();
    assert_eq!(left, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_replaced_as_far_as_max_unavailable_lets_it() {
    let world = World::new();
    for node in ["a", "b", "c", "d"] {
        world.node(node, &json!({})).await;
    }
    let mut set = workload("log", 0, "one");
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
    set["spec"].as_object_mut().unwrap().remove("replicas");
    world.create("daemonsets/default", &set).await;
    world.live("a").await;
    let two = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    world.patch("daemonsets/default/log", &two).await;
    for _ in 0..8 {
        world.settle().await;
        let pods = world.pods().await;
        let ready = pods.iter().filter(|pod| is_live(pod) && is_ready(pod)).count();
        assert!(ready >= 2, "{ready} of 4 are left");
        world.reap().await;
        world.run_all("a").await;
    }
    assert_eq!(images(&world.pods().await), ["two"; 4]);
    let set = world.get("daemonsets/default/log").await.unwrap();
    assert_eq!(
        (set["status"]["updatedNumberScheduled"].as_i64(), set["status"]["numberReady"].as_i64()),
        (Some(4), Some(4))
    );
}

/// Nodes with pods of a DaemonSet: how many old and new ones live there, and how many are ready.
async fn by_node(world: &World) -> BTreeMap<String, [usize; 3]> {
    let mut nodes: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for pod in world.pods().await.iter().filter(|pod| is_live(pod)) {
        let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
        let node = pod.pointer(affinity).and_then(Value::as_str).unwrap().to_owned();
        let [old, new, ready] = nodes.entry(node).or_default();
        let of_template = if pod["spec"]["containers"][0]["image"] == "one" { old } else { new };
        *of_template += 1;
        *ready += usize::from(is_ready(pod));
    }
    nodes
}

fn of_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn surging(most: &Value) -> Value {
    let mut set = workload("log", 0, "one");
    set["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": most, "maxUnavailable": 0}});
    set["spec"].as_object_mut().unwrap().remove("replicas");
    set
}

/// The regression: old pods were deleted first, one at a time.
#[tokio::test(start_paused = true)]
async fn a_daemon_set_with_a_surge_is_replaced_by_pods_that_come_up_beside_the_old_ones() {
    for most in [json!(2), json!("30%")] {
        let world = World::new();
        for node in ["a", "b", "c", "d"] {
            world.node(node, &json!({})).await;
        }
        world.create("daemonsets/default", &surging(&most)).await;
        world.live("a").await;
        world.patch("daemonsets/default/log", &of_image("two")).await;
        let mut most_at_once = 0;
        for _ in 0..12 {
            world.settle().await;
            let nodes = by_node(&world).await;
            assert!(
                nodes.len() == 4 && nodes.values().all(|[.., ready]| *ready >= 1),
                "one is ready on each: {nodes:?}"
            );
            assert!(nodes.values().all(|[old, new, _]| *old <= 1 && *new <= 1), "{nodes:?}");
            most_at_once = most_at_once.max(nodes.values().filter(|[old, new, _]| old + new == 2).count());
            world.reap().await;
            world.run_all("a").await;
        }
        assert_eq!(most_at_once, 2, "as many as the surge of {most} lets");
        assert_eq!(images(&world.pods().await), ["two"; 4]);
        let status = world.get("daemonsets/default/log").await.unwrap()["status"].clone();
        assert_eq!((&status["updatedNumberScheduled"], &status["numberAvailable"]), (&json!(4), &json!(4)));
    }
}

/// As upstream: of two that are not ready the new one stays, and it uses none of the surge.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_not_ready_makes_way_for_the_new_one_at_once_whatever_the_surge() {
    let world = World::new();
    for node in ["a", "b", "c"] {
        world.node(node, &json!({})).await;
    }
    world.create("daemonsets/default", &surging(&json!(1))).await;
    // Nobody runs its pods.
    world.settle().await;
    world.patch("daemonsets/default/log", &of_image("two")).await;
    for _ in 0..3 {
        world.settle().await;
        world.reap().await;
    }
    assert_eq!(images(&world.pods().await), ["two"; 3]);
}

fn rolling() -> Value {
    let mut set = surging(&json!(0));
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    set
}

/// A DaemonSet that runs on three nodes, one of which it does not tolerate any more.
async fn with_a_tainted_node(set: &Value) -> World {
    let world = World::new();
    for node in ["a", "b", "c"] {
        world.node(node, &json!({})).await;
    }
    world.create("daemonsets/default", set).await;
    world.live("a").await;
    world.patch("nodes/a", &json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})).await;
    world.settle().await;
    world
}

/// Of a DaemonSet: how many nodes want it, have it, have it of the present template, and have it in vain.
async fn scheduled(world: &World) -> [i64; 4] {
    let status = world.get("daemonsets/default/log").await.unwrap()["status"].clone();
    ["desired", "current", "updated"]
        .map(|what| format!("{what}NumberScheduled"))
        .into_iter()
        .chain(["numberMisscheduled".to_owned()])
        .map(|field| status[field].as_i64().unwrap_or(0))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

/// The regression: more were up to date than were wanted, and those of nodes that are gone were misscheduled.
#[tokio::test(start_paused = true)]
async fn a_daemon_set_counts_as_updated_only_what_is_wanted() {
    let world = with_a_tainted_node(&rolling()).await;
    assert_eq!(scheduled(&world).await, [2, 2, 2, 1]);
    world.delete("nodes/a").await;
    world.settle().await;
    assert_eq!(scheduled(&world).await, [2, 2, 2, 0]);
}

/// As upstream, whose rolling update looks at all nodes that have pods. The regression: the old pod ran on.
#[tokio::test(start_paused = true)]
async fn an_old_daemon_goes_where_none_should_run_any_more() {
    for set in [rolling(), surging(&json!(1))] {
        let world = with_a_tainted_node(&set).await;
        assert_eq!(by_node(&world).await.len(), 3, "it tolerates that it is there");
        world.patch("daemonsets/default/log", &of_image("two")).await;
        world.live("a").await;
        let nodes = by_node(&world).await;
        assert_eq!(nodes, [("b".to_owned(), [0, 1, 1]), ("c".to_owned(), [0, 1, 1])].into(), "{set}");
        assert_eq!(scheduled(&world).await, [2, 2, 2, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_complete_when_enough_of_its_pods_succeeded() {
    let world = World::new();
    let job = json!({"metadata": {"name": "j"}, "spec": {"parallelism": 2, "completions": 3, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    world.create("jobs/default", &job).await;
    end_pods(&world, "Succeeded").await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert!(is_true(&job, "Complete"), "{job}");
    assert_eq!((world.pods().await.len(), job["status"]["succeeded"].as_i64()), (3, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_after_its_backoff_limit() {
    let world = World::new();
    let job = json!({"metadata": {"name": "j"}, "spec": {"backoffLimit": 1, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    world.create("jobs/default", &job).await;
    end_pods(&world, "Failed").await;
    assert!(is_true(&world.get("jobs/default/j").await.unwrap(), "Failed"));
    assert_eq!(world.pods().await.len(), 2);
}

async fn end_pods(world: &World, phase: &str) {
    for _ in 0..4 {
        // After a failure the next pod waits.
        tokio::time::sleep(std::time::Duration::from_secs(11)).await;
        world.settle().await;
        for pod in world.pods().await {
            let place = format!("pods/default/{}", name(&pod));
            world.patch_status(&place, &json!({"status": {"phase": phase}})).await;
        }
    }
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_has_one_pod_of_each_index() {
    let world = World::new();
    let job = json!({"metadata": {"name": "j"}, "spec": {"parallelism": 3, "completions": 3, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    world.create("jobs/default", &job).await;
    world.settle().await;
    let index = "batch.kubernetes.io/job-completion-index";
    let pods = world.pods().await;
    let mut indexes: Vec<&str> = pods.iter().map(|pod| pod["metadata"]["labels"][index].as_str().unwrap()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["0", "1", "2"]);
    end_pods(&world, "Succeeded").await;
    assert_eq!(world.get("jobs/default/j").await.unwrap()["status"]["completedIndexes"], "0-2");
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_indexed_job_know_their_index() {
    let world = World::new();
    let own = json!({"name": "JOB_COMPLETION_INDEX", "value": "own"});
    let template = json!({"spec": {"restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]},
                       {"name": "own", "image": "i", "env": [own]}]}});
    let long = "a".repeat(60);
    for name in ["j", &long] {
        let job = json!({"metadata": {"name": name},
            "spec": {"completions": 1, "completionMode": "Indexed", "template": template}});
        world.create("jobs/default", &job).await;
    }
    world.settle().await;
    let pods = world.pods().await;
    let pod = pods.iter().find(|pod| name(pod).starts_with("j-0-")).unwrap();
    assert_eq!((name(pod).len(), &pod["spec"]["hostname"]), ("j-0-12345".len(), &json!("j-0")));
    let index = "batch.kubernetes.io/job-completion-index";
    assert_eq!((&pod["metadata"]["labels"][index], &pod["metadata"]["annotations"][index]), (&json!("0"), &json!("0")));
    let field = json!({"apiVersion": "v1", "fieldPath": format!("metadata.labels['{index}']")});
    let told = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}});
    assert_eq!(pod["spec"]["initContainers"][0]["env"], json!([told]));
    assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "b"}, told]));
    assert_eq!(pod["spec"]["containers"][1]["env"], json!([own]));
    // A long name is cut before the index.
    let start = format!("{}-0-", "a".repeat(55));
    assert!(pods.iter().any(|pod| name(pod).starts_with(&start) && name(pod).len() == 63), "{pods:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_has_as_many_pods_as_it_wants() {
    let world = World::new();
    let template =
        json!({"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let controller = json!({"metadata": {"name": "old"}, "spec": {"replicas": 2, "template": template}});
    world.create("replicationcontrollers/default", &controller).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 2);
    let controller = world.get("replicationcontrollers/default/old").await.unwrap();
    assert_eq!(controller["status"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_set_takes_what_it_selects_and_lets_go_what_it_no_longer_does() {
    let world = World::new();
    let mut lone = pod("lone");
    lone["metadata"]["labels"]["app"] = "web".into();
    world.create("pods/default", &lone).await;
    world.create("replicasets/default", &workload("web", 2, "i")).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 2);
    let lone = async || world.get("pods/default/lone").await.unwrap();
    assert_eq!(lone().await["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    // Another that selects the same finds nobody left to take.
    let mut second = workload("second", 1, "i");
    second["spec"]["selector"]["matchLabels"]["app"] = "web".into();
    second["spec"]["template"]["metadata"]["labels"]["app"] = "web".into();
    world.create("replicasets/default", &second).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 3);
    assert_eq!(lone().await["metadata"]["ownerReferences"][0]["name"], "web");
    world.delete("replicasets/default/second").await;
    world.settle().await;
    world.patch("pods/default/lone", &json!({"metadata": {"labels": {"app": "other"}}})).await;
    world.settle().await;
    assert!(lone().await["metadata"]["ownerReferences"].is_null());
    assert_eq!(world.pods().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_sets_of_a_deployment_that_was_orphaned_belong_to_the_next_of_its_name() {
    let world = World::new();
    world.create("deployments/default", &workload("web", 2, "i")).await;
    world.settle().await;
    let set = world.list("replicasets/default").await.remove(0);
    world.delete_with("deployments/default/web", &json!({"propagationPolicy": "Orphan"})).await;
    world.settle().await;
    assert!(world.get("deployments/default/web").await.is_none());
    let left = world.list("replicasets/default").await;
    assert!(left[0]["metadata"]["ownerReferences"].is_null());
    world.create("deployments/default", &workload("web", 3, "i")).await;
    world.settle().await;
    let sets = world.list("replicasets/default").await;
    assert_eq!((sets.len(), &sets[0]["metadata"]["uid"]), (1, &set["metadata"]["uid"]));
    assert_eq!(world.pods().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_what_its_deployment_wants() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("deployments/default", &workload("web", 4, "one")).await;
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}});
    world.create("poddisruptionbudgets/default", &budget).await;
    world.settle().await;
    let allowed = async || {
        let status = world.get("poddisruptionbudgets/default/b").await.unwrap()["status"].clone();
        (status["expectedPods"].as_i64(), status["disruptionsAllowed"].as_i64())
    };
    assert_eq!(allowed().await, (Some(4), Some(0)));
    world.live("n1").await;
    assert_eq!(allowed().await, (Some(4), Some(1)));
}

/// The regression: each of them was expected, so that a budget let pods go that a real one holds.
#[tokio::test(start_paused = true)]
async fn a_budget_expects_pods_without_a_controller_only_by_a_whole_minimum() {
    for (bound, expected, allowed) in [
        (json!({"maxUnavailable": 1}), 0, 0),
        (json!({"maxUnavailable": "50%"}), 0, 0),
        (json!({"minAvailable": "50%"}), 0, 0),
        (json!({"minAvailable": 1}), 2, 1),
    ] {
        let world = World::new();
        world.node("n1", &json!({})).await;
        for pod in ["a", "b"] {
            let pod = json!({"metadata": {"name": pod, "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            world.create("pods/default", &pod).await;
        }
        world.live("n1").await;
        let mut spec = bound.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        world.create("poddisruptionbudgets/default", &json!({"metadata": {"name": "b"}, "spec": spec})).await;
        world.settle().await;
        let status = world.get("poddisruptionbudgets/default/b").await.unwrap()["status"].clone();
        let seen = (&status["expectedPods"], &status["currentHealthy"], &status["disruptionsAllowed"]);
        assert_eq!(seen, (&json!(expected), &json!(2), &json!(allowed)), "{bound}");
        let warns = told(&world, "b").await.iter().any(|(reason, ..)| reason == "UnmanagedPods");
        assert_eq!(warns, expected == 0, "{bound}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_pods_whose_controller_has_no_scale_lets_none_go() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("daemonsets/default", &workload("log", 1, "one")).await;
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "log"}}}});
    world.create("poddisruptionbudgets/default", &budget).await;
    world.live("n1").await;
    let budget = world.get("poddisruptionbudgets/default/b").await.unwrap();
    let condition = common::condition(&budget, "DisruptionAllowed").unwrap();
    assert_eq!(condition["reason"], "SyncFailed");
    assert_eq!(condition["message"], "daemonsets.apps does not implement the scale subresource");
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_pods_are_refused_says_why() {
    let world = World::new();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    world.create("resourcequotas/default", &quota).await;
    world.create("deployments/default", &workload("web", 3, "one")).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let web = world.get("deployments/default/web").await.unwrap();
    let failure = condition(&web, "ReplicaFailure").unwrap_or_else(|| panic!("no condition: {web}"));
    assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
    assert!(failure["message"].as_str().unwrap().contains("exceeded quota: q"), "{failure}");
    world.patch("resourcequotas/default/q", &json!({"spec": {"hard": {"pods": "9"}}})).await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 3);
    let web = world.get("deployments/default/web").await.unwrap();
    assert!(condition(&web, "ReplicaFailure").is_none(), "{web}");
    assert!(condition(&world.list("replicasets/default").await[0], "ReplicaFailure").is_none());
}

#[tokio::test(start_paused = true)]
async fn why_a_deployment_was_changed_is_told_after_the_change_too() {
    let world = World::new();
    world.create("deployments/default", &workload("web", 1, "one")).await;
    world.live("n1").await;
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "first"}}});
    world.patch("deployments/default/web", &cause).await;
    world.settle().await;
    let set = &world.list("replicasets/default").await[0];
    assert_eq!(set["metadata"]["annotations"]["kubernetes.io/change-cause"], "first", "{set}");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_comes_back_remembers_which_revisions_it_was() {
    let world = World::new();
    world.create("deployments/default", &workload("web", 1, "one")).await;
    for image in ["two", "one"] {
        world.live("n1").await;
        set_image(&world, "deployments/default/web", image).await;
    }
    world.live("n1").await;
    let sets = world.list("replicasets/default").await;
    let history = "deployment.kubernetes.io/revision-history";
    let told: Vec<&Value> = sets.iter().map(|set| &set["metadata"]["annotations"][history]).collect();
    assert!(told.contains(&&json!("1")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_revision_tells_why_its_workload_was_changed() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let mut set = workload("db", 1, "one");
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    world.create("statefulsets/default", &set).await;
    world.create("daemonsets/default", &set).await;
    world.live("n1").await;
    let all = revisions(&world).await;
    assert_eq!(all.len(), 2);
    for (_, revision) in all {
        assert_eq!(revision["metadata"]["annotations"]["kubernetes.io/change-cause"], "first", "{revision}");
    }
}

/// Reasons and messages of what is told about an object, with how often.
async fn told(world: &World, about: &str) -> Vec<(String, String, i64)> {
    let events =
        world.list("events/default").await.into_iter().filter(|event| event["involvedObject"]["name"] == about);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    let mut told: Vec<_> = events
        .map(|event| (text(&event, "reason"), text(&event, "message"), event["count"].as_i64().unwrap()))
        .collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_pods_says_so() {
    let world = World::new();
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create("poddisruptionbudgets/default", &budget).await;
    world.settle().await;
    assert_eq!(told(&world, "b").await, [("NoPods".to_owned(), "No matching pods found".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_controllers_do_is_told_as_events() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("deployments/default", &workload("web", 2, "one")).await;
    world.live("n1").await;
    world.patch("deployments/default/web", &json!({"spec": {"replicas": 1}})).await;
    world.live("n1").await;
    let sets = world.list("replicasets/default").await;
    let set = name(&sets[0]);
    let web = told(&world, "web").await;
    let scaled = |way: &str, from: u32, to: u32| {
        ("ScalingReplicaSet".to_owned(), format!("Scaled {way} replica set {set} from {from} to {to}"), 1)
    };
    assert_eq!(web, [scaled("down", 2, 1), scaled("up", 0, 2)]);
    let reasons: Vec<String> = told(&world, set).await.into_iter().map(|(reason, ..)| reason).collect();
    assert_eq!(reasons, ["SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete"]);
    let left = name(&world.pods().await[0]).to_owned();
    assert!(told(&world, set).await.iter().any(|(_, message, _)| *message == format!("Created pod: {left}")));
}

/// The regression: one of its pods might be missing, and it was called available.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_recreates_is_available_with_all_of_its_pods() {
    let world = with_recreating().await;
    let is_available = async || common::is_true(&world.get("deployments/default/web").await.unwrap(), "Available");
    assert!(is_available().await);
    world
        .delete_with(&format!("pods/default/{}", name(&world.pods().await[0])), &json!({"gracePeriodSeconds": 0}))
        .await;
    world.settle().await;
    assert!(!is_available().await);
    world.live("n1").await;
    assert!(is_available().await);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_tells_that_its_replica_set_is_refused() {
    let world = World::new();
    // With a hash behind it the name is too long for a ReplicaSet.
    let name = "w".repeat(250);
    let mut deployment = workload("web", 1, "one");
    deployment["metadata"]["name"] = json!(name);
    world.create("deployments/default", &deployment).await;
    world.settle().await;
    let said = told(&world, &name).await;
    assert!(world.pods().await.is_empty());
    let is_refusal = |(reason, message, _): &(String, String, i64)| {
        reason == "ReplicaSetCreateError" && message.starts_with("Failed to create new replica set \"www")
    };
    assert!(!said.is_empty() && said.iter().all(is_refusal), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_refused_again_and_again_are_told_as_one() {
    let world = World::with_admission();
    world
        .create("resourcequotas/default", &json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}))
        .await;
    world.settle().await;
    world.create("replicasets/default", &workload("web", 1, "one")).await;
    world.settle().await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    world.settle().await;
    let web = told(&world, "web").await;
    assert!(web.iter().all(|(reason, ..)| reason == "FailedCreate"), "{web:?}");
    assert!(web.iter().all(|(_, message, _)| message.contains("exceeded quota: none")), "{web:?}");
    // Each try is of a pod of another name: after ten they are combined.
    let (first, combined): (Vec<_>, Vec<_>) = web.iter().partition(|(.., count)| *count == 1);
    assert_eq!(first.len(), 10, "{web:?}");
    let [(_, message, count)] = combined.as_slice() else { panic!("{web:?}") };
    assert!(message.starts_with("(combined from similar events): Error creating: pods \"web-"), "{message}");
    assert!(*count > 1, "{count}");
}

/// Nothing between the end of a pod and the creation of its successor waits for a timer: while this task runs, time stands.
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_replaced_at_once() {
    let world = World::new();
    world.node("n", &json!({})).await;
    world.create("deployments/default", &workload("web", 3, "i:1")).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    world.create("services/default", &service).await;
    world.live("n").await;
    for _ in 0..3 {
        let pods = world.names("pods/default").await;
        world.delete_with(&format!("pods/default/{}", pods[0]), &json!({"gracePeriodSeconds": 0})).await;
        let mut turns = 0;
        while world.names("pods/default").await.len() < 3 {
            turns += 1;
            assert!(turns < 1_000, "{} is not replaced", pods[0]);
            tokio::task::yield_now().await;
        }
        world.live("n").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_tells_of_its_pods_and_claims() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let mut set = workload("db", 1, "one");
    set["spec"]["volumeClaimTemplates"] = json!([claim]);
    world.create("statefulsets/default", &set).await;
    world.live("n1").await;
    world.patch("statefulsets/default/db", &json!({"spec": {"replicas": 0}})).await;
    world.live("n1").await;
    let expected = [
        ("SuccessfulCreate", "Create Claim data-db-0 Pod db-0 in StatefulSet db success"),
        ("SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
        ("SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful"),
    ];
    assert_eq!(told(&world, "db").await, expected.map(|(reason, message)| (reason.to_owned(), message.to_owned(), 1)));
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}});
    world.create("resourcequotas/default", &quota).await;
    world.settle().await;
    world.patch("statefulsets/default/db", &json!({"spec": {"replicas": 1}})).await;
    world.settle().await;
    let refused = told(&world, "db").await;
    let refused = refused.iter().find(|(reason, ..)| reason == "FailedCreate").unwrap();
    let start = "Create Pod db-0 in StatefulSet db failed error: pods \"db-0\" is forbidden: exceeded quota: q";
    assert!(refused.1.starts_with(start), "{refused:?}");
}
