//! The types of objects: what fields there are, how lists and maps merge, what is filled in and what is left out.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde_json::Value;

mod builtin;
pub(crate) mod decode;
mod load;

pub(crate) use builtin::{Data, builtin};

/// A place in a [`Schemas`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchemaId(u32);

impl SchemaId {
    /// No place at all: what is looked up there can be anything.
    pub(crate) const MISSING: Self = Self(u32::MAX);
}

/// A set of schemas that refer to each other.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    nodes: Vec<Schema>,
    names: BTreeMap<String, SchemaId>,
}

/// One type.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    /// The name of the Go type, such as `PodSpec`; empty for an unnamed one.
    pub(crate) name: String,
    pub(crate) shape: SchemaType,
}

/// What a value of a type looks like.
#[derive(Debug, Clone)]
pub(crate) enum SchemaType {
    /// Anything; merged by what it is.
    Any,
    Struct(Struct),
    Map {
        value: SchemaId,
        atomic: bool,
    },
    List {
        item: SchemaId,
        kind: ListKind,
    },
    Scalar(Scalar),
}

/// An object with known fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Struct {
    pub(crate) fields: IndexMap<String, Field, FxBuildHasher>,
    /// The names of those with a default.
    pub(crate) defaulted: Box<[String]>,
    pub(crate) atomic: bool,
    /// Unknown fields are kept, as `x-kubernetes-preserve-unknown-fields` asks.
    pub(crate) preserve_unknown: bool,
}

/// The scalar types, by how they are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    String,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Int32,
    Int64,
    Number,
    Bool,
}

/// How items of a list are told apart when it is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// A field of a [`Struct`].
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) schema: SchemaId,
    /// What is filled in where the field is missing.
    pub(crate) default: Option<Value>,
    /// The field is left out where it is zero.
    pub(crate) omit_zero: bool,
    pub(crate) required: bool,
    pub(crate) patch: Patch,
    /// The number in protobuf; of an embedded field with those that lead to it.
    pub(crate) proto: Box<[u64]>,
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patch {
    pub(crate) merge: bool,
    pub(crate) merge_key: Option<String>,
}

/// A schema with the set it lives in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Typed<'a> {
    schemas: &'a Schemas,
    schema: &'a Schema,
}

/// What stands in for the type of an unknown field.
static ANY: Schema = Schema { name: String::new(), shape: SchemaType::Any };

// === impl Schemas ===

impl Schemas {
    /// The type of a name, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) fn named(&self, name: &str) -> Option<Typed<'_>> {
        self.names.get(name).map(|id| self.get(*id))
    }

    pub(crate) fn get(&self, id: SchemaId) -> Typed<'_> {
        let schema = usize::try_from(id.0).ok().and_then(|at| self.nodes.get(at)).unwrap_or(&ANY);
        Typed { schemas: self, schema }
    }
}

// === impl Typed ===

impl<'a> Typed<'a> {
    pub(crate) fn name(self) -> &'a str {
        &self.schema.name
    }

    pub(crate) fn shape(self) -> &'a SchemaType {
        &self.schema.shape
    }

    pub(crate) fn get(self, id: SchemaId) -> Self {
        self.schemas.get(id)
    }

    pub(crate) fn any(self) -> Self {
        Typed { schemas: self.schemas, schema: &ANY }
    }

    /// The field of a struct.
    pub(crate) fn field(self, name: &str) -> Option<&'a Field> {
        match self.shape() {
            SchemaType::Struct(object) => object.fields.get(name),
            _ => None,
        }
    }

    /// The type below a key of an object, whatever the kind of object.
    pub(crate) fn child(self, name: &str) -> Self {
        match self.shape() {
            SchemaType::Struct(object) => object.fields.get(name).map_or(self.any(), |field| self.get(field.schema)),
            SchemaType::Map { value, .. } => self.get(*value),
            _ => self.any(),
        }
    }

    /// The type of a list's items.
    pub(crate) fn item(self) -> Self {
        match self.shape() {
            SchemaType::List { item, .. } => self.get(*item),
            _ => self.any(),
        }
    }

    /// The type at a path of field names.
    #[cfg(test)]
    pub(crate) fn at(self, path: &[&str]) -> Self {
        path.iter().fold(self, |typed, name| typed.child(name))
    }
}
