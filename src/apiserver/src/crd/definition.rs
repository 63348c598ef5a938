//! CustomResourceDefinitions themselves: defaults, validation, and what they establish.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::structural::{self, Structural};
use super::{CustomResource, ScalePaths, Served, VersionSchema, approval};
use crate::meta::{self, list_at, text_at};
use crate::schema::{Schemas, builtin};
use crate::status::Cause;
use crate::verbs::set_condition;

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
    validate_after(crd, None)
}

fn validate_after(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
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
    let stored = list_at(crd, &["status", "storedVersions"]);
    if stored.iter().all(|version| version == "") {
        causes.push(Cause::invalid("status.storedVersions", &json!([]), "must have at least one stored version"));
    }
    for (index, version) in stored.iter().enumerate().filter(|(_, version)| **version != "") {
        if !versions.iter().any(|known| known.get("name") == Some(version)) {
            let name = version.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            causes.push(Cause::invalid(format!("status.storedVersions[{index}]"), version, &why));
        }
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
    causes.extend(approval::validate(crd, old));
    causes
}

/// What is wrong with the change of a definition: where its objects are stored, and what they are, stays.
pub(crate) fn validate_change(crd: &Value, old: &Value) -> Vec<Cause> {
    let is_established = is_established(old);
    let paths: [(&[&str], bool); 4] = [
        (&["spec", "scope"], is_established),
        (&["spec", "names", "kind"], is_established),
        (&["spec", "group"], true),
        (&["spec", "names", "plural"], true),
    ];
    let changed = paths.into_iter().filter(|(path, stays)| *stays && meta::at(crd, path) != meta::at(old, path));
    let mut causes: Vec<Cause> = changed
        .map(|(path, _)| {
            Cause::invalid(path.join("."), meta::at(crd, path).unwrap_or(&Value::Null), "field is immutable")
        })
        .collect();
    // That the name is another's follows from that, and is not told.
    let is_renamed = !causes.is_empty();
    causes.splice(
        0..0,
        validate_after(crd, Some(old)).into_iter().filter(|cause| !is_renamed || cause.field != "metadata.name"),
    );
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
    if flag("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{path}.uniqueItems"), why));
    }
    check_conditions(schema, path, flag("x-kubernetes-int-or-string"), causes);
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

/// The conditions of a schema (`allOf`, `anyOf`, `oneOf`, `not`) only say more about what it has.
fn check_conditions(schema: &Value, path: &str, is_int_or_string: bool, causes: &mut Vec<Cause>) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        for (at, part) in schema.get(junctor).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let both = json!([{"type": "integer"}, {"type": "string"}]);
            // How clients know an integer or a string.
            let is_known = is_int_or_string
                && match junctor {
                    "anyOf" => schema.get("anyOf") == Some(&both),
                    "allOf" => at == 0 && *part == json!({"anyOf": both}),
                    _ => false,
                };
            if !is_known {
                check_condition(part, &format!("{path}.{junctor}[{at}]"), causes);
            }
        }
    }
    if let Some(part) = schema.get("not") {
        check_condition(part, &format!("{path}.not"), causes);
    }
}

fn check_condition(part: &Value, path: &str, causes: &mut Vec<Cause>) {
    let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && value.as_str() != Some("");
    for (field, why) in [
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("title", "must be empty to be structural"),
        ("type", "must be empty to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ] {
        if part.get(field).is_some_and(is_set) {
            causes.push(Cause::forbidden(format!("{path}.{field}"), why));
        }
    }
    for (name, child) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_condition(child, &format!("{path}.properties[{name}]"), causes);
    }
    if let Some(items) = part.get("items") {
        check_condition(items, &format!("{path}.items"), causes);
    }
    check_conditions(part, path, false, causes);
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

/// The names that the other definitions of a group have.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Plurals, singulars and short names.
    names: BTreeSet<String>,
    /// Kinds, and those of their lists.
    kinds: BTreeSet<String>,
}

impl Taken {
    pub(crate) fn by<'c>(others: impl Iterator<Item = &'c CustomResource>) -> Self {
        let mut out = Self::default();
        for other in others {
            out.names.extend([&other.plural, &other.singular].into_iter().chain(&other.short_names).cloned());
            out.kinds.extend([&other.kind, &other.list_kind].into_iter().cloned());
        }
        out
    }
}

/// Sets the status of a definition: whether its names are accepted, and with that it is established and served. What was
/// accepted stays so.
pub(crate) fn establish(crd: &mut Value, taken: &Taken, now: &str) {
    let mut accepted =
        meta::at(crd, &["status", "acceptedNames"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let names = meta::at(crd, &["spec", "names"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut conflict = None;
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &taken.names),
        ("singular", "SingularConflict", &taken.names),
        ("shortNames", "ShortNamesConflict", &taken.names),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let asked = names.get(field);
        let texts =
            asked.into_iter().flat_map(|asked| asked.as_array().map_or(std::slice::from_ref(asked), Vec::as_slice));
        let in_use = texts.filter_map(Value::as_str).find(|text| taken.contains(*text));
        match in_use.filter(|_| accepted.get(field) != asked) {
            Some(text) => conflict = Some((reason, format!("{text:?} is already in use"))),
            None => match asked {
                Some(asked) => drop(accepted.insert(field.to_owned(), asked.clone())),
                None => drop(accepted.remove(field)),
            },
        }
    }
    match names.get("categories") {
        Some(categories) => drop(accepted.insert("categories".to_owned(), categories.clone())),
        None => drop(accepted.remove("categories")),
    }
    let is_accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
    };
    let mut stored = list_at(crd, &["status", "storedVersions"]).to_vec();
    let storage = Value::from(storage_version(crd));
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    let was_established = is_established(crd);
    if let Some(status) = meta::object_mut(crd, &["status"]) {
        status.insert("acceptedNames".to_owned(), accepted.into());
        status.insert("storedVersions".to_owned(), stored.into());
    }
    set_condition(crd, &condition("NamesAccepted", is_accepted, reason, &message));
    if is_accepted {
        let message = "the initial names have been accepted";
        set_condition(crd, &condition("Established", true, "InitialNamesAccepted", message));
    } else if !was_established {
        set_condition(crd, &condition("Established", false, "NotAccepted", "not all names are accepted"));
    }
    if let Some(condition) = approval::condition(crd, now) {
        set_condition(crd, &condition);
    }
}

fn is_established(crd: &Value) -> bool {
    list_at(crd, &["status", "conditions"])
        .iter()
        .any(|condition| text_at(condition, &["type"]) == "Established" && text_at(condition, &["status"]) == "True")
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

fn deprecation(crd: &Value, version: &Value) -> Option<String> {
    (version.get("deprecated") == Some(&Value::Bool(true))).then_some(())?;
    let own = version.get("deprecationWarning").and_then(Value::as_str).filter(|text| !text.is_empty());
    let usual = || {
        let (group, kind) = (text_at(crd, &["spec", "group"]), text_at(crd, &["spec", "names", "kind"]));
        format!("{group}/{} {kind} is deprecated", text_at(version, &["name"]))
    };
    Some(own.map_or_else(usual, str::to_owned))
}

/// The resources of a definition's served versions; none before it is established.
pub(crate) fn resources(crd: &Value) -> Served {
    if !is_established(crd) {
        return Served::new();
    }
    let storage_version = storage_version(crd);
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema_of = |version: &Value| version.pointer("/schema/openAPIV3Schema").unwrap_or(&free).clone();
    let all = list_at(crd, &["spec", "versions"]);
    let read = |version: &Value| {
        let (name, schema) = (text_at(version, &["name"]), schema_of(version));
        let form = form_of(name, &schema);
        VersionSchema { name: name.into(), form, schema: Arc::new(Structural::read(&schema, true)) }
    };
    let known: Arc<[VersionSchema]> = all.iter().map(read).collect();
    // A definition without a storage version is refused.
    let Some(storage) = known.iter().find(|version| *version.name == *storage_version) else { return Served::new() };
    let (stored_form, stored) = (storage.form, storage.schema.clone());
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
            let schema = schema_of(version);
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
                stored_form,
                versions: known.clone(),
                stored: (text_at(version, &["name"]) != storage_version).then(|| stored.clone()),
                warning: deprecation(crd, version),
                terminating: crate::verbs::is_terminating(crd),
                has_status: version.pointer("/subresources/status").is_some(),
                scale,
                columns: list_at(version, &["additionalPrinterColumns"]).to_vec(),
                selectable_fields: selectable.map(|field| text_at(field, &["jsonPath"]).to_owned()).collect(),
                structural: known
                    .iter()
                    .find(|known| *known.name == *text_at(version, &["name"]))
                    .map_or_else(|| stored.clone(), |known| known.schema.clone()),
                kind,
                schema,
                schemas,
                root,
            })
        })
        .collect()
}
