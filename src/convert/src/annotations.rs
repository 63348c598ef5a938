//! Annotations whose values are JSON.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::Problem;

/// The value of an annotation; `None` where it is not set. A value that cannot be read is a problem at
/// `metadata.annotations[key]`, which says what was expected, as in `example`.
pub(crate) fn read<T: DeserializeOwned>(
    annotations: Option<&BTreeMap<String, String>>,
    key: &str,
    example: &str,
) -> Result<Option<T>, Problem> {
    let Some(text) = annotations.and_then(|all| all.get(key)) else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|error| at(key, format!("{error}; expected JSON such as {example}")))
}

/// A problem with an annotation.
pub(crate) fn at(key: &str, message: impl Into<String>) -> Problem {
    Problem::new(format!("metadata.annotations[{key}]"), message)
}
