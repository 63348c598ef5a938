//! Distils the OpenAPI v3 and discovery documents of one version of Kubernetes into the data file of `berth-apiserver`.
//!
//! The file holds, for the API groups in [`GROUP_VERSIONS`], every schema in canonical order and the resources with their
//! verbs and names. [`canonical`] is idempotent, so the committed file can be checked without the documents.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

pub mod go;

/// The version of Kubernetes that is served.
pub const VERSION: &str = "v1.35.4";
/// The version of the `k8s.io/api` modules that belongs to it.
pub const MODULE_VERSION: &str = "v0.35.4";

/// The group versions that are served; the core group has an empty name.
pub const GROUP_VERSIONS: &[(&str, &str)] = &[
    ("", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("apiregistration.k8s.io", "v1"),
    ("apps", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v1"),
    ("autoscaling", "v2"),
    ("batch", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
];

/// The data from a Go module cache (`go env GOMODCACHE`) that holds the modules named in the README.
pub fn from_module_cache(cache: &Path) -> Result<Value> {
    let root = cache.join(format!("k8s.io/kubernetes@{VERSION}/api"));
    let types = go::Types::read(cache)?;
    let mut schemas = BTreeMap::new();
    let mut groups = Vec::new();
    for (group, version) in GROUP_VERSIONS {
        let stem = if group.is_empty() { format!("api__{version}") } else { format!("apis__{group}__{version}") };
        let document = read_json(&root.join(format!("openapi-spec/v3/{stem}_openapi.json")))?;
        let found = document.pointer("/components/schemas").and_then(Value::as_object);
        for (name, schema) in found.with_context(|| format!("{stem}: components.schemas must be an object"))? {
            schemas.entry(name.clone()).or_insert_with(|| {
                let mut schema = schema.clone();
                types.mark(name, &mut schema);
                schema
            });
        }
        let discovery = read_json(&root.join(format!("discovery/{stem}.json")))?;
        let resources = discovery.get("resources").cloned().with_context(|| format!("{stem}: no resources"))?;
        groups.push(json!({"name": group, "version": version, "resources": resources}));
    }
    Ok(canonical(json!({"version": VERSION, "groups": groups, "schemas": schemas})))
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))
}

/// The data in the one form that is committed: keys in order, references without their path, no trailing noise.
pub fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let mut out = BTreeMap::new();
            for (key, value) in entries {
                let value = match value {
                    Value::String(text) if key == "$ref" => {
                        Value::String(text.trim_start_matches("#/components/schemas/").to_owned())
                    }
                    Value::Array(items) if key == "allOf" && items.len() == 1 => {
                        // The only use of allOf in these documents: a reference that has a default or a description.
                        if let Some(Value::Object(only)) = items.into_iter().next() {
                            for (key, value) in only {
                                out.insert(key, canonical_reference(value));
                            }
                        }
                        continue;
                    }
                    other => canonical(other),
                };
                out.insert(key, value);
            }
            Value::Object(out.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(canonical).collect()),
        other => other,
    }
}

fn canonical_reference(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.trim_start_matches("#/components/schemas/").to_owned()),
        other => other,
    }
}

/// The compressed bytes of the data file. Reproducible: no name and no time in the header.
pub fn compress(data: &Value) -> Result<Vec<u8>> {
    let mut encoder = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::best());
    encoder.write_all(serde_json::to_string(data)?.as_bytes())?;
    Ok(encoder.finish()?)
}

/// The data in compressed bytes.
pub fn decompress(bytes: &[u8]) -> Result<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).context("decompress")?;
    serde_json::from_str(&text).context("parse")
}
