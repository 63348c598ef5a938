//! Watches of one change that is not the same to all of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers are not test functions to clippy.

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
