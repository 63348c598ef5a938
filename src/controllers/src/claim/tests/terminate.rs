//! How a NodeClaim ends: taint, drain, volumes, instance, finalizers.

use super::*;

#[test]
fn a_claim_that_was_never_launched_ends_at_once() {
    let scene = Scene::new().deleted(1);
    assert_eq!(scene.write().2["metadata"]["finalizers"], json!([]));
}

#[test]
fn a_claim_whose_launch_nobody_remembers_ends_once_nothing_can_show_any_more() {
    let mut scene = Scene::new().with_token(1).deleted(1);
    assert_eq!(scene.question(), Question::Find { uid: "uid-c".to_owned() });
    scene.memory.found(Ok(Vec::new()), at(1));
    assert_eq!(scene.next(), Next::Wait(at(6)));
    scene.now = 6;
    scene.memory.found(Ok(Vec::new()), at(6));
    assert_eq!(scene.write().2["metadata"]["finalizers"], json!([]));
    // And what shows is shut down.
    scene.memory.launch = Launch::Absent { since: at(6), looked: at(6) };
    scene.memory.found(Ok(vec![instance("fake:///i-1")]), at(7));
    assert_eq!(scene.question(), Question::Delete(ProviderId("fake:///i-1".to_owned())));
}

#[test]
fn a_node_goes_in_order_taint_drain_volumes_instance_finalizers() {
    let mut scene = Scene::new().registered().deleted(1).registered_node(&json!({})).pod(&json!({}));
    scene.now = 100;
    scene.attachments.push(json!({"metadata": {"name": "va"}, "spec": {"attacher": "x", "nodeName": "n",
        "source": {"persistentVolumeName": "pv"}}, "status": {"attached": true}}));
    assert_eq!((scene.write().0, scene.write().1), (Kind::Node, "delete"));
    json_patch::merge(&mut scene.nodes[0], &json!({"metadata": {"deletionTimestamp": text(2)}}));
    let (kind, _, patch) = scene.write();
    assert_eq!((kind, &patch["spec"]["taints"][0]["key"]), (Kind::Node, &json!(labels::DISRUPTED_TAINT)));
    json_patch::merge(&mut scene.nodes[0], &patch);
    let take = |scene: &mut Scene| {
        let (kind, verb, patch) = scene.write();
        assert_eq!((kind, verb), (Kind::NodeClaim, "patch status"));
        json_patch::merge(&mut scene.claim, &json!({"status": patch["status"]}));
        patch["status"]["conditions"].to_string()
    };
    assert!(take(&mut scene).contains("Draining"));
    assert_eq!(scene.todo().evictions[0].manner, Manner::Evict);
    assert_eq!(scene.next(), Next::Idle);
    scene.pods.clear();
    // What follows from one another is one write.
    let drained = take(&mut scene);
    assert!(drained.contains(r#""reason":"Drained""#) && drained.contains("AwaitingVolumeDetachment"), "{drained}");
    assert_eq!(scene.next(), Next::Idle);
    scene.attachments.clear();
    let detached = take(&mut scene);
    assert!(detached.contains(r#""reason":"VolumesDetached""#), "{detached}");
    assert!(detached.contains(r#""reason":"InstanceTerminating""#), "{detached}");
    let id = ProviderId("fake:///i-1".to_owned());
    assert_eq!(scene.question(), Question::Delete(id.clone()));
    scene.memory.deleted(&id, Ok(()), at(100));
    assert_eq!(scene.next(), Next::Wait(at(102)));
    scene.now = 102;
    assert_eq!(scene.question(), Question::Delete(id.clone()));
    scene.memory.deleted(&id, Err(CloudError::NotFound { what: String::new() }), at(102));
    let (kind, _, patch) = scene.write();
    assert_eq!((kind, &patch["metadata"]["finalizers"]), (Kind::Node, &json!([])));
    scene.nodes.clear();
    let (kind, _, patch) = scene.write();
    assert_eq!((kind, &patch["metadata"]["finalizers"]), (Kind::NodeClaim, &json!([])));
}

#[test]
fn volumes_of_pods_that_stay_are_not_waited_for() {
    let drained = json!({"status": {"conditions": [condition("Launched", "True"), condition("Registered", "True"),
        condition("Drained", "True")]}});
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let staying = json!({"spec": {"tolerations": [{"operator": "Exists"}], "volumes": volume}});
    let mut node = json!({"metadata": {"deletionTimestamp": text(2)}});
    json_patch::merge(&mut node, &terminate::cordon(&Node::default()).unwrap());
    let mut scene = Scene::new().registered().with(&drained).deleted(1).registered_node(&node).pod(&staying);
    scene.attachments.push(json!({"metadata": {"name": "va"}, "spec": {"attacher": "x", "nodeName": "n",
        "source": {"persistentVolumeName": "pv"}}, "status": {"attached": true}}));
    assert!(scene.write().2["status"]["conditions"].to_string().contains(r#""reason":"VolumesDetached""#));
}

#[test]
fn the_grace_period_of_the_node_ends_a_drain() {
    let mut node = json!({"metadata": {"deletionTimestamp": text(2)}});
    json_patch::merge(&mut node, &terminate::cordon(&Node::default()).unwrap());
    let scene = Scene::new().registered().deleted(10).registered_node(&node).pod(&json!({}));
    let scene = scene.with(&json!({"spec": {"terminationGracePeriod": "60s"}}));
    let (_, _, patch) = scene.write();
    assert_eq!(patch["metadata"]["annotations"][labels::TERMINATION_TIMESTAMP], text(70));
    let mut scene = scene.with(&patch);
    scene.now = 40;
    assert_eq!(scene.todo().evictions[0].manner, Manner::Delete { grace: 30 });
    scene.now = 70;
    assert!(scene.write().2["status"]["conditions"].to_string().contains("InstanceTerminating"));
}

#[test]
fn a_node_whose_machine_is_gone_is_not_drained() {
    let mut node = json!({"metadata": {"deletionTimestamp": text(2)},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    json_patch::merge(&mut node, &terminate::cordon(&Node::default()).unwrap());
    let draining = json!({"status": {"conditions": [condition("Launched", "True"), condition("Registered", "True"),
        {"type": "Drained", "status": "Unknown", "reason": "Draining", "message": "waiting for 1 pod(s) to leave",
         "lastTransitionTime": text(2)},
        {"type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": "Initialized=Unknown",
         "lastTransitionTime": text(2)}]}});
    let mut scene = Scene::new().registered().with(&draining).deleted(1).registered_node(&node).pod(&json!({}));
    scene.now = 100;
    assert_eq!(scene.question(), Question::Get(ProviderId("fake:///i-1".to_owned())));
    scene.memory.got(Ok(instance("fake:///i-1")), at(100));
    assert_eq!(scene.next(), Next::Wait(at(110)));
    scene.memory.got(Err(CloudError::NotFound { what: String::new() }), at(100));
    assert_eq!((scene.write().0, &scene.write().2["metadata"]["finalizers"]), (Kind::Node, &json!([])));
}

#[test]
fn a_node_whose_machine_is_gone_says_so_where_volumes_are_attached_to_it() {
    let mut node = json!({"metadata": {"deletionTimestamp": text(2)},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    json_patch::merge(&mut node, &terminate::cordon(&Node::default()).unwrap());
    let mut scene = Scene::new().registered().deleted(1).registered_node(&node).pod(&json!({}));
    scene.attachments.push(json!({"metadata": {"name": "va"}, "spec": {"attacher": "x", "nodeName": "n",
        "source": {"persistentVolumeName": "pv"}}, "status": {"attached": true}}));
    scene.now = 100;
    scene.memory.got(Err(CloudError::NotFound { what: String::new() }), at(100));
    let (kind, _, patch) = scene.write();
    let out_of_service =
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    assert_eq!((kind, &patch["spec"]["taints"][1]), (Kind::Node, &out_of_service));
    assert_eq!(patch["spec"]["taints"][0]["key"], labels::DISRUPTED_TAINT, "the others stay");
    json_patch::merge(&mut scene.nodes[0], &patch);
    assert_eq!(scene.next(), Next::Wait(at(160)));
    // Whoever detaches them may be gone, too.
    let finalizers = |scene: &Scene| scene.write().2["metadata"]["finalizers"].clone();
    let late = Scene { now: 160, ..scene };
    assert_eq!(finalizers(&late), json!([]));
    let detached = Scene { now: 101, attachments: Vec::new(), ..late };
    assert_eq!(finalizers(&detached), json!([]));
}

#[test]
fn that_a_fresh_instance_does_not_show_says_nothing() {
    let mut scene = Scene::new().launched().deleted(2);
    let terminating = json!({"status": {"conditions": [condition("Launched", "True"),
        condition("InstanceTerminating", "True")]}});
    scene = scene.with(&terminating);
    scene.now = 2;
    let id = ProviderId("fake:///i-1".to_owned());
    // The sum of the conditions is written first.
    let (_, _, patch) = scene.write();
    let mut scene = scene.with(&json!({"status": patch["status"]}));
    scene.memory.deleted(&id, Err(CloudError::NotFound { what: String::new() }), at(2));
    assert_eq!(scene.next(), Next::Wait(at(7)));
    scene.now = 7;
    assert_eq!(scene.question(), Question::Delete(id.clone()));
    scene.memory.deleted(&id, Err(CloudError::NotFound { what: String::new() }), at(7));
    assert_eq!(scene.write().2["metadata"]["finalizers"], json!([]));
}

#[test]
fn a_launch_that_succeeds_is_remembered_until_it_is_written() {
    let mut memory = Memory::default();
    let scene = Scene::new().with_token(1);
    let mut own = scene;
    own.memory.own_token = Some("uid-c.1".to_owned());
    let Question::Create(request) = own.question() else { panic!("a launch") };
    let launched = Launched { instance: instance("fake:///i-1"), exhausted: Vec::new() };
    assert_eq!(memory.launched(request, Ok(launched)), Verdict::GoOn);
    assert!(matches!(memory.launch, Launch::Done(_)));
}

#[test]
fn pods_whose_machine_is_gone_are_deleted_before_their_claim_ends() {
    let mut scene = Scene::new().registered().deleted(1).pod(&json!({}));
    let told = condition("InstanceTerminating", "True");
    scene = scene.with(
        &json!({"status": {"conditions": [condition("Launched", "True"), condition("Registered", "True"), told]}}),
    );
    scene.now = 20;
    let id = ProviderId("fake:///i-1".to_owned());
    scene.memory.deleted(&id, Err(CloudError::NotFound { what: String::new() }), at(20));
    let todo = scene.todo();
    assert_eq!((&todo.evictions[0].manner, todo.next), (&Manner::Delete { grace: 0 }, Next::Wait(at(22))));
    // One that is deleted and held by a finalizer is not waited for, and no other for long.
    let mut held = scene.pods.remove(0);
    let deleted = json!({"metadata": {"deletionTimestamp": text(20), "deletionGracePeriodSeconds": 30}});
    json_patch::merge(&mut held, &deleted);
    scene.pods.push(held.clone());
    assert_eq!(scene.todo().evictions.len(), 1, "nobody ends it");
    scene.now = 81;
    assert_eq!(scene.write().2["metadata"]["finalizers"], json!([]));
    scene.now = 20;
    json_patch::merge(&mut held, &json!({"metadata": {"deletionGracePeriodSeconds": 0}}));
    scene.pods = vec![held];
    assert_eq!(scene.write().2["metadata"]["finalizers"], json!([]));
}
