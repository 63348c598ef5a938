//! Patches of the client: JSON patch, JSON merge patch, and strategic merge patch.

mod strategic;

use serde_json::Value;

use crate::schema::Typed;
use crate::status::{ApiError, Cause, Result};

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
        let patch: json_patch::Patch = serde_json::from_value(value)
            .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
        if patch.0.len() > MAX_OPERATIONS {
            let message =
                format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}", patch.0.len());
            return Err(ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}")));
        }
        Ok(Self::Json(patch))
    }

    /// The object with the patch applied.
    pub(crate) fn apply(&self, object: &Value, typed: Typed<'_>) -> Result<Value> {
        let mut out = object.clone();
        match self {
            Self::Json(patch) => apply_operations(&mut out, patch)?,
            Self::Merge(patch) => json_patch::merge(&mut out, patch),
            Self::Strategic(patch) => strategic::merge(&mut out, patch, typed)
                .map_err(|why| ApiError::invalid("", "", "", &[Cause::invalid("patch", patch, &why)]))?,
        }
        Ok(out)
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
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|_| ApiError::unprocessable())?;
    }
    Ok(())
}
