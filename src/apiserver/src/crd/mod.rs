//! Custom resources: the kinds that a CustomResourceDefinition declares at run time.

mod definition;
mod structural;

use std::sync::Arc;

use kube_cel::{CompiledSchema, compile_schema};
use kube_cel::{RootContext, Validator};
use serde_json::Value;

use crate::schema::{SchemaId, Schemas, Typed};
use crate::status::Cause;

pub(crate) use definition::{establish, finish, resources, validate};

/// One version of a custom resource.
pub(crate) struct CustomResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) storage_version: String,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Value>,
    /// JSON paths, such as `.spec.color`.
    pub(crate) selectable_fields: Vec<String>,
    /// `openAPIV3Schema`.
    pub(crate) schema: Value,
    schemas: Schemas,
    root: SchemaId,
    rules: Option<(Validator, CompiledSchema)>,
}

/// Where the scale subresource reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    pub(crate) spec: Vec<String>,
    pub(crate) status: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

impl std::fmt::Debug for CustomResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CustomResource({}.{}/{})", self.plural, self.group, self.version)
    }
}

// === impl CustomResource ===

impl CustomResource {
    pub(crate) fn typed(&self) -> Typed<'_> {
        self.schemas.get(self.root)
    }

    /// Removes unknown fields, and names them.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        structural::prune(object, &self.schema, true, &mut String::new(), &mut unknown);
        unknown
    }

    /// Fills in the defaults of the schema.
    pub(crate) fn default(&self, object: &mut Value) {
        structural::default(object, &self.schema);
    }

    /// What is wrong with an object, by schema and rules.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind != self.kind {
            causes.push(Cause::invalid("kind", &kind.into(), &format!("must be {}", self.kind)));
        }
        structural::validate(object, &self.schema, "", &mut causes);
        let Some((validator, compiled)) = &self.rules else { return causes };
        let blocks = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        if causes.iter().any(|cause| blocks.iter().any(|end| cause.reason.ends_with(end))) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            causes.push(Cause::invalid("<nil>", &Value::Null, why));
            return causes;
        }
        let context = RootContext {
            api_version: crate::resource::api_version(&self.group, &self.version),
            api_group: self.group.clone(),
            kind: self.kind.clone(),
        };
        let Err(errors) = validator.validate_compiled_with_context(compiled, object, old, Some(&context)) else {
            return causes;
        };
        causes.extend(errors.into_vec().into_iter().map(|error| {
            let field = if error.field_path.is_empty() { "<nil>".to_owned() } else { error.field_path.clone() };
            let value = structural::value_at(object, &error.field_path);
            rule_cause(field, value, &error.message, error.reason.as_deref())
        }));
        causes
    }
}

fn rule_cause(field: String, value: Option<&Value>, message: &str, reason: Option<&str>) -> Cause {
    match reason {
        Some("FieldValueForbidden") => Cause::forbidden(field, message),
        Some("FieldValueRequired") => Cause::required(field, message),
        Some("FieldValueDuplicate") => Cause::duplicate(field, value.unwrap_or(&Value::Null)),
        _ => {
            // Maps and lists are not printed.
            match value {
                Some(Value::Object(_) | Value::Array(_)) | None => {
                    let message = format!("Invalid value: {message}");
                    Cause { reason: "FieldValueInvalid", message, field }
                }
                Some(other) => Cause::invalid(field, other, message),
            }
        }
    }
}

/// Compiles the rules of a schema, where it has any.
fn compile_rules(schema: &Value) -> Option<(Validator, CompiledSchema)> {
    fn has_rules(schema: &Value) -> bool {
        match schema {
            Value::Object(map) => map.contains_key("x-kubernetes-validations") || map.values().any(has_rules),
            Value::Array(items) => items.iter().any(has_rules),
            _ => false,
        }
    }
    has_rules(schema).then(|| (Validator::new(), compile_schema(schema)))
}

/// Sorts versions as `kubectl` prefers them: v2 over v1 over v1beta1 over v1alpha1 over anything else.
pub(crate) fn version_priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return other };
    let none = || std::cmp::Reverse(String::new());
    if rest.is_empty() {
        return (3, major, 0, none());
    }
    for (rank, name) in [(2, "beta"), (1, "alpha")] {
        if let Some(minor) = rest.strip_prefix(name).and_then(|minor| minor.parse().ok()) {
            return (rank, major, minor, none());
        }
    }
    other
}

/// The resources of all served versions, made ready.
pub(crate) type Served = Vec<Arc<CustomResource>>;
