//! Watches of one change that is not the same to all of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::items_after_statements)] // Helpers are not test functions to clippy.

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

mod common;
use common::{client, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(client: &kube::Client, method: &str, path: &str, body: Value) -> Value {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let response = client.send(request.body(Body::from(body.to_string().into_bytes())).unwrap()).await.unwrap();
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

async fn watch(client: &kube::Client, query: &str) -> Body {
    let request = http::Request::builder().uri(format!("{MAPS}?watch=true&timeoutSeconds=600&{query}"));
    client.send(request.body(Body::empty()).unwrap()).await.unwrap().into_body()
}

/// The events of the next frame.
async fn events(watch: &mut Body) -> Vec<Value> {
    let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    let lines = frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_labels_is_to_each_watch_what_its_selector_makes_of_it() {
    let client = client(&server());
    let made = json!({"metadata": {"name": "m", "labels": {"a": "1"}}});
    let version = send(&client, "POST", MAPS, made).await["metadata"]["resourceVersion"].clone();
    let version = format!("resourceVersion={}", version.as_str().unwrap());
    let kinds = [("", "MODIFIED"), ("&labelSelector=a%3D2", "ADDED"), ("&labelSelector=a%3D1", "DELETED")];
    // Whichever watch is read first, its line is not that of the others.
    for turn in 0..kinds.len() {
        let mut watches = Vec::new();
        for (selector, kind) in kinds {
            watches.push((watch(&client, &format!("{version}{selector}")).await, kind));
        }
        if turn == 0 {
            send(&client, "PATCH", &format!("{MAPS}/m"), json!({"metadata": {"labels": {"a": "2"}}})).await;
        }
        watches.rotate_left(turn);
        for (watch, kind) in &mut watches {
            let [event] = &events(watch).await[..] else { panic!("one event") };
            assert_eq!(event["type"], *kind);
            let label = if *kind == "DELETED" { "1" } else { "2" };
            assert_eq!(event["object"]["metadata"]["labels"]["a"], label);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_come_together_in_order() {
    let server = server();
    let client = client(&server);
    let mut late = watch(&client, &format!("resourceVersion={}", server.resource_version())).await;
    for n in 0..100 {
        send(&client, "POST", MAPS, json!({"metadata": {"name": format!("m{n:02}")}})).await;
    }
    let mut names = Vec::new();
    let mut frames = 0;
    while names.len() < 100 {
        frames += 1;
        names.extend(events(&mut late).await.into_iter().map(|event| event["object"]["metadata"]["name"].clone()));
    }
    let expected: Vec<Value> = (0..100).map(|n| format!("m{n:02}").into()).collect();
    assert_eq!(names, expected);
    assert!(frames < 10, "{frames} frames");
}

#[tokio::test(start_paused = true)]
async fn the_longest_timeout_that_a_query_can_say_is_a_watch_and_no_panic() {
    let client = client(&server());
    let request = http::Request::builder().uri(format!("{MAPS}?watch=1&timeoutSeconds=9223372036854775807"));
    let response = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut watch = response.into_body();
    send(&client, "POST", MAPS, json!({"metadata": {"name": "m"}})).await;
    assert_eq!(events(&mut watch).await[0]["type"], "ADDED");
}

#[tokio::test(start_paused = true)]
async fn an_event_goes_an_hour_after_its_last_write_and_watches_see_it_go() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let client = client(&server());
    let about = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    for name in ["early", "kept"] {
        let made = json!({"metadata": {"name": name}, "involvedObject": about, "count": 1});
        send(&client, "POST", EVENTS, made).await;
    }
    let list = send(&client, "GET", EVENTS, Value::Null).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let uri = format!("{EVENTS}?watch=true&timeoutSeconds=100000&resourceVersion={version}");
    let request = http::Request::builder().uri(uri).body(Body::empty()).unwrap();
    let mut watch = client.send(request).await.unwrap().into_body();
    tokio::time::sleep(std::time::Duration::from_secs(30 * 60)).await;
    send(&client, "PATCH", &format!("{EVENTS}/kept"), json!({"count": 2})).await;
    assert_eq!(events(&mut watch).await[0]["type"], "MODIFIED");
    // Nobody asks for anything: the watch itself is told.
    let [gone] = &events(&mut watch).await[..] else { panic!("one event") };
    assert_eq!((&gone["type"], &gone["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("early")));
    let list = send(&client, "GET", EVENTS, Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    tokio::time::sleep(std::time::Duration::from_secs(30 * 60)).await;
    let list = send(&client, "GET", EVENTS, Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 0, "the written event outlived its hour");
}

#[tokio::test(start_paused = true)]
async fn the_hash_of_openapi_stays_with_writes_and_changes_with_a_definition() {
    let client = client(&server());
    let hash = async |path: &str| {
        let index = send(&client, "GET", "/openapi/v3", Value::Null).await;
        index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned)
    };
    let before = hash("api/v1").await;
    assert!(before.is_some());
    send(&client, "POST", MAPS, json!({"metadata": {"name": "m"}})).await;
    assert_eq!(hash("api/v1").await, before);
    let mut definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    definition = send(&client, "POST", DEFINITIONS, definition).await;
    assert_eq!(definition["kind"], "CustomResourceDefinition");
    let first = hash("apis/example.com/v1").await;
    assert!(first.is_some());
    let add = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
        {"type": "object", "properties": {"spec": {"type": "object"}}}}}]}});
    send(&client, "PATCH", &format!("{DEFINITIONS}/things.example.com"), add).await;
    assert_ne!(hash("apis/example.com/v1").await, first);
    assert_eq!(hash("api/v1").await, before);
}

/// The regression: a client whose watch had ended before a minute was over began anew from where it was at first.
#[tokio::test(start_paused = true)]
async fn the_last_bookmark_comes_just_before_the_end_of_a_watch() {
    let server = server();
    let client = client(&server);
    for (timeout, bookmarks) in [(30, vec![28]), (90, vec![60, 88]), (1, vec![])] {
        let version = server.resource_version();
        let query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={timeout}&resourceVersion={version}");
        let request = http::Request::builder().uri(format!("{MAPS}?{query}")).body(Body::empty()).unwrap();
        let mut watch = client.send(request).await.unwrap().into_body();
        let starts = tokio::time::Instant::now();
        // What happens to another resource moves the version on, too.
        let secret = json!({"metadata": {"generateName": "s-"}});
        send(&client, "POST", "/api/v1/namespaces/default/secrets", secret).await;
        let mut seen = Vec::new();
        while let Some(frame) = watch.frame().await {
            let event: Value = serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap();
            assert_eq!(event["type"], "BOOKMARK");
            assert_eq!(event["object"]["metadata"]["resourceVersion"], server.resource_version().to_string());
            seen.push(starts.elapsed().as_secs());
        }
        assert_eq!((seen, starts.elapsed().as_secs()), (bookmarks, timeout));
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_watch_hear_of_a_change_in_the_order_in_which_they_began() {
    let client = client(&server());
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for name in 0..32 {
        let (mut watch, heard) = (watch(&client, "").await, heard.clone());
        tokio::spawn(async move {
            loop {
                events(&mut watch).await;
                heard.lock().unwrap().push(name);
            }
        });
    }
    for change in 0..3 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        send(&client, "POST", MAPS, json!({"metadata": {"name": format!("m{change}")}})).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), (0..32).collect::<Vec<_>>());
    }
}
