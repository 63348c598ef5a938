//! Revisions, ReplicationControllers and adoption.

use serde_json::{Value, json};

use super::{make, node, pods, reap, run_all, server, settle, workload};
use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;

fn revisions(server: &ApiServer) -> Vec<(i64, Value)> {
    let mut all: Vec<(i64, Value)> = server
        .values("controllerrevisions.apps", "default")
        .into_iter()
        .map(|revision| (revision["revision"].as_i64().unwrap(), revision))
        .collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

fn numbers(server: &ApiServer) -> Vec<i64> {
    revisions(server).into_iter().map(|(number, _)| number).collect()
}

fn set_image(server: &ApiServer, storage: &str, image: &str) {
    server.change_object(storage, "default/db", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    });
    for _ in 0..10 {
        settle(server);
        reap(server);
        run_all(server, "n1");
    }
    settle(server);
}

fn images(server: &ApiServer) -> Vec<String> {
    pods(server).iter().map(|pod| text_at(&pod["spec"]["containers"][0], &["image"]).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn going_back_to_an_old_template_makes_its_revision_the_newest() {
    let server = server();
    node(&server, "n1", &json!({}));
    make(&server, "statefulsets.apps", workload("db", 2, "one"));
    set_image(&server, "statefulsets.apps", "one");
    set_image(&server, "statefulsets.apps", "two");
    assert_eq!(numbers(&server), [1, 2]);
    let first = meta::name(&revisions(&server)[0].1).to_owned();
    set_image(&server, "statefulsets.apps", "one");
    assert_eq!(numbers(&server), [2, 3]);
    assert_eq!(meta::name(&revisions(&server)[1].1), first);
    assert_eq!(images(&server), ["one", "one"]);
    let set = server.value("statefulsets.apps", "default/db").unwrap();
    assert_eq!(text_at(&set, &["status", "currentRevision"]), first);
    assert_eq!(text_at(&set, &["status", "updateRevision"]), first);
}

#[tokio::test(start_paused = true)]
async fn members_below_the_partition_are_made_again_as_they_were() {
    let server = server();
    node(&server, "n1", &json!({}));
    let mut set = workload("db", 3, "one");
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    make(&server, "statefulsets.apps", set);
    set_image(&server, "statefulsets.apps", "one");
    set_image(&server, "statefulsets.apps", "two");
    assert_eq!(images(&server), ["one", "one", "two"]);
    server.remove_object("pods", "default/db-0", Some(0));
    settle(&server);
    assert_eq!(images(&server), ["one", "one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn revisions_beyond_the_history_go() {
    let server = server();
    node(&server, "n1", &json!({}));
    let mut set = workload("db", 0, "0");
    set["spec"]["revisionHistoryLimit"] = 2.into();
    set["spec"].as_object_mut().unwrap().remove("replicas");
    make(&server, "daemonsets.apps", set);
    for image in ["1", "2", "3", "4"] {
        set_image(&server, "daemonsets.apps", image);
    }
    assert_eq!(numbers(&server), [2, 3, 4]);
    assert_eq!(images(&server), ["4"]);
    let (_, newest) = revisions(&server).pop().unwrap();
    assert_eq!(at(&newest, &["data", "spec", "template", "$patch"]), Some(&json!("replace")));
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_has_as_many_pods_as_it_wants() {
    let server = server();
    let template =
        json!({"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make(
        &server,
        "replicationcontrollers",
        json!({"metadata": {"name": "old"}, "spec": {"replicas": 2, "template": template}}),
    );
    settle(&server);
    assert_eq!(pods(&server).len(), 2);
    let controller = server.value("replicationcontrollers", "default/old").unwrap();
    assert_eq!(meta::int_at(&controller, &["status", "replicas"]), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_set_takes_what_it_selects_and_lets_go_what_it_no_longer_does() {
    let server = server();
    let lone = json!({"metadata": {"name": "lone", "labels": {"app": "web"}},
                      "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make(&server, "pods", lone);
    make(&server, "replicasets.apps", workload("web", 2, "i"));
    settle(&server);
    assert_eq!(pods(&server).len(), 2);
    let lone = || server.value("pods", "default/lone").unwrap();
    assert_eq!(text_at(&list_at(&lone(), &["metadata", "ownerReferences"])[0], &["kind"]), "ReplicaSet");
    server.change_object("pods", "default/lone", |pod| pod["metadata"]["labels"]["app"] = "other".into());
    settle(&server);
    assert!(meta::owners(&lone()).next().is_none());
    assert_eq!(pods(&server).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_sets_of_a_deployment_that_was_deleted_alone_belong_to_the_next_of_its_name() {
    let server = server();
    make(&server, "deployments.apps", workload("web", 2, "i"));
    settle(&server);
    let set = server.values("replicasets.apps", "default").remove(0);
    server
        .change_object("replicasets.apps", &super::super::world::key(&set), |set| meta::remove(set, "ownerReferences"));
    server.remove_object("deployments.apps", "default/web", None);
    settle(&server);
    make(&server, "deployments.apps", workload("web", 3, "i"));
    settle(&server);
    let sets = server.values("replicasets.apps", "default");
    assert_eq!(sets.len(), 1);
    assert_eq!(meta::text(&sets[0], "uid"), meta::text(&set, "uid"));
    assert_eq!(pods(&server).len(), 3);
}
