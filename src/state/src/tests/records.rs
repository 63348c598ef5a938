//! Pods as records: what is shared, what is dropped, and what reads as it was.

use super::*;

/// A pod as it runs in a cluster: with a token volume and times of its own.
fn mk_running(at: usize, node: &str) -> Object {
    let token = format!("kube-api-access-{at}");
    let time = format!("2026-01-01T00:00:{:02}Z", at % 60);
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": time});
    Object::from(typed::<Pod>(json!({
        "metadata": {"name": format!("web-{at}"), "namespace": "default", "resourceVersion": "7",
            "uid": format!("00000000-0000-4000-8000-{at:012x}"), "creationTimestamp": time,
            "labels": {"app": "web"}, "annotations": {"note": "of all"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
        "spec": {"nodeName": node, "serviceAccountName": "web",
            "containers": [{"name": "app", "image": "app", "command": ["run", at.to_string()],
                "env": [{"name": "POD", "value": at.to_string()}],
                "resources": {"requests": {"cpu": "1"}},
                "volumeMounts": [{"name": token, "mountPath": "/token"}]}],
            "volumes": [{"name": token, "projected": {"sources": []}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"phase": "Running", "startTime": time, "podIP": format!("10.0.0.{at}"),
            "conditions": [condition("Ready"), condition("PodScheduled")],
            "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": at,
                "resources": {"requests": {"cpu": "1"}}, "containerID": at.to_string()}]}})))
}

#[test]
fn pods_of_one_owner_share_all_but_what_is_their_own() {
    let state = state_of((0..3).map(|at| mk_running(at, &format!("n-{at}"))));
    let pods: Vec<_> = state.pods().collect();
    let [first, rest @ ..] = pods.as_slice() else { panic!("no pods") };
    assert_eq!(rest.len(), 2);
    for (at, pod) in (1..).zip(rest) {
        assert!(std::ptr::eq(pod.spec().unwrap(), first.spec().unwrap()), "the token volume is dropped");
        assert!(std::ptr::eq(pod.status().unwrap(), first.status().unwrap()), "times and addresses are dropped");
        assert!(std::ptr::eq(pod.labels().unwrap(), first.labels().unwrap()));
        assert_eq!((&**pod.name(), pod.node()), (&*format!("web-{at}"), Some(&*format!("n-{at}"))));
        assert_eq!(pod.uid().as_deref(), Some(&*format!("00000000-0000-4000-8000-{at:012x}")));
        let time: Time = format!("2026-01-01T00:00:{at:02}Z").parse().unwrap();
        assert_eq!((pod.created(), pod.started()), (Some(time), Some(time)));
    }
}

#[test]
fn what_is_read_of_a_pod_is_as_it_was_told() {
    let told = mk_running(1, "n");
    let state = state_of([told.clone()]);
    let Some(Object::Pod(known)) = state.get(&pod_key("web-1")) else { panic!("no pod") };
    let Object::Pod(told) = told else { panic!("no pod") };
    let (metadata, spec, status) = (&told.metadata, told.spec.as_ref().unwrap(), told.status.as_ref().unwrap());
    assert_eq!(&known.metadata, metadata);
    let kept = known.spec.as_ref().unwrap();
    assert_eq!(
        (&kept.node_name, kept.containers[0].resources.as_ref()),
        (&spec.node_name, spec.containers[0].resources.as_ref())
    );
    let volumes: Vec<&str> = kept.volumes.iter().flatten().map(|volume| &*volume.name).collect();
    assert_eq!(volumes, ["data"], "a claim is read");
    let kept = known.status.as_ref().unwrap();
    assert_eq!((&kept.phase, &kept.start_time), (&status.phase, &status.start_time));
    let conditions: Vec<_> = kept.conditions.iter().flatten().map(|of| (&*of.type_, &*of.status)).collect();
    assert_eq!(conditions, [("Ready", "True"), ("PodScheduled", "True")]);
    // Of a pod that waits, what was said of it is kept with its times: it is written back.
    let mut waits = (*told).clone();
    waits.spec.as_mut().unwrap().node_name = None;
    let state = state_of([Object::from(waits)]);
    let pod = state.pod("default", "web-1").unwrap();
    assert_eq!(pod.conditions(), status.conditions.as_deref().unwrap());
}

#[test]
fn a_pod_that_is_told_again_is_the_same_record_but_for_its_version() {
    let mut state = state_of([mk_running(1, "n")]);
    state.cluster(NOW);
    let before = Arc::clone(state.pod("default", "web-1").unwrap());
    let Object::Pod(mut again) = mk_running(1, "n") else { panic!("no pod") };
    let pod = Arc::make_mut(&mut again);
    pod.metadata.resource_version = Some("8".to_owned());
    pod.status.as_mut().unwrap().pod_ip = None;
    assert!(state.apply(Event::Applied(Object::Pod(again))).unwrap().is_nothing());
    let after = state.pod("default", "web-1").unwrap();
    assert!(std::ptr::eq(before.spec().unwrap(), after.spec().unwrap()));
    assert_eq!((before.resource_version(), after.resource_version()), (Some("7".to_owned()), Some("8".to_owned())));
}

#[test]
fn shapes_that_no_pod_has_any_more_are_let_go() {
    let mut state = State::new(Options::default());
    for at in 0..20_000 {
        let Object::Pod(mut pod) = mk_pod(&format!("job-{at}"), "u", 1, None) else { panic!("no pod") };
        Arc::make_mut(&mut pod).metadata.labels = Some([("job".to_owned(), at.to_string())].into());
        let pod = Object::Pod(pod);
        let gone = deleted(&pod, 2);
        state.apply(Event::Applied(pod)).unwrap();
        state.apply(gone).unwrap();
    }
    assert!(state.n_shapes() <= 3_000, "{}", state.n_shapes());
}

#[test]
fn a_list_told_page_by_page_leaves_what_a_list_at_once_does() {
    let list = |names: &[&str], version: Option<&str>| {
        let keys = names.iter().map(|name| pod_key(name)).collect();
        Event::Listed { kind: Kind::Pod, keys, resource_version: version.map(str::to_owned) }
    };
    let names = |state: &State| state.pods().map(|pod| pod.name().to_string()).collect::<Vec<_>>();
    let mut state = state_of(["a", "b", "c"].map(|name| mk_pod(name, name, 5, None)));
    assert!(state.unlisted().any(|kind| kind == Kind::Pod));
    state.apply(list(&["a", "b"], Some("4"))).unwrap();
    assert_eq!(names(&state), ["a", "b", "c"], "it is newer than the list");
    assert!(!state.unlisted().any(|kind| kind == Kind::Pod));
    state.apply(list(&["a", "b"], Some("6"))).unwrap();
    assert_eq!(names(&state), ["a", "b"]);
    state.apply(Event::Applied(mk_pod("c", "c", 5, None))).unwrap();
    assert_eq!(names(&state), ["a", "b"], "what a list did not have is not brought back by an older event");
    state.apply(list(&["b"], None)).unwrap();
    assert_eq!(names(&state), ["b"]);
}

#[test]
fn a_copy_stays_as_it_was_while_the_state_changes() {
    let mut state = state_of((0..200).map(|at| mk_running(at, &format!("n-{}", at % 7))));
    let mut copy = state.snapshot();
    for at in 0..200 {
        let gone = deleted(&mk_running(at, "n"), 9);
        state.apply(gone).unwrap();
    }
    assert_eq!((state.pods().count(), copy.pods().count()), (0, 200));
    assert_eq!((state.pods_on("n-3").count(), copy.pods_on("n-3").count()), (0, 29));
    copy.apply(Event::Applied(mk_running(200, "n-3"))).unwrap();
    assert_eq!((state.pods_on("n-3").count(), copy.pods_on("n-3").count()), (0, 30));
}
