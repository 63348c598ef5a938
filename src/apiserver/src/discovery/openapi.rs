//! OpenAPI v3 documents for `kubectl explain`, apply and validation.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::resource::{Resource, api_version};
use crate::schema::builtin;
use crate::server::ApiServer;

const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl ApiServer {
    pub(super) fn openapi_index(&self) -> Value {
        let mut paths = Map::new();
        let registry = self.registry();
        for (group, versions) in registry.groups() {
            for version in versions {
                let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
                let hash = registry.hash_of(&group, &version);
                let url = format!("/openapi/v3/{path}?hash={hash:016X}");
                paths.insert(path, json!({"serverRelativeURL": url}));
            }
        }
        json!({"paths": paths})
    }

    pub(super) fn openapi_document(&self, path: &[&str]) -> Option<Bytes> {
        let (group, version) = match path {
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return None,
        };
        let registry = self.registry();
        if !registry.has_group_version(group, version) {
            return None;
        }
        let (mut schemas, mut paths) = (Map::new(), Map::new());
        for resource in registry.iter().filter(|resource| resource.group == group && resource.version == version) {
            let name = schema_name(resource);
            match resource.custom() {
                Some(custom) => {
                    schemas.insert(name.clone(), custom_schema(resource, &custom.schema));
                    take(OBJECT_META, &mut schemas);
                }
                None => take(&name, &mut schemas),
            }
            add_paths(resource, &name, &mut paths);
        }
        take("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", &mut schemas);
        let document = json!({
            "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": builtin().version},
            "paths": paths, "components": {"schemas": schemas}});
        Some(document.to_string().into())
    }
}

fn schema_name(resource: &Resource) -> String {
    resource.schema_name().map_or_else(
        || {
            let reversed: Vec<&str> = resource.group.rsplit('.').collect();
            format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
        },
        str::to_owned,
    )
}

/// Copies a schema and all that it refers to.
fn take(name: &str, out: &mut Map<String, Value>) {
    if out.contains_key(name) {
        return;
    }
    let Some(schema) = builtin().raw.get(name) else { return };
    out.insert(name.to_owned(), with_prefix(schema, REFERENCE));
    let mut found = Vec::new();
    references(schema, &mut found);
    for name in found {
        take(name, out);
    }
}

fn references<'s>(schema: &'s Value, out: &mut Vec<&'s str>) {
    match schema {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str) {
                out.push(name);
            }
            for value in map.values() {
                references(value, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                references(item, out);
            }
        }
        _ => {}
    }
}

/// The schema with full references, in `allOf` where more is said beside one.
fn with_prefix(schema: &Value, prefix: &str) -> Value {
    match schema {
        Value::Object(map) => {
            let is_reference = map.get("$ref").is_some_and(Value::is_string);
            let alone = is_reference && map.len() == 1;
            let mut out = Map::new();
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref", Value::String(name)) if alone => {
                        out.insert(key.clone(), format!("{prefix}{name}").into());
                    }
                    ("$ref", Value::String(name)) => {
                        out.insert("allOf".to_owned(), json!([{"$ref": format!("{prefix}{name}")}]));
                    }
                    ("x-go-omit-zero" | "x-proto", _) => {}
                    _ => {
                        out.insert(key.clone(), with_prefix(value, prefix));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| with_prefix(item, prefix)).collect()),
        other => other.clone(),
    }
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn custom_schema(resource: &Resource, schema: &Value) -> Value {
    let mut out = schema.clone();
    let text = |about: &str| json!({"type": "string", "description": about});
    if let Some(properties) = crate::meta::object_mut(&mut out, &["properties"]) {
        properties.insert(
            "apiVersion".to_owned(),
            text("APIVersion defines the versioned schema of this representation of an object."),
        );
        properties.insert(
            "kind".to_owned(),
            text("Kind is a string value representing the REST resource this object represents."),
        );
        let metadata = json!({"allOf": [{"$ref": format!("{REFERENCE}{OBJECT_META}")}],
                              "description": "Standard object's metadata."});
        properties.insert("metadata".to_owned(), metadata);
    }
    if let Some(map) = out.as_object_mut() {
        map.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind_of(resource)]));
    }
    out
}

/// The paths of a resource, with what clients look for there: kinds, schemas and query parameters.
fn add_paths(resource: &Resource, schema: &str, paths: &mut Map<String, Value>) {
    let root = if resource.group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{}", api_version(&resource.group, &resource.version))
    };
    let place = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let content = json!({"application/json": {"schema": {"$ref": format!("{REFERENCE}{schema}")}}});
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> =
            parameters.iter().map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}})).collect();
        let mut out = json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind_of(resource),
            "parameters": parameters, "responses": {"200": {"description": "OK", "content": content}}});
        if ["post", "put", "patch"].contains(&action)
            && let Some(map) = out.as_object_mut()
        {
            map.insert("requestBody".to_owned(), json!({"content": content}));
        }
        out
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let collection = format!("{root}{place}/{}", resource.plural);
    let mut whole = Map::new();
    for (verb, method, action) in
        [("list", "get", "list"), ("create", "post", "post"), ("deletecollection", "delete", "deletecollection")]
    {
        if resource.allows(verb) {
            whole.insert(method.to_owned(), operation(action, if method == "post" { &write } else { &[] }));
        }
    }
    paths.insert(collection.clone(), Value::Object(whole));
    let mut one = Map::new();
    for (verb, method, action) in
        [("get", "get", "get"), ("update", "put", "put"), ("patch", "patch", "patch"), ("delete", "delete", "delete")]
    {
        if resource.allows(verb) {
            let parameters: &[&str] = match method {
                "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
                "put" => &write,
                _ => &[],
            };
            one.insert(method.to_owned(), operation(action, parameters));
        }
    }
    paths.insert(format!("{collection}/{{name}}"), Value::Object(one));
}
