//! Patches of the client: JSON patch, JSON merge patch, and strategic merge patch.

mod strategic;

use serde_json::Value;

use crate::schema::Typed;
use crate::status::{ApiError, Result};

/// A patch that was read.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

/// More operations than this are refused, as by the real server.
const MAX_OPERATIONS: usize = 10_000;

impl Patch {
    /// Reads a JSON patch.
    pub(crate) fn json(value: Value) -> Result<Self> {
        if !value.is_array() {
            return Err(ApiError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                go_kind(&value)
            )));
        }
        // What is no operation is refused where it would be applied.
        let patch: json_patch::Patch = serde_json::from_value(value).map_err(|_| ApiError::unprocessable())?;
        if patch.0.len() > MAX_OPERATIONS {
            let message =
                format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}", patch.0.len());
            return Err(ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}")));
        }
        Ok(Self::Json(patch))
    }

    /// Reads a merge patch, strategic or not.
    pub(crate) fn map(value: Value, is_strategic: bool) -> Result<Self> {
        if !value.is_object() {
            let why =
                format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", go_kind(&value));
            let before = if is_strategic { "" } else { "error decoding patch: " };
            return Err(ApiError::bad_request(format!("{before}{why}")));
        }
        Ok(if is_strategic { Self::Strategic(value) } else { Self::Merge(value) })
    }

    /// The object with the patch applied.
    pub(crate) fn apply(&self, object: &Value, typed: Typed<'_>) -> Result<Value> {
        let mut out = object.clone();
        match self {
            Self::Json(patch) => apply_operations(&mut out, patch)?,
            Self::Merge(patch) => json_patch::merge(&mut out, patch),
            Self::Strategic(patch) => strategic::merge(&mut out, patch, typed).map_err(ApiError::unexpected)?,
        }
        Ok(out)
    }
}

/// What Go's decoder calls the kind of a value.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Applies the operations in their order. As there, a test for null holds where nothing is; kube's finalizers rely on it.
fn apply_operations(object: &mut Value, patch: &json_patch::Patch) -> Result<()> {
    for operation in &patch.0 {
        if let json_patch::PatchOperation::Test(test) = operation
            && test.value.is_null()
            && object.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        // A member that is not there is replaced like one that is null.
        if let json_patch::PatchOperation::Replace(replace) = operation
            && let Some((parent, member)) = replace.path.split_back()
            && let Some(Value::Object(map)) = object.pointer_mut(parent.as_str())
        {
            map.entry(member.decoded()).or_insert(Value::Null);
        }
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|_| ApiError::unprocessable())?;
    }
    Ok(())
}
