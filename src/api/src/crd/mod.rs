//! The CustomResourceDefinitions of the kinds, made from the types and a table of rules for each kind.
//!
//! The types give structure and descriptions; the rules add patterns, ranges, defaults and CEL rules at the paths of
//! fields, with the values that Karpenter's and Koordinator's users know; names and columns come last.

mod kinds;
mod rules;
mod structural;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::{GoDuration, NillableDuration};

/// A CustomResourceDefinition and the name of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Crd {
    /// The file name by controller-gen's convention, `<group>_<plural>.yaml`.
    pub file_name: String,
    /// The definition, as `apiextensions.k8s.io/v1` has it.
    pub definition: Value,
}

/// A rule is written for a field that its type does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} has no field at {path}, but a rule for it")]
pub struct UnknownField {
    /// The kind that the rule is for.
    pub kind: &'static str,
    /// Where the rule wants the field.
    pub path: String,
}

/// The CustomResourceDefinitions of every kind, in order of file name.
pub fn all() -> Result<Vec<Crd>, UnknownField> {
    let mut crds = kinds::all()?;
    crds.sort_by(|a, b| a.file_name.cmp(&b.file_name));
    Ok(crds)
}

/// Stands for an object that the API server keeps as it is, unchecked.
pub(crate) struct AnyObject;

impl JsonSchema for AnyObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
    }
}

macro_rules! written_as_string {
    ($($type:ident),*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    )*};
}

written_as_string!(GoDuration, NillableDuration);
