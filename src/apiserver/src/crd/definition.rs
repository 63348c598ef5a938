//! CustomResourceDefinitions themselves: defaults, validation, and what they establish.

use std::sync::Arc;

use serde_json::{Value, json};

use super::structural::{self, Structural};
use super::{CustomResource, ScalePaths, Served};
use crate::meta::{self, list_at, text_at};
use crate::schema::{Schemas, builtin};
use crate::status::Cause;

/// Fills in the names that a definition leaves out.
pub(crate) fn finish(crd: &mut Value) {
    let kind = text_at(crd, &["spec", "names", "kind"]).to_owned();
    if let Some(names) = meta::object_mut(crd, &["spec", "names"]) {
        meta::fill(names, "singular", kind.to_lowercase());
        meta::fill(names, "listKind", format!("{kind}List"));
    }
    if let Some(spec) = meta::object_mut(crd, &["spec"]) {
        meta::fill(spec, "conversion", json!({"strategy": "None"}));
    }
}

/// What is wrong with a definition.
pub(crate) fn validate(crd: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (group, plural) = (text_at(crd, &["spec", "group"]), text_at(crd, &["spec", "names", "plural"]));
    let wanted = format!("{plural}.{group}");
    if meta::name(crd) != wanted {
        let name = Value::from(meta::name(crd));
        causes.push(Cause::invalid("metadata.name", &name, "must be spec.names.plural+\".\"+spec.group"));
    }
    for (field, value) in [
        ("spec.group", group),
        ("spec.names.plural", plural),
        ("spec.names.kind", text_at(crd, &["spec", "names", "kind"])),
    ] {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if !group.is_empty() && !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &group.into(), "should be a domain with at least one dot"));
    }
    let scope = text_at(crd, &["spec", "scope"]);
    if !["Namespaced", "Cluster"].contains(&scope) {
        causes.push(Cause::not_supported("spec.scope", &scope.into(), &["Cluster", "Namespaced"]));
    }
    match text_at(crd, &["spec", "conversion", "strategy"]) {
        "" | "None" => {}
        strategy @ "Webhook" => {
            causes.push(Cause::not_supported("spec.conversion.strategy", &strategy.into(), &["None"]));
        }
        other => causes.push(Cause::not_supported("spec.conversion.strategy", &other.into(), &["None", "Webhook"])),
    }
    let versions = list_at(crd, &["spec", "versions"]);
    let stored = versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
    if versions.is_empty() {
        causes.push(Cause::required("spec.versions", "must have at least one version"));
    } else if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &Value::Array(versions.to_vec()), why));
    }
    if list_at(crd, &["status", "storedVersions"]).iter().all(|version| version == "") {
        causes.push(Cause::invalid("status.storedVersions", &json!([]), "must have at least one stored version"));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None => causes.push(Cause::required(path, "")),
            // The same schema of all versions is kept apart by the real server, and named so.
            Some(schema) => {
                let is_only = versions.iter().all(|version| version.pointer("/schema/openAPIV3Schema") == Some(schema));
                let path = if is_only { "spec.validation.openAPIV3Schema" } else { &path };
                let before = causes.len();
                check_schema(schema, path, true, &mut causes);
                // Rules of a schema that is none say nothing that helps.
                if causes.len() == before {
                    crate::cel::check_schema(schema, path, &mut causes);
                }
                if causes.len() == before {
                    check_defaults(schema, path, &mut causes);
                }
            }
        }
    }
    causes
}

fn check_schema(schema: &Value, path: &str, is_root: bool, causes: &mut Vec<Cause>) {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
    if is_root && text("type") != "object" {
        let value = Value::from(text("type"));
        causes.push(Cause::invalid(format!("{path}.type"), &value, "must be object at the root"));
    }
    let free = flag("x-kubernetes-preserve-unknown-fields") || flag("x-kubernetes-int-or-string");
    if !is_root && text("type").is_empty() && !free {
        causes.push(Cause::required(format!("{path}.type"), "must not be empty for specified object fields"));
    }
    if text("type") == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_some() {
        causes.push(Cause::forbidden(
            format!("{path}.additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && regex::Regex::new(pattern).is_err()
    {
        causes.push(Cause::invalid(format!("{path}.pattern"), &pattern.into(), "must be a valid regular expression"));
    }
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let meta_root = is_root && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
        check_schema(child, &format!("{path}.properties[{name}]"), meta_root && child.get("type").is_none(), causes);
    }
    if let Some(items) = schema.get("items") {
        check_schema(items, &format!("{path}.items"), false, causes);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        check_schema(values, &format!("{path}.additionalProperties"), false, causes);
    }
}

/// Lets all that is below a place with unknown fields have some too, as appliers see it.
fn spread(schema: &mut Value, is_free: bool) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    let Value::Object(map) = schema else { return };
    let is_free = is_free || map.get(PRESERVE) == Some(&Value::Bool(true));
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|child| spread(child, is_free));
    }
    for part in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(part) {
            spread(child, is_free);
        }
    }
    if is_free && map.get("type").is_some_and(|kind| kind == "object") && !map.contains_key("additionalProperties") {
        map.insert(PRESERVE.to_owned(), true.into());
    }
}

/// Defaults must keep to the schemas that they are of.
fn check_defaults(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = schema.get("default") {
        let path = format!("{path}.default");
        let known = Structural::read(schema, false);
        if structural::prune_copy(default, &known) == *default {
            structural::validate(default, &known, None, &mut path.clone(), causes);
            structural::check_rules_at(default, &known, &mut path.clone(), causes);
        } else {
            causes.push(Cause::invalid(path, default, "must not have unknown fields"));
        }
    }
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_defaults(child, &format!("{path}.properties[{name}]"), causes);
    }
    if let Some(items) = schema.get("items") {
        check_defaults(items, &format!("{path}.items"), causes);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        check_defaults(values, &format!("{path}.additionalProperties"), causes);
    }
}

/// Sets the status of a definition that is served: its names accepted, established.
pub(crate) fn establish(crd: &mut Value, now: &str) {
    let names = crd.pointer("/spec/names").cloned().unwrap_or_default();
    let storage = storage_version(crd);
    let mut conditions = list_at(crd, &["status", "conditions"]).to_vec();
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ] {
        if !conditions.iter().any(|condition| text_at(condition, &["type"]) == kind) {
            conditions.push(json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}));
        }
    }
    let mut stored = list_at(crd, &["status", "storedVersions"]).to_vec();
    let storage = Value::from(storage);
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    if let Some(status) = meta::object_mut(crd, &["status"]) {
        status.insert("acceptedNames".to_owned(), names);
        status.insert("conditions".to_owned(), conditions.into());
        status.insert("storedVersions".to_owned(), stored.into());
    }
}

fn storage_version(crd: &Value) -> String {
    let versions = list_at(crd, &["spec", "versions"]);
    let storage = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    storage.map(|version| text_at(version, &["name"]).to_owned()).unwrap_or_default()
}

/// Never 0, which is the form of built-in kinds.
fn form_of(version: &str, schema: &Value) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(version.as_bytes());
    hasher.write(schema.to_string().as_bytes());
    hasher.finish() | 1
}

/// The resources of a definition's served versions.
pub(crate) fn resources(crd: &Value) -> Served {
    let storage_version = storage_version(crd);
    let name = |field: &str| text_at(crd, &["spec", "names", field]).to_owned();
    let texts = |field: &str| -> Vec<String> {
        let list = list_at(crd, &["spec", "names", field]).iter();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let served = |version: &&Value| version.get("served").and_then(Value::as_bool).unwrap_or_default();
    let versions = list_at(crd, &["spec", "versions"]).iter().filter(served);
    versions
        .map(|version| {
            let kind = name("kind");
            let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or(free);
            let mut applied = schema.clone();
            spread(&mut applied, false);
            let (schemas, root) = Schemas::from_custom_resource(&builtin().raw, &kind, &applied);
            let path = |pointer: &str| {
                let text = version.pointer(pointer).and_then(Value::as_str)?;
                Some(text.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>())
            };
            let scale = path("/subresources/scale/specReplicasPath").map(|spec| ScalePaths {
                spec,
                status: path("/subresources/scale/statusReplicasPath").unwrap_or_default(),
                selector: path("/subresources/scale/labelSelectorPath"),
            });
            let selectable = list_at(version, &["selectableFields"]).iter();
            Arc::new(CustomResource {
                group: text_at(crd, &["spec", "group"]).to_owned(),
                version: text_at(version, &["name"]).to_owned(),
                plural: name("plural"),
                singular: name("singular"),
                list_kind: name("listKind"),
                short_names: texts("shortNames"),
                categories: texts("categories"),
                namespaced: text_at(crd, &["spec", "scope"]) == "Namespaced",
                storage_version: storage_version.clone(),
                form: form_of(text_at(version, &["name"]), &schema),
                terminating: crate::verbs::is_terminating(crd),
                has_status: version.pointer("/subresources/status").is_some(),
                scale,
                columns: list_at(version, &["additionalPrinterColumns"]).to_vec(),
                selectable_fields: selectable.map(|field| text_at(field, &["jsonPath"]).to_owned()).collect(),
                structural: Structural::read(&schema, true),
                kind,
                schema,
                schemas,
                root,
            })
        })
        .collect()
}
