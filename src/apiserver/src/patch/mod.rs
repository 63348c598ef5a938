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
/// The most bytes of JSON that the copies of one patch may make together, as the real server has it: each may hold those
/// before it, so that they double.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// How deep an operation may reach. Bodies are read to a depth of 128, and what walks objects calls itself at each level.
const MAX_DEPTH: usize = 512;

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

    /// The fields of an object that it may change; `None`: any.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        let (Self::Merge(Value::Object(fields)) | Self::Strategic(Value::Object(fields))) = self else { return None };
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        // Directives may be about others.
        names.iter().all(|name| !name.starts_with('$')).then_some(names)
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
    let mut left = MAX_COPIED;
    for operation in &patch.0 {
        left = left.checked_sub(copied_bytes(object, operation)?).ok_or_else(ApiError::unprocessable)?;
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

/// How many bytes an operation copies. One that would make an object that is too deep is refused.
fn copied_bytes(object: &Value, operation: &json_patch::PatchOperation) -> Result<usize> {
    use json_patch::PatchOperation;

    let (from, is_copy) = match operation {
        PatchOperation::Copy(copy) => (Some(copy.from.as_str()), true),
        PatchOperation::Move(moved) => (Some(moved.from.as_str()), false),
        _ => (None, false),
    };
    let extent = from.and_then(|from| object.pointer(from)).map_or_else(Extent::default, Extent::of);
    if operation.path().count() + extent.depth > MAX_DEPTH {
        return Err(ApiError::unprocessable());
    }
    Ok(if is_copy { extent.bytes } else { 0 })
}

/// How large a value is.
#[derive(Default)]
struct Extent {
    /// About how many bytes it is as JSON.
    bytes: usize,
    /// How many lists and maps are in one another.
    depth: usize,
}

// === impl Extent ===

impl Extent {
    fn of(value: &Value) -> Self {
        let (beside, inner): (usize, Vec<Self>) = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => return Self { bytes: 4, depth: 0 },
            Value::String(text) => return Self { bytes: text.len() + 2, depth: 0 },
            Value::Array(values) => (values.len(), values.iter().map(Self::of).collect()),
            Value::Object(fields) => {
                (fields.keys().map(|key| key.len() + 4).sum(), fields.values().map(Self::of).collect())
            }
        };
        Self {
            bytes: 2 + beside + inner.iter().map(|own| own.bytes).sum::<usize>(),
            depth: 1 + inner.iter().map(|own| own.depth).max().unwrap_or(0),
        }
    }
}
