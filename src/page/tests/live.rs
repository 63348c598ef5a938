//! A page of a cluster, as a browser reads it.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

use std::sync::Arc;

use berth_apiserver::{ApiServer, Config};
use berth_page::{Page, PageOptions, Server, write_recording};
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn create(client: &Client, value: Value) {
    let kind = value["kind"].as_str().unwrap().to_owned();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", &kind));
    let object: DynamicObject = serde_json::from_value(value).unwrap();
    let api: Api<DynamicObject> = match kind.as_str() {
        "Node" => Api::all_with(client.clone(), &resource),
        _ => Api::default_namespaced_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn node(name: &str) -> Value {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    json!({"apiVersion": "v1", "kind": "Node", "spec": {"providerID": name},
        "metadata": {"name": name, "labels": {"karpenter.sh/capacity-type": "reserved"}},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, node: Option<&str>) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "nodeName": node, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}]}})
}

async fn ask(server: &Server, path: &str, host: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn whole(server: &Server, path: &str, host: &str) -> String {
    let mut text = String::new();
    ask(server, path, host).await.read_to_string(&mut text).await.unwrap();
    text
}

/// Reads until the events have said all of these.
async fn read_until(stream: &mut TcpStream, read: &mut String, wanted: &[&str]) {
    let mut buffer = [0; 4096];
    while !wanted.iter().all(|text| read.contains(text)) {
        let n = stream.read(&mut buffer).await.unwrap();
        assert!(n > 0, "the events ended: {read}");
        read.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
}

#[tokio::test]
async fn a_page_has_what_is_there_and_then_what_changes() {
    let client = Client::new(ApiServer::new(Config::default()), "default");
    create(&client, node("first")).await;
    let options = PageOptions {
        title: "A <title>".to_owned(),
        price: Arc::new(|_| Some([0.0, 0.25])),
        price_changes: Arc::new(|| 0),
        explain: Some(Arc::new(|of| {
            Box::pin(
                async move { if of == "node/first" { Ok(format!("{of} stands")) } else { Err(format!("no {of}")) } },
            )
        })),
        with_events: false,
        records: true,
        tick: berth_page::TICK,
        slots: None,
    };
    let page = Page::start(&client, options);
    let server = Server::start(([127, 0, 0, 1], 0).into(), page.clone()).await.unwrap();

    let html = whole(&server, "/", "localhost").await;
    assert!(html.contains("A &lt;title&gt;") && html.contains("uPlot") && html.contains("no-store"));
    assert!(whole(&server, "/", "elsewhere.example").await.starts_with("HTTP/1.1 403"));

    let mut events = ask(&server, "/events", "127.0.0.1:1").await;
    let mut read = String::new();
    read_until(&mut events, &mut read, &["\"first\":{", "\"unreserved\":0.25", "\"cpu\":4000"]).await;
    // Of what is there already, a difference says nothing.
    read.clear();
    create(&client, pod("placed", Some("first"))).await;
    page.say("Story", "something </script> happens");
    create(&client, pod("waits", None)).await;
    let placed = "\"cpuUsed\":1500";
    read_until(&mut events, &mut read, &[placed, "\"of\":\"default/waits\"", "something </script> happens"]).await;

    let pods = whole(&server, "/node?name=first", "localhost").await;
    assert!(pods.contains("default/placed") && !pods.contains("default/waits"), "{pods}");
    let pods = whole(&server, "/waiting?of=default%2Fwaits", "localhost").await;
    assert!(pods.contains("\"name\":\"default/waits\""), "{pods}");

    let story = whole(&server, "/explain?of=node%2Ffirst", "localhost").await;
    assert!(story.starts_with("HTTP/1.1 200") && story.contains("node/first stands"), "{story}");
    assert!(whole(&server, "/explain?of=node%2Fnone", "localhost").await.starts_with("HTTP/1.1 422"));
    // A page that is opened late has the plots of what was before.
    let mut late = ask(&server, "/events", "localhost").await;
    let mut read = String::new();
    read_until(&mut late, &mut read, &["\"history\":[{\"at\":"]).await;

    let mut recording = Vec::new();
    assert!(write_recording(&page, &mut recording).unwrap());
    let recording = String::from_utf8(recording).unwrap();
    let data = recording.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let frames: Value = serde_json::from_str(data).unwrap();
    let said = frames["frames"].as_array().unwrap().iter().filter_map(|frame| frame["said"].as_array().cloned());
    assert_eq!(said.flatten().next().unwrap()["message"], "something </script> happens");
}

/// The regression: a node had the price for good that it had when its Node was seen last.
#[tokio::test]
async fn a_price_that_changes_is_shown_without_a_change_of_any_object() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let client = Client::new(ApiServer::new(Config::default()), "default");
    create(&client, node("first")).await;
    let cents = Arc::new(AtomicU64::new(25));
    let (of_price, of_changes) = (Arc::clone(&cents), Arc::clone(&cents));
    let options = PageOptions {
        title: String::new(),
        price: Arc::new(move |_| Some([if of_price.load(Ordering::Relaxed) > 25 { 0.5 } else { 0.25 }, 0.25])),
        price_changes: Arc::new(move || of_changes.load(Ordering::Relaxed)),
        explain: None,
        with_events: false,
        records: false,
        tick: berth_page::TICK,
        slots: None,
    };
    let server = Server::start(([127, 0, 0, 1], 0).into(), Page::start(&client, options)).await.unwrap();
    let mut events = ask(&server, "/events", "localhost").await;
    let mut read = String::new();
    read_until(&mut events, &mut read, &["\"first\":{", "\"price\":0.25"]).await;
    cents.store(50, Ordering::Relaxed);
    read_until(&mut events, &mut read, &["\"price\":0.5"]).await;
}

#[tokio::test]
async fn no_address_that_others_reach_is_served() {
    let client = Client::new(ApiServer::new(Config::default()), "default");
    let options = PageOptions {
        title: String::new(),
        price: Arc::new(|_| None),
        price_changes: Arc::new(|| 0),
        explain: None,
        with_events: false,
        records: false,
        tick: berth_page::TICK,
        slots: None,
    };
    let error = Server::start(([0, 0, 0, 0], 0).into(), Page::start(&client, options)).await.unwrap_err();
    assert!(error.to_string().contains("expected an address of this machine alone"), "{error}");
}
