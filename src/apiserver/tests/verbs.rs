//! Requests that a stranger sends: what the real server does with them was tried beside it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use berth_apiserver::{Admission, ApiServer, Config};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

struct Answered {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> Answered {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    send_as(server, method, path, (kind, body)).await
}

async fn send_as(server: &ApiServer, method: &str, path: &str, (kind, body): (&str, Bytes)) -> Answered {
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let response = server.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
    let warnings = warnings.collect();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    Answered { code, body: serde_json::from_slice(&text).unwrap_or_default(), warnings }
}

async fn pod(server: &ApiServer) -> String {
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let made = send(server, "POST", PODS, &pod).await;
    made.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn eviction(options: &Value) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options})
}

#[tokio::test]
async fn an_eviction_on_condition_of_a_version_is_not_refused_for_its_own_condition() {
    let server = ApiServer::new(Config::default());
    let version = pod(&server).await;
    let path = format!("{PODS}/p/eviction");
    let on = |version: &str| eviction(&json!({"gracePeriodSeconds": 0, "preconditions": {"resourceVersion": version}}));
    assert_eq!(send(&server, "POST", &path, &on("1")).await.code, 409);
    assert_eq!(send(&server, "POST", &path, &on(&version)).await.code, 201);
    assert_eq!(send(&server, "GET", &format!("{PODS}/p"), &Value::Null).await.code, 404);
}

#[tokio::test]
async fn what_is_posted_to_a_subresource_must_be_of_its_kind() {
    let server = ApiServer::new(Config::default());
    pod(&server).await;
    let other = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "target": {"name": "n"}});
    for subresource in ["eviction", "binding"] {
        let answered = send(&server, "POST", &format!("{PODS}/p/{subresource}"), &other).await;
        assert_eq!(answered.code, 400, "{subresource}: {}", answered.body);
    }
    // Without a kind it is taken for the right one.
    let bare = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "0"}});
    assert_eq!(send(&server, "POST", &format!("{PODS}/p/eviction"), &bare).await.code, 400);
    let answered = send(&server, "DELETE", &format!("{PODS}/p"), &json!({"gracePeriodSeconds": "0"})).await;
    assert_eq!(answered.code, 400, "{}", answered.body);
    let bare = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"},
        "deleteOptions": {"gracePeriodSeconds": 0}});
    assert_eq!(send(&server, "POST", &format!("{PODS}/p/eviction"), &bare).await.code, 201);
    let scale = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    send(&server, "POST", "/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    assert_eq!(send(&server, "PUT", scale, &deployment).await.code, 400);
}

fn definition() -> Value {
    let version = |name: &str, is_stored: bool, field: &str| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        json!({"name": name, "served": true, "storage": is_stored, "deprecated": !is_stored,
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
               "subresources": {"status": {}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true, "a"), version("v2", false, "b")]}})
}

#[tokio::test]
async fn a_definition_does_not_move_its_objects_out_of_reach() {
    let server = ApiServer::new(Config::default());
    assert_eq!(send(&server, "POST", DEFINITIONS, &definition()).await.code, 201);
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "finalizers": ["a.b/c"]}});
    assert_eq!(send(&server, "POST", things, &thing).await.code, 201);
    let own = format!("{DEFINITIONS}/things.example.com");
    for (field, change) in [
        ("spec.scope", json!({"spec": {"scope": "Cluster"}})),
        ("spec.names.kind", json!({"spec": {"names": {"kind": "Other", "listKind": "OtherList"}}})),
        ("spec.group", json!({"spec": {"group": "other.com"}})),
        ("spec.names.plural", json!({"spec": {"names": {"plural": "others"}}})),
    ] {
        let answered = send(&server, "PATCH", &own, &change).await;
        assert_eq!(answered.code, 422, "{field}: {}", answered.body);
        let causes = answered.body["details"]["causes"].as_array().unwrap().clone();
        assert_eq!((causes.len(), &causes[0]["field"]), (1, &json!(field)), "{}", answered.body);
    }
    let mut without = send(&server, "GET", &own, &Value::Null).await.body;
    without["spec"]["versions"].as_array_mut().unwrap().remove(0);
    without["spec"]["versions"][0]["storage"] = true.into();
    let answered = send(&server, "PUT", &own, &without).await;
    assert_eq!(answered.code, 422, "a version that objects may be stored in goes");
    assert_eq!(answered.body["details"]["causes"][0]["field"], "status.storedVersions[0]");
    // Deleted, it goes with its object.
    assert_eq!(send(&server, "DELETE", &own, &Value::Null).await.code, 200);
    assert_eq!(
        send(&server, "PATCH", &format!("{things}/a"), &json!({"metadata": {"finalizers": null}})).await.code,
        200
    );
    assert_eq!(send(&server, "GET", &own, &Value::Null).await.code, 404);
}

#[tokio::test]
async fn a_definition_waits_for_names_that_another_one_has() {
    let server = ApiServer::new(Config::default());
    assert_eq!(send(&server, "POST", DEFINITIONS, &definition()).await.code, 201);
    let mut second = definition();
    second["metadata"]["name"] = "others.example.com".into();
    second["spec"]["names"]["plural"] = "others".into();
    let made = send(&server, "POST", DEFINITIONS, &second).await;
    let conditions = |definition: &Value| -> Vec<String> {
        let list = definition["status"]["conditions"].as_array().unwrap().clone();
        let text = |of: &Value, field: &str| of[field].as_str().unwrap().to_owned();
        list.iter().map(|one| [text(one, "type"), text(one, "status"), text(one, "reason")].join(" ")).collect()
    };
    assert_eq!(made.code, 201);
    assert_eq!(conditions(&made.body), ["NamesAccepted False ListKindConflict", "Established False NotAccepted"]);
    let others = "/apis/example.com/v1/others";
    assert_eq!(send(&server, "GET", others, &Value::Null).await.code, 404);
    assert_eq!(send(&server, "DELETE", &format!("{DEFINITIONS}/things.example.com"), &Value::Null).await.code, 200);
    let waited = send(&server, "GET", &format!("{DEFINITIONS}/others.example.com"), &Value::Null).await;
    assert_eq!(conditions(&waited.body), ["NamesAccepted True NoConflicts", "Established True InitialNamesAccepted"]);
    assert_eq!(send(&server, "GET", others, &Value::Null).await.code, 200);
}

#[tokio::test]
async fn what_the_version_that_is_stored_does_not_know_is_lost_as_the_other_writes() {
    let server = ApiServer::new(Config::default());
    let mut definition = definition();
    let versions = &mut definition["spec"]["versions"];
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["c"] =
        json!({"type": "string", "default": "one"});
    versions[1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["d"] =
        json!({"type": "string", "default": "two"});
    assert_eq!(send(&server, "POST", DEFINITIONS, &definition).await.code, 201);
    let things = |version: &str| format!("/apis/example.com/{version}/namespaces/default/things");
    let thing = json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "x"},
        "spec": {"a": "1", "b": "2"}});
    let made = send(&server, "POST", &things("v2"), &thing).await;
    assert_eq!((made.code, &made.body["spec"]), (201, &json!({})));
    let path = |version: &str| format!("{}/x", things(version));
    assert_eq!(send(&server, "GET", &path("v1"), &Value::Null).await.body["spec"], json!({"c": "one"}));
    let change = json!({"spec": {"a": "5"}});
    let changed = send(&server, "PATCH", &path("v1"), &change).await;
    assert_eq!(changed.body["spec"], json!({"a": "5", "c": "one"}));
    // Defaults are those of the version that it is stored in, also once that is no longer the storage version.
    assert_eq!(send(&server, "GET", &path("v2"), &Value::Null).await.body["spec"], json!({}));
    let again = ApiServer::restore(Config::default(), &server.snapshot()).unwrap();
    assert_eq!(send(&again, "GET", &path("v1"), &Value::Null).await.body["spec"], json!({"a": "5", "c": "one"}));
    let own = format!("{DEFINITIONS}/things.example.com");
    let mut flipped = send(&again, "GET", &own, &Value::Null).await.body;
    flipped["spec"]["versions"][0]["storage"] = false.into();
    flipped["spec"]["versions"][1]["storage"] = true.into();
    let changed = send(&again, "PUT", &own, &flipped).await;
    assert_eq!(changed.body["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(send(&again, "GET", &path("v1"), &Value::Null).await.body["spec"], json!({"a": "5", "c": "one"}));
    // The next write stores it anew.
    let written = send(&again, "PATCH", &path("v2"), &json!({"spec": {"b": "6"}})).await;
    assert_eq!(written.body["spec"], json!({"b": "6", "d": "two"}));
    assert_eq!(send(&again, "GET", &path("v1"), &Value::Null).await.body["spec"], json!({}));
}

#[tokio::test]
async fn a_version_that_is_on_its_way_out_says_so_and_statuses_need_a_version() {
    let server = ApiServer::new(Config::default());
    send(&server, "POST", DEFINITIONS, &definition()).await;
    let answered = send(&server, "GET", "/apis/example.com/v2/things", &Value::Null).await;
    assert_eq!(
        (answered.code, answered.warnings),
        (200, vec!["299 - \"example.com/v2 Thing is deprecated\"".to_owned()])
    );
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    send(&server, "POST", things, &thing).await;
    assert_eq!(send(&server, "PUT", &format!("{things}/a/status"), &thing).await.code, 422);
}

#[tokio::test]
async fn metadata_that_the_real_server_refuses_is_refused() {
    let server = ApiServer::new(Config::default());
    let owner = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": "1"});
    for metadata in [
        json!({"generateName": "UPPER-"}),
        json!({"generateName": "x".repeat(300)}),
        json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
        json!({"name": "a", "ownerReferences": [owner("Event")]}),
    ] {
        let answered = send(&server, "POST", MAPS, &json!({"metadata": metadata})).await;
        assert_eq!(answered.code, 422, "{}", answered.body);
    }
    let twice = json!({"metadata": {"name": "a", "ownerReferences": [owner("Secret"), owner("Secret")]}});
    let answered = send(&server, "POST", MAPS, &twice).await;
    assert_eq!(answered.body["metadata"]["ownerReferences"], json!([owner("Secret")]));
    assert!(answered.warnings[0].contains("duplicate UID(s) observed: 1"), "{:?}", answered.warnings);
}

#[tokio::test]
async fn a_body_that_is_read_in_a_step_of_its_own_is_read_as_any_other() {
    let server = ApiServer::new(Config::default());
    let large = "x".repeat(100_000);
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"a": large}});
    assert_eq!(send(&server, "POST", MAPS, &map("a")).await.code, 201);
    assert_eq!(send(&server, "PUT", &format!("{MAPS}/a"), &map("a")).await.code, 200);
    assert_eq!(send(&server, "PUT", &format!("{MAPS}/a"), &map("b")).await.code, 400);
    let request = http::Request::builder().method("POST").uri(MAPS).header("content-type", "application/json");
    let cut = format!("{{\"metadata\": {{\"name\": \"c\"}}, \"data\": {{\"a\": \"{large}\"");
    let response = server.clone().call(request.body(Full::new(Bytes::from(cut))).unwrap()).await.unwrap();
    assert_eq!(response.status(), 400);
}

/// The regression: such definitions were taken, and a real server refuses them.
#[tokio::test]
async fn conditions_of_a_schema_that_say_what_it_has_are_not_structural() {
    let refused = async |spec: Value| {
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "odds.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "odds", "kind": "Odd"}, "versions": [version]}});
        let answered = send(&ApiServer::new(Config::default()), "POST", DEFINITIONS, &definition).await;
        let causes = answered.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let field = |cause: &Value| cause["field"].as_str().unwrap().rsplit_once("[spec].").unwrap().1.to_owned();
        (answered.code, causes.iter().map(field).collect::<Vec<String>>())
    };
    let whole =
        json!({"title": "t", "description": "d", "nullable": true, "additionalProperties": true, "default": {}});
    let all = ["additionalProperties", "default", "description", "nullable", "title"];
    let all = all.iter().map(|field| format!("oneOf[0].{field}")).collect::<Vec<String>>();
    assert_eq!(refused(json!({"type": "object", "oneOf": [whole]})).await, (422, all));
    let nested = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "not": {"properties": {"a": {"type": "string", "allOf": [{"type": "string"}]}}}});
    let fields = ["not.properties[a].type", "not.properties[a].allOf[0].type"].map(str::to_owned).to_vec();
    assert_eq!(refused(nested).await, (422, fields));
    let unique = json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}});
    assert_eq!(refused(unique).await, (422, vec!["uniqueItems".to_owned()]));
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    for known in [json!({"anyOf": both}), json!({"allOf": [{"anyOf": both}, {"pattern": "a"}]})] {
        let mut spec = known;
        spec["x-kubernetes-int-or-string"] = true.into();
        assert_eq!(refused(spec).await, (201, Vec::new()));
    }
    assert_eq!(refused(json!({"type": "object", "anyOf": both})).await.0, 422);
}

#[tokio::test]
async fn webhooks_and_admission_policies_are_kept_and_not_asked() {
    let server = ApiServer::new(Config::default());
    let path = |plural: &str| format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    let webhook = json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {"validations": [{"expression": "true"}], "matchConstraints":
        {"resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}}});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (plural, kind, object) in [
        (
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            json!({"metadata": {"name": "v"}, "webhooks": [webhook]}),
        ),
        (
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            json!({"metadata": {"name": "m"}, "webhooks": [webhook]}),
        ),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", policy),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", binding),
    ] {
        let made = send(&server, "POST", &path(plural), &object).await;
        assert_eq!((made.code, &made.body["kind"]), (201, &json!(kind)), "{}", made.body);
        assert_eq!(made.body["metadata"]["generation"], 1);
        let warned = made.warnings.iter().any(|told| told.contains("neither calls webhooks nor asks policies"));
        assert!(warned, "{:?}", made.warnings);
        if plural == "mutatingwebhookconfigurations" {
            let made = &made.body["webhooks"][0];
            let defaults = [&made["failurePolicy"], &made["matchPolicy"], &made["reinvocationPolicy"]];
            assert_eq!(defaults, ["Fail", "Equivalent", "Never"]);
            assert_eq!((&made["timeoutSeconds"], &made["clientConfig"]["service"]["port"]), (&json!(10), &json!(443)));
            assert_eq!((&made["rules"][0]["scope"], &made["objectSelector"]), (&json!("*"), &json!({})));
        }
    }
    // They ask nobody: what a webhook that is nowhere must let in comes in.
    pod(&server).await;
    for (field, change) in [
        ("webhooks[0].name", json!({"name": "short"})),
        ("webhooks[0].sideEffects", json!({"sideEffects": "Some"})),
        ("webhooks[0].sideEffects", json!({"sideEffects": null})),
        ("webhooks[0].admissionReviewVersions", json!({"admissionReviewVersions": []})),
        ("webhooks[0].clientConfig", json!({"clientConfig": {}})),
        ("webhooks[0].timeoutSeconds", json!({"timeoutSeconds": 31})),
        (
            "webhooks[0].rules[0].resources",
            json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"]}]}),
        ),
        (
            "webhooks[0].rules[0].operations[0]",
            json!({"rules": [
            {"operations": ["READ"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}),
        ),
    ] {
        let mut wrong = webhook.clone();
        for (key, value) in change.as_object().unwrap() {
            wrong[key] = value.clone();
        }
        let object = json!({"metadata": {"name": "wrong"}, "webhooks": [wrong]});
        let answered = send(&server, "POST", &path("validatingwebhookconfigurations"), &object).await;
        assert_eq!(answered.code, 422, "{field}: {}", answered.body);
        assert_eq!(answered.body["details"]["causes"][0]["field"], field, "{}", answered.body);
    }
}

#[tokio::test]
async fn definitions_of_the_communitys_groups_say_whether_they_are_approved() {
    let server = ApiServer::new(Config::default());
    let of = |name: &str, group: &str, said: Option<&str>| {
        let mut definition = definition();
        definition["metadata"]["name"] = format!("{name}s.{group}").into();
        definition["spec"]["group"] = group.into();
        definition["spec"]["names"] = json!({"plural": format!("{name}s"), "kind": name.to_uppercase()});
        if let Some(said) = said {
            definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": said});
        }
        definition
    };
    for (name, said) in [("a", None), ("b", Some("yes"))] {
        let refused = send(&server, "POST", DEFINITIONS, &of(name, "new.k8s.io", said)).await;
        assert_eq!(refused.code, 422, "{}", refused.body);
        let field = &refused.body["details"]["causes"][0]["field"];
        assert_eq!(field, "metadata.annotations[api-approved.kubernetes.io]", "{}", refused.body);
    }
    for (name, group, said, expected) in [
        ("c", "new.k8s.io", Some("https://github.com/kubernetes/enhancements/pull/1"), Some("True ApprovedAnnotation")),
        ("d", "kubernetes.io", Some("unapproved, experimental"), Some("False UnapprovedAnnotation")),
        ("e", "new.x-k8s.io", None, None),
    ] {
        let made = send(&server, "POST", DEFINITIONS, &of(name, group, said)).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let conditions = made.body["status"]["conditions"].as_array().unwrap().clone();
        let found = conditions.iter().find(|one| one["type"] == "KubernetesAPIApprovalPolicyConformant");
        let found = found.map(|one| format!("{} {}", one["status"].as_str().unwrap(), one["reason"].as_str().unwrap()));
        assert_eq!(found.as_deref(), expected, "{group}");
    }
    // What was said stays said, and may not be taken back.
    let own = format!("{DEFINITIONS}/cs.new.k8s.io");
    let change = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": null}}});
    assert_eq!(send(&server, "PATCH", &own, &change).await.code, 422);
}

#[tokio::test]
async fn a_target_port_that_a_go_program_leaves_out_is_the_port() {
    let server = ApiServer::new(Config::default());
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"name": "a", "port": 80, "targetPort": 0}, {"name": "b", "port": 81, "targetPort": ""}]}});
    let made = send(&server, "POST", services, &service).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let targets = |service: &Value| [0, 1].map(|at| service["spec"]["ports"][at]["targetPort"].clone());
    assert_eq!(targets(&made.body), [80, 81]);
    let mut changed = made.body.clone();
    changed["spec"]["ports"][0]["targetPort"] = "http".into();
    changed["spec"]["ports"][1]["targetPort"] = 0.into();
    let changed = send(&server, "PUT", &format!("{services}/s"), &changed).await;
    assert_eq!((changed.code, targets(&changed.body)), (200, [json!("http"), json!(81)]));
}

/// A field of a message in protobuf.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[tokio::test]
async fn a_deletion_in_protobuf_has_conditions_and_grace_as_one_in_json() {
    let server = ApiServer::new(Config::default());
    let version = pod(&server).await;
    let path = format!("{PODS}/p");
    let uid = send(&server, "GET", &path, &Value::Null).await.body["metadata"]["uid"].as_str().unwrap().to_owned();
    let delete = async |uid: &str, version: &str| {
        let conditions = field(2, &[field(1, uid.as_bytes()), field(2, version.as_bytes())].concat());
        let options = [vec![1 << 3, 7], conditions].concat();
        let types = [field(1, b"v1"), field(2, b"DeleteOptions")].concat();
        let body = [b"k8s\0".to_vec(), field(1, &types), field(2, &options)].concat();
        send_as(&server, "DELETE", &path, ("application/vnd.kubernetes.protobuf", body.into())).await
    };
    assert_eq!(delete(&uid, "1").await.code, 409);
    assert_eq!(delete("other", &version).await.code, 409);
    let deleted = delete(&uid, &version).await;
    assert_eq!((deleted.code, &deleted.body["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(7)));
}

#[tokio::test]
async fn pods_have_the_zone_and_region_of_their_node() {
    let server = ApiServer::new(Config::default());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {
        "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "team": "a"}}});
    assert_eq!(send(&server, "POST", "/api/v1/nodes", &node).await.code, 201);
    let made = async |server: &ApiServer, name: &str, labels: Value, node: Option<&str>| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
        }
        let made = send(server, "POST", PODS, &pod).await;
        assert_eq!(made.code, 201, "{}", made.body);
        made.body["metadata"]["labels"].clone()
    };
    let bound = async |server: &ApiServer, name: &str, labels: Value, node: &str| {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "labels": labels},
            "target": {"kind": "Node", "name": node}});
        let answered = send(server, "POST", &format!("{PODS}/{name}/binding"), &binding).await;
        assert_eq!(answered.code, 201, "{}", answered.body);
        send(server, "GET", &format!("{PODS}/{name}"), &Value::Null).await.body["metadata"]["labels"].clone()
    };
    let own = json!({"topology.kubernetes.io/zone": "mine", "app": "s"});
    let theirs = json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "app": "s"});
    assert_eq!(made(&server, "a", own.clone(), None).await, own);
    assert_eq!(bound(&server, "a", json!({"topology.kubernetes.io/zone": "of the binding"}), "n").await, theirs);
    assert_eq!(made(&server, "b", own.clone(), Some("n")).await, theirs);
    // What a scheduler says where the node says nothing is taken over.
    made(&server, "c", json!({"app": "s"}), None).await;
    let said = json!({"topology.kubernetes.io/zone": "z2", "x": "y"});
    let all = json!({"topology.kubernetes.io/zone": "z2", "x": "y", "app": "s"});
    assert_eq!(bound(&server, "c", said, "no-such-node").await, all);
    // Where the plugin is off, nodes are not asked.
    let admission = Admission { pod_topology_labels: false, ..Admission::default() };
    let server = ApiServer::new(Config { admission, ..Config::default() });
    assert_eq!(send(&server, "POST", "/api/v1/nodes", &node).await.code, 201);
    made(&server, "a", own.clone(), None).await;
    assert_eq!(bound(&server, "a", json!({}), "n").await, own);
}

#[tokio::test]
async fn a_custom_resource_that_does_not_say_how_many_it_wants_is_scaled() {
    let server = ApiServer::new(Config::default());
    let mut definition = definition();
    let number = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let version = &mut definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": number, "status": number});
    version["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    assert_eq!(send(&server, "POST", DEFINITIONS, &definition).await.code, 201);
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    assert_eq!(send(&server, "POST", things, &thing).await.code, 201);
    let scale = format!("{things}/a/scale");
    assert_eq!(send(&server, "GET", &scale, &Value::Null).await.code, 500);
    let scaled = send(&server, "PATCH", &scale, &json!({"spec": {"replicas": 4}})).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(4)), "{}", scaled.body);
    let thing = send(&server, "GET", &format!("{things}/a"), &Value::Null).await.body;
    assert_eq!(thing["spec"], json!({"replicas": 4}));
}

#[tokio::test]
async fn a_pod_with_limits_of_its_own_requests_what_its_containers_do_or_its_limits() {
    let server = ApiServer::new(Config::default());
    let limits = json!({"cpu": "2", "memory": "1Gi"});
    let containers = |requests: Value| {
        json!([{"name": "c", "image": "i", "resources": {"requests": requests}},
        {"name": "d", "image": "i", "resources": {"requests": requests}}])
    };
    for (name, own, requests, expected, class) in [
        ("limits", json!({"limits": limits}), json!({}), limits.clone(), "Guaranteed"),
        (
            "sum",
            json!({"limits": limits}),
            json!({"cpu": "300m"}),
            json!({"cpu": "600m", "memory": "1Gi"}),
            "Burstable",
        ),
        (
            "own",
            json!({"limits": limits, "requests": {"cpu": "1"}}),
            json!({"cpu": "300m"}),
            json!({"cpu": "1", "memory": "1Gi"}),
            "Burstable",
        ),
        ("requests", json!({"requests": {"cpu": "1"}}), json!({}), json!({"cpu": "1"}), "Burstable"),
    ] {
        let pod = json!({"metadata": {"name": name}, "spec": {"resources": own, "containers": containers(requests)}});
        let made = send(&server, "POST", PODS, &pod).await;
        assert_eq!(made.code, 201, "{name}: {}", made.body);
        assert_eq!(made.body["spec"]["resources"]["requests"], expected, "{name}");
        assert_eq!(made.body["status"]["qosClass"], class, "{name}");
    }
}

#[tokio::test]
async fn ports_of_a_network_policy_are_of_tcp() {
    let server = ApiServer::new(Config::default());
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{}, {"protocol": "UDP"}]}], "egress": [{"ports": [{"port": 1}]}]}});
    let made = send(&server, "POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &policy).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let spec = &made.body["spec"];
    assert_eq!(spec["ingress"][0]["ports"], json!([{"protocol": "TCP"}, {"protocol": "UDP"}]));
    assert_eq!(spec["egress"][0]["ports"], json!([{"port": 1, "protocol": "TCP"}]));
}

#[tokio::test]
async fn what_a_limit_range_refuses_of_several_containers_alike_is_said_once() {
    let server = ApiServer::new(Config::default());
    let limits = json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Gi"}}]);
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": limits}});
    send(&server, "POST", "/api/v1/namespaces/default/limitranges", &range).await;
    let refused = async |cpus: [&str; 2]| {
        let container =
            |(name, cpu)| json!({"name": name, "image": "i", "resources": {"limits": {"cpu": cpu, "memory": "2Gi"}}});
        let containers: Vec<Value> = ["a", "b"].into_iter().zip(cpus).map(container).collect();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
        send(&server, "POST", PODS, &pod).await.body["message"].as_str().unwrap().to_owned()
    };
    let of = |cpu: &str| format!("maximum cpu usage per Container is 1, but limit is {cpu}");
    let forbidden = |why: &str| format!("pods \"p\" is forbidden: {why}");
    assert_eq!(refused(["2", "2"]).await, forbidden(&of("2")));
    assert_eq!(refused(["2", "3"]).await, forbidden(&format!("[{}, {}]", of("2"), of("3"))));
}
