use std::time::Duration;

use berth_apiserver::{ApiServer, Config};
use serde_json::json;

use super::*;
use crate::kind::{Kind, NamedObject};

fn writer(fence: Fence) -> (Writer, ApiServer) {
    let server = ApiServer::new(Config::default());
    (Writer::new(Client::new(server.clone(), "default"), fence), server)
}

fn write(key: NamedObject, uid: &str, op: Op) -> Write {
    Write { key, uid: uid.to_owned(), op }
}

fn uid(outcome: &Outcome) -> String {
    let Outcome::Done(Some(object)) = outcome else { panic!("{outcome:?}") };
    object.version().uid.unwrap()
}

fn pod(name: &str) -> (NamedObject, Value) {
    let spec = json!({"containers": [{"name": "c", "image": "registry.example/app:1"}]});
    let key = NamedObject::namespaced(Kind::Pod, "default", name);
    (key, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_with_annotations_and_evicted_once() {
    let (writer, _) = writer(Fence::open());
    let (key, object) = pod("web");
    let uid = uid(&writer.send(&write(key.clone(), "", Op::Create(object))).await);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    writer.send(&write(NamedObject::cluster(Kind::Node, "n1"), "", Op::Create(node))).await;
    let binding = json!({"metadata": {"annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n1"}});
    let other = writer.send(&write(key.clone(), "another", Op::Bind(binding.clone()))).await;
    assert!(matches!(other, Outcome::Conflict(_)), "{other:?}");
    assert_eq!(writer.send(&write(key.clone(), &uid, Op::Bind(binding))).await, Outcome::Done(None));
    let Outcome::Done(Some(bound)) = writer.send(&write(key.clone(), &uid, Op::Read)).await else { panic!("bound") };
    let bound: Value = serde_json::from_str(&bound.0).unwrap();
    assert_eq!((&bound["spec"]["nodeName"], &bound["metadata"]["annotations"]["a"]), (&json!("n1"), &json!("b")));
    let other = writer.send(&write(key.clone(), "another", Op::Evict)).await;
    assert!(matches!(other, Outcome::Conflict(_)), "{other:?}");
    assert_eq!(writer.send(&write(key.clone(), &uid, Op::Evict)).await, Outcome::Done(None));
}

#[tokio::test(start_paused = true)]
async fn a_write_never_reaches_another_object_of_the_same_name() {
    let (writer, _) = writer(Fence::open());
    let (key, object) = pod("web");
    writer.send(&write(key.clone(), "", Op::Create(object))).await;
    for op in [Op::Delete { grace: Some(0) }, Op::Merge(json!({"metadata": {"labels": {"a": "b"}}}))] {
        let outcome = writer.send(&write(key.clone(), "another", op)).await;
        assert!(matches!(outcome, Outcome::Conflict(_) | Outcome::Refused(_)), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_the_fence_is_closed() {
    let fence = Fence::closed();
    let (writer, server) = writer(fence.clone());
    let (key, object) = pod("web");
    let before = server.resource_version();
    assert_eq!(writer.send(&write(key.clone(), "", Op::Create(object.clone()))).await, Outcome::Fenced);
    assert_eq!(server.resource_version(), before);
    fence.extend(Instant::now() + Duration::from_secs(15));
    assert!(matches!(writer.send(&write(key, "", Op::Create(object))).await, Outcome::Done(Some(_))));
}

/// A call that was never made would keep its lane, and what waits for its answer, for as long as the process leads.
#[tokio::test(start_paused = true)]
async fn a_call_of_the_cloud_that_found_the_fence_closed_is_made_once_it_opens() {
    let fence = Fence::closed();
    let (writer, _) = writer(fence.clone());
    let call = tokio::spawn(async move { writer.fenced(async { 7 }).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!call.is_finished());
    fence.extend(Instant::now() + Duration::from_secs(15));
    assert_eq!(tokio::time::timeout(Duration::from_secs(2), call).await.unwrap().unwrap(), 7);
}
