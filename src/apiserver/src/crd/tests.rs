//! Custom resources through requests.

use serde_json::{Value, json};

use crate::server::{ApiServer, Config};
use crate::testing::{DEFINITIONS, definition, send, thing};

const THINGS: &str = "/apis/example.com/v1/things";

fn schema(properties: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

#[tokio::test]
async fn a_definition_that_is_deleted_waits_for_the_finalizers_of_its_objects() {
    let server = ApiServer::new(Config::default());
    send(&server, "POST", DEFINITIONS, definition(&schema(&json!({"n": {"type": "integer"}})))).await;
    let mut held = thing("held", &json!({"n": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    assert_eq!(send(&server, "POST", THINGS, held).await.0, 201);
    assert_eq!(send(&server, "POST", THINGS, thing("free", &json!({"n": 2}))).await.0, 201);
    let path = format!("{DEFINITIONS}/things.example.com");

    let (code, answer) = send(&server, "DELETE", &path, Value::Null).await;
    assert_eq!((code, &answer["kind"]), (200, &json!("CustomResourceDefinition")));
    let (_, left) = send(&server, "GET", THINGS, Value::Null).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    let (_, waiting) = send(&server, "GET", &path, Value::Null).await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let terminating = waiting["status"]["conditions"].as_array().unwrap();
    assert!(terminating.iter().any(|c| c["type"] == "Terminating" && c["status"] == "True"), "{waiting}");
    let (code, refused) = send(&server, "POST", THINGS, thing("late", &json!({}))).await;
    let why =
        "things.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!((code, &refused["message"]), (403, &json!(why)));

    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(send(&server, "PATCH", &format!("{THINGS}/held"), free).await.0, 200);
    assert_eq!(send(&server, "GET", &path, Value::Null).await.0, 404);
    assert_eq!(send(&server, "GET", THINGS, Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_definition_without_objects_goes_at_once_and_may_come_again() {
    let server = ApiServer::new(Config::default());
    let path = format!("{DEFINITIONS}/things.example.com");
    for _ in 0..2 {
        let made = definition(&schema(&json!({})));
        assert_eq!(send(&server, "POST", DEFINITIONS, made).await.0, 201);
        assert_eq!(send(&server, "POST", THINGS, thing("a", &json!({}))).await.0, 201);
        assert_eq!(send(&server, "DELETE", &path, Value::Null).await.0, 200);
        assert_eq!(send(&server, "GET", &path, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn stored_objects_get_defaults_that_came_later_and_lose_fields_that_went() {
    let server = ApiServer::new(Config::default());
    let made = definition(&schema(&json!({"n": {"type": "integer"}, "old": {"type": "string"}})));
    send(&server, "POST", DEFINITIONS, made).await;
    send(&server, "POST", THINGS, thing("a", &json!({"n": 1, "old": "x"}))).await;
    let new = definition(&schema(&json!({"n": {"type": "integer"}, "color": {"type": "string", "default": "red"}})));
    let change = json!({"spec": {"versions": new["spec"]["versions"]}});
    assert_eq!(send(&server, "PATCH", &format!("{DEFINITIONS}/things.example.com"), change).await.0, 200);
    let expected = json!({"n": 1, "color": "red"});
    let (_, one) = send(&server, "GET", &format!("{THINGS}/a"), Value::Null).await;
    assert_eq!(one["spec"], expected);
    let (_, list) = send(&server, "GET", THINGS, Value::Null).await;
    assert_eq!(list["items"][0]["spec"], expected);
    // A write that changes nothing else stores it in its new form.
    let (_, written) = send(&server, "PATCH", &format!("{THINGS}/a"), json!({})).await;
    assert_ne!(written["metadata"]["resourceVersion"], one["metadata"]["resourceVersion"]);
    assert_eq!(written["spec"], expected);
}

#[tokio::test]
async fn each_version_shows_what_its_own_schema_knows() {
    let server = ApiServer::new(Config::default());
    let mut made = definition(&schema(&json!({"a": {"type": "integer"}, "both": {"type": "integer"}})));
    let other = json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema":
        schema(&json!({"b": {"type": "string", "default": "x"}, "both": {"type": "integer"}}))}});
    made["spec"]["versions"].as_array_mut().unwrap().push(other);
    assert_eq!(send(&server, "POST", DEFINITIONS, made).await.0, 201);
    send(&server, "POST", THINGS, thing("a", &json!({"a": 1, "both": 2}))).await;
    let (_, second) = send(&server, "GET", "/apis/example.com/v2/things/a", Value::Null).await;
    // Its default is not filled in: the real server does so with those of the version that is stored alone.
    assert_eq!((&second["apiVersion"], &second["spec"]), (&json!("example.com/v2"), &json!({"both": 2})));
    let (_, first) = send(&server, "GET", &format!("{THINGS}/a"), Value::Null).await;
    assert_eq!(first["spec"], json!({"a": 1, "both": 2}));
}

#[tokio::test]
async fn a_definition_that_wants_a_conversion_webhook_is_refused() {
    let server = ApiServer::new(Config::default());
    let mut made = definition(&schema(&json!({})));
    made["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com/convert"}}});
    let (code, refused) = send(&server, "POST", DEFINITIONS, made).await;
    assert_eq!(code, 422);
    assert!(refused["message"].as_str().unwrap().contains("spec.conversion.strategy"), "{refused}");
}

#[tokio::test]
async fn a_rule_that_could_stop_the_server_is_refused_with_its_definition() {
    let server = ApiServer::new(Config::default());
    let mut list = json!({"type": "array", "items": {"type": "string"}});
    list["x-kubernetes-validations"] =
        json!([{"rule": "self.all(a, self.all(b, self.all(c, self.all(d, a + b != c + d))))"}]);
    let (code, refused) = send(&server, "POST", DEFINITIONS, definition(&schema(&json!({"l": list})))).await;
    assert_eq!(code, 422);
    assert!(refused["message"].as_str().unwrap().contains("estimated rule cost exceeds budget"), "{refused}");
}
