//! Names of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{ConvertError, Problem};

/// kube-scheduler's default namespace and kubectl's.
const DEFAULT_NAMESPACE: &str = "default";

pub(crate) fn name_of<'a>(kind: &'static str, metadata: &'a ObjectMeta) -> Result<&'a str, ConvertError> {
    named(kind, metadata.name.as_deref())
}

pub(crate) fn named<'a>(kind: &'static str, name: Option<&'a str>) -> Result<&'a str, ConvertError> {
    name.filter(|name| !name.is_empty()).ok_or_else(|| {
        ConvertError::new(kind, "without a name", vec![Problem::new("metadata.name", "expected a name")])
    })
}

pub(crate) fn namespace_of(metadata: &ObjectMeta) -> &str {
    let namespace = metadata.namespace.as_deref().filter(|name| !name.is_empty());
    namespace.unwrap_or(DEFAULT_NAMESPACE)
}
