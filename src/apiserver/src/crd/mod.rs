//! Custom resources: the kinds that a CustomResourceDefinition declares at run time.

mod approval;
mod definition;
mod structural;

use std::sync::Arc;

use serde_json::Value;

use self::structural::Structural;
use crate::schema::{SchemaId, Schemas, Typed};
use crate::status::Cause;

pub(crate) use definition::{Taken, establish, finish, resources, validate, validate_change};

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
    /// A hash of the schema and its version.
    pub(crate) form: u64,
    /// That of the version in which objects are stored, by which those that were written under another schema are told.
    pub(crate) stored_form: u64,
    /// What requests for the version are told, where it is on its way out.
    pub(crate) warning: Option<String>,
    /// Whether the definition is being deleted, so that no more objects may come.
    pub(crate) terminating: bool,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Value>,
    /// JSON paths, such as `.spec.color`.
    pub(crate) selectable_fields: Vec<String>,
    /// `openAPIV3Schema`.
    pub(crate) schema: Value,
    schemas: Schemas,
    root: SchemaId,
    structural: Arc<Structural>,
    /// The schema in which objects are stored, where it is another version's.
    stored: Option<Arc<Structural>>,
    /// All versions of the definition.
    versions: Arc<[VersionSchema]>,
}

/// The schema of a version: objects stay stored in the one that was the storage version when they were written.
struct VersionSchema {
    name: Box<str>,
    form: u64,
    schema: Arc<Structural>,
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
        let metadata = self.typed().child("metadata");
        structural::prune(object, &self.structural, true, metadata, &mut String::new(), &mut unknown);
        unknown
    }

    /// Brings an object into the form in which it is stored: what the schema of the version that is stored does not know is
    /// lost, as with the real server.
    pub(crate) fn store(&self, object: &mut Value) {
        if let Some(stored) = &self.stored {
            self.shape(object, stored);
        }
    }

    /// Makes of an object that was stored in a version, under a schema of this form, what this version shows of it.
    pub(crate) fn show(&self, object: &mut Value, stored_in: &str, form: u64) {
        match self.versions.iter().find(|version| &*version.name == stored_in) {
            Some(version) if version.form == form => {}
            Some(version) => self.shape(object, &version.schema),
            None => self.shape(object, self.stored.as_deref().unwrap_or(&self.structural)),
        }
        if stored_in != self.version {
            self.prune(object);
        }
    }

    fn shape(&self, object: &mut Value, schema: &Structural) {
        let metadata = self.typed().child("metadata");
        structural::prune(object, schema, true, metadata, &mut String::new(), &mut Vec::new());
        structural::default(object, schema);
        structural::drop_nulls(object, schema);
    }

    /// Fills in the defaults of the schema, and drops nulls of fields that may not be null.
    pub(crate) fn default(&self, object: &mut Value) {
        self.default_beside_nulls(object);
        structural::drop_nulls(object, &self.structural);
    }

    /// Fills in the defaults of the schema. Other nulls stay, and are found to be of the wrong type.
    pub(crate) fn default_beside_nulls(&self, object: &mut Value) {
        structural::default(object, &self.structural);
    }

    /// Fills in the defaults of what was taken from an object since it was read: those of its status.
    pub(crate) fn default_again(&self, object: &mut Value) {
        if self.structural.has_defaults() {
            self.default_beside_nulls(object);
        }
    }

    /// What is wrong with an object, by schema and rules.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind != self.kind {
            causes.push(Cause::invalid("kind", &kind.into(), &format!("must be {}", self.kind)));
        }
        structural::validate(object, &self.structural, old, &mut String::new(), &mut causes);
        if !self.structural.has_rules() {
            return causes;
        }
        let blocks = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        if causes.iter().any(|cause| blocks.iter().any(|end| cause.reason.ends_with(end))) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            causes.push(Cause::invalid("<nil>", &Value::Null, why));
            return causes;
        }
        structural::check_rules(object, &self.structural, old, &mut causes);
        causes
    }
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

#[cfg(test)]
mod tests;
