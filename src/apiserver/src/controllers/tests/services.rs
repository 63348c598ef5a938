//! Endpoints and EndpointSlices.

use serde_json::{Value, json};

use super::{make, node, server, settle};
use crate::meta::{self, list_at, text_at};
use crate::server::ApiServer;
use crate::verbs::set_condition;

fn pod(server: &ApiServer, name: &str, port: i64) {
    make(
        server,
        "pods",
        json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": port}]}]}}),
    );
}

fn address(server: &ApiServer, name: &str, ip: &str, ready: &str) {
    server.change_object("pods", &format!("default/{name}"), |pod| {
        pod["status"]["podIP"] = ip.into();
        pod["status"]["podIPs"] = json!([{"ip": ip}]);
        set_condition(pod, &json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    });
    settle(server);
}

fn service(server: &ApiServer) {
    make(
        server,
        "services",
        json!({"metadata": {"name": "web", "labels": {"tier": "front"}},
               "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
    );
}

fn slices(server: &ApiServer) -> Vec<Value> {
    server.values("endpointslices.discovery.k8s.io", "default")
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_service_are_its_endpoints_once_they_have_an_address() {
    let server = server();
    node(&server, "n1", &json!({"topology.kubernetes.io/zone": "z1"}));
    pod(&server, "a", 8080);
    pod(&server, "b", 8080);
    service(&server);
    settle(&server);
    let [empty] = &slices(&server)[..] else { panic!("one slice") };
    assert!(list_at(empty, &["endpoints"]).is_empty());
    address(&server, "a", "10.0.0.1", "True");
    address(&server, "b", "10.0.0.2", "False");
    let [slice] = &slices(&server)[..] else { panic!("one slice") };
    assert_eq!(meta::name(slice), meta::name(empty));
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
    assert_eq!(slice["metadata"]["labels"]["tier"], "front");
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    let ready: Vec<&Value> = list_at(slice, &["endpoints"]).iter().map(|e| &e["conditions"]["ready"]).collect();
    assert_eq!(ready, [true, false]);
    assert_eq!(slice["endpoints"][0]["zone"], "z1");
    let endpoints = server.value("endpoints", "default/web").unwrap();
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.0.0.1");
    assert_eq!(endpoints["subsets"][0]["notReadyAddresses"][0]["ip"], "10.0.0.2");
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
}

#[tokio::test(start_paused = true)]
async fn pods_that_serve_on_other_ports_have_a_slice_of_their_own() {
    let server = server();
    node(&server, "n1", &json!({}));
    pod(&server, "a", 8080);
    pod(&server, "b", 9090);
    service(&server);
    address(&server, "a", "10.0.0.1", "True");
    address(&server, "b", "10.0.0.2", "True");
    let mut ports: Vec<i64> = slices(&server).iter().map(|slice| slice["ports"][0]["port"].as_i64().unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [8080, 9090]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_holds_a_hundred_endpoints() {
    let server = server();
    node(&server, "n1", &json!({}));
    service(&server);
    for n in 0..150 {
        pod(&server, &format!("p{n:03}"), 8080);
        server.change_object("pods", &format!("default/p{n:03}"), |pod| {
            pod["status"]["podIP"] = format!("10.0.1.{n}").into();
        });
    }
    settle(&server);
    let mut sizes: Vec<usize> = slices(&server).iter().map(|slice| list_at(slice, &["endpoints"]).len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_go_with_their_service_and_those_made_by_hand_stay() {
    let server = server();
    service(&server);
    make(&server, "services", json!({"metadata": {"name": "outside"}, "spec": {"ports": [{"port": 80}]}}));
    make(&server, "endpoints", json!({"metadata": {"name": "outside"}}));
    settle(&server);
    let names = || -> Vec<String> {
        server.values("endpoints", "default").iter().map(|endpoints| meta::name(endpoints).to_owned()).collect()
    };
    assert_eq!(names(), ["outside", "web"]);
    server.remove_object("services", "default/web", None);
    settle(&server);
    assert_eq!(names(), ["outside"]);
    assert!(slices(&server).is_empty());
    assert_eq!(text_at(&server.value("services", "default/outside").unwrap(), &["spec", "type"]), "ClusterIP");
}
