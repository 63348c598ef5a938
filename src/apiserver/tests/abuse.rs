//! What no good client sends: the server stays up, answers what it can, and keeps nothing.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

use std::time::Duration;

use berth_apiserver::listener::Listener;
use berth_apiserver::{ApiServer, Config, FieldSelector, LabelSelector};
use futures::StreamExt;
use http_body_util::BodyExt;
use kube::client::Body;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

mod common;
use common::{client, config, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn code(client: &kube::Client, method: &str, path: &str, kind: &str, body: Vec<u8>) -> u16 {
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn absurd_bodies_are_refused_and_harm_nobody() {
    let client = client(&server());
    let deep = format!("{{\"metadata\":{{\"name\":\"d\"}},\"data\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let long = format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", "n".repeat(1_000_000));
    let many =
        format!("{{\"metadata\":{{\"name\":\"m\"}},\"data\":{{{}}}}}", r#""k":"v","#.repeat(100_000) + r#""k":"v""#);
    for (kind, body, expected) in [
        ("application/json", deep.into_bytes(), 400),
        ("application/json", long.into_bytes(), 422),
        ("application/json", many.into_bytes(), 201),
        ("application/json", vec![0; 1000], 400),
        ("application/json", b"\xff\xfe{}".to_vec(), 400),
        ("application/yaml", b"a: &a [*a, *a]".to_vec(), 400),
        ("application/yaml", b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]".to_vec(), 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), 400),
        ("application/json", vec![b' '; 4 * 1024 * 1024], 413),
    ] {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        assert_eq!(code(&client, "POST", MAPS, kind, body).await, expected, "{kind}: {shown}");
    }
    assert_eq!(code(&client, "GET", MAPS, "", Vec::new()).await, 200);
}

#[tokio::test]
async fn absurd_paths_and_queries_are_answered() {
    let client = client(&server());
    let long = format!("{MAPS}?labelSelector={}", "a=b,".repeat(10_000));
    let pairs = format!("{MAPS}?{}", "x=y&".repeat(10_000));
    for path in [
        "/",
        "//",
        "/api//v1",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/%00/pods",
        "/api/v1/namespaces/..%2f..%2fetc/pods",
        "/apis/%ff/v1/x",
        "/api/v1/pods?limit=99999999999999999999",
        "/api/v1/pods?resourceVersion=-1",
        "/api/v1/pods?continue=%00%ff",
        "/api/v1/pods?fieldSelector=%3D%3D%3D",
        "/api/v1/pods?watch=true&resourceVersion=18446744073709551615",
        long.as_str(),
        pairs.as_str(),
    ] {
        let found = code(&client, "GET", path, "", Vec::new()).await;
        assert!((200..600).contains(&found), "{found}: {}", &path[..path.len().min(80)]);
    }
    assert_eq!(code(&client, "GET", MAPS, "", Vec::new()).await, 200);
}

#[tokio::test]
async fn patches_from_hell_are_refused() {
    let client = client(&server());
    let body = br#"{"metadata":{"name":"m"},"data":{"a":"b"}}"#.to_vec();
    assert_eq!(code(&client, "POST", MAPS, "application/json", body).await, 201);
    let path = format!("{MAPS}/m");
    let copy = |to: usize| format!(r#"{{"op":"copy","from":"/data","path":"/data/x{to}"}}"#);
    let nested = format!("[{}]", vec![copy(0); 40].join(","));
    let doubling = format!("[{}]", (0..40).map(copy).collect::<Vec<_>>().join(","));
    let many = format!("[{}]", vec![r#"{"op":"test","path":"/data/a","value":"b"}"#; 10_001].join(","));
    for (kind, body, expected) in [
        ("application/json-patch+json", many.as_str(), 413),
        ("application/json-patch+json", r#"[{"op":"move","from":"/data","path":"/data/a"}]"#, 422),
        ("application/json-patch+json", r#"[{"op":"remove","path":""}]"#, 422),
        ("application/json-patch+json", r#"[{"op":"replace","path":"","value":[]}]"#, 422),
        ("application/merge-patch+json", "[]", 400),
        ("application/strategic-merge-patch+json", r#"{"$patch":"delete"}"#, 422),
        ("application/apply-patch+yaml", "- a\n- b", 400),
    ] {
        let found = code(&client, "PATCH", &format!("{path}?fieldManager=x"), kind, body.as_bytes().to_vec()).await;
        assert!(found == expected || (400..500).contains(&found), "{found}, not {expected}: {body:.80}");
    }
    // Each copy is put where the one before is deepest.
    let deeper = |n: u32| format!(r#"{{"op":"copy","from":"/data","path":"/data{}"}}"#, "/x".repeat(2_usize.pow(n)));
    let deep = format!("[{}]", (0..17).map(deeper).collect::<Vec<_>>().join(","));
    let end = |n: usize| {
        format!(
            r#"{{"op":"add","path":"/data{}","value":{}{}}}"#,
            "/a".repeat(n * 100 + 1),
            r#"{"a":"#.repeat(100) + "{}",
            "}".repeat(100)
        )
    };
    let steps = format!("[{}]", (0..150).map(end).collect::<Vec<_>>().join(","));
    // Each copy holds the one before, or all before.
    for copies in [nested, doubling, deep, steps] {
        let request = code(&client, "PATCH", &path, "application/json-patch+json", copies.into_bytes());
        let found = tokio::time::timeout(Duration::from_secs(60), request).await.expect("it ends");
        assert!((400..500).contains(&found), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_and_broken_connections_end() {
    let listener = Listener::start(server(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", &[0; 10_000]] {
        let mut stream = tokio::net::TcpStream::connect(listener.address()).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        // The server closes too, whatever it says before.
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "it stays open after {} bytes", bytes.len());
    }
    let kubeconfig = serde_json::from_str(&listener.kubeconfig()).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    assert_eq!(code(&client, "GET", MAPS, "", Vec::new()).await, 200);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_idle_watches_cost_nothing_and_all_hear_of_a_change() {
    let server = ApiServer::new(Config { history: 100, ..config() });
    let client = client(&server);
    let mut watches = Vec::new();
    for _ in 0..10_000 {
        let path = format!("{MAPS}?watch=true&resourceVersion={}&timeoutSeconds=3000", server.resource_version());
        let request = http::Request::builder().uri(path).body(Body::empty()).unwrap();
        watches.push(client.send(request).await.unwrap().into_body());
    }
    let before = server.resource_version();
    // Other resources wake nobody.
    for n in 0..50 {
        let body = format!(r#"{{"metadata":{{"name":"s{n}"}}}}"#).into_bytes();
        assert_eq!(code(&client, "POST", "/api/v1/namespaces/default/secrets", "application/json", body).await, 201);
    }
    assert_eq!(server.resource_version(), before + 50);
    let body = br#"{"metadata":{"name":"news"}}"#.to_vec();
    assert_eq!(code(&client, "POST", MAPS, "application/json", body).await, 201);
    for watch in &mut watches {
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(br#"{"type":"ADDED""#));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_read_falls_behind_the_history_and_is_told() {
    let server = ApiServer::new(Config { history: 10, ..config() });
    let client = client(&server);
    let path = format!("{MAPS}?watch=true&resourceVersion={}", server.resource_version());
    let request = http::Request::builder().uri(path).body(Body::empty()).unwrap();
    let mut watch = client.send(request).await.unwrap().into_body();
    for n in 0..100 {
        let body = format!(r#"{{"metadata":{{"name":"m{n}"}}}}"#).into_bytes();
        assert_eq!(code(&client, "POST", MAPS, "application/json", body).await, 201);
    }
    let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&frame).contains("\"code\":410"), "{frame:?}");
    assert!(watch.frame().await.is_none());
}

/// Any JSON of a moderate size.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let keys = [
        "metadata",
        "labels",
        "spec",
        "template",
        "containers",
        "name",
        "$patch",
        "$retainKeys",
        "ports",
        "a",
        "op",
        "path",
    ];
    let texts = ["a", "delete", "replace", "merge", "name", "/spec", "/metadata/labels/a", "add", "", "-"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        prop::sample::select(texts.to_vec()).prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(prop::sample::select(keys.to_vec()).prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_a_selector_or_a_refusal(text in any::<String>(), odd in "[a-z!=<>(), .*/-]{0,30}") {
        for text in [text, odd] {
            let _ = LabelSelector::parse(&text);
            let _ = FieldSelector::parse(&text);
        }
    }

    #[test]
    fn any_json_is_a_patch_or_a_refusal(patch in any_json()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = client(&server());
            let path = "/apis/apps/v1/namespaces/default/deployments";
            let object = serde_json::json!({"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": {"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
            assert_eq!(code(&client, "POST", path, "application/json", object.to_string().into_bytes()).await, 201);
            let of = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": patch});
            for (kind, body) in [
                ("application/json-patch+json", serde_json::json!([patch])),
                ("application/merge-patch+json", patch.clone()),
                ("application/strategic-merge-patch+json", patch.clone()),
                ("application/apply-patch+yaml", of),
            ] {
                let path = format!("{path}/d?fieldManager=x&force={}", kind.contains("apply"));
                let found = code(&client, "PATCH", &path.replace("&force=false", ""), kind, body.to_string().into_bytes()).await;
                assert!((200..=500).contains(&found), "{found}");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_given_up() {
    let begin = tokio::time::Instant::now();
    let first = futures::stream::iter([Ok::<_, std::io::Error>(http_body::Frame::data("{\"meta".into()))]);
    let slow = http_body_util::StreamBody::new(first.chain(futures::stream::pending()));
    let request = http::Request::post(MAPS).header("content-type", "application/json").body(slow).unwrap();
    let response = tower_service::Service::call(&mut server(), request).await.unwrap();
    assert_eq!((response.status().as_u16(), begin.elapsed().as_secs()), (504, 60));
}
