//! The pinned data of Kubernetes' own kinds, unpacked once a process.

use std::io::Read;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Schemas, Typed};

static BYTES: &[u8] = include_bytes!("../../data/kubernetes.json.gz");

/// The unpacked data file.
#[derive(Debug)]
pub(crate) struct Data {
    /// Such as `v1.35.4`.
    pub(crate) version: String,
    /// Objects with `name`, `version` and `resources`, as in discovery.
    pub(crate) groups: Vec<Value>,
    /// The schemas as OpenAPI writes them, with bare names in `$ref`.
    pub(crate) raw: Map<String, Value>,
    pub(crate) schemas: Schemas,
}

// === impl Data ===

impl Data {
    /// The type of a kind. `DeleteOptions` and the like are of every group.
    pub(crate) fn kind(&'static self, group: &str, version: &str, kind: &str) -> Option<Typed<'static>> {
        let is_it = |schema: &Value| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            kinds.into_iter().flatten().any(|gvk| {
                let has = |key: &str, value: &str| gvk.get(key).and_then(Value::as_str) == Some(value);
                has("group", group) && has("version", version) && has("kind", kind)
            })
        };
        let suffix = format!(".{kind}");
        let (name, _) = self.raw.iter().find(|(name, schema)| name.ends_with(&suffix) && is_it(schema))?;
        self.schemas.named(name)
    }
}

/// The pinned data. The file is part of the build and held to its generator by a test, so it unpacks.
pub(crate) fn builtin() -> &'static Data {
    static DATA: LazyLock<Data> = LazyLock::new(|| {
        let mut text = Vec::new();
        // A file that does not unpack leaves a server without kinds: every test would say so.
        let read = flate2::read::GzDecoder::new(BYTES).read_to_end(&mut text);
        let mut value: Value = read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let raw = match value.get_mut("schemas").map(Value::take) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let groups = match value.get_mut("groups").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let version = value.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
        let schemas = Schemas::from_openapi(&raw);
        Data { version, groups, raw, schemas }
    });
    &DATA
}
