//! Random clusters, the same for the same seed.

use serde_json::Value;

/// How large a random case is, and how far its features go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Size {
    /// A handful of pods and types, and only what Karpenter's own scheduler supports: for use with it as an oracle.
    Tiny,
    /// Tens of pods, every feature.
    Small,
    /// Hundreds of pods, every feature.
    Medium,
}

/// A cluster to plan for.
#[derive(Clone, Debug)]
pub struct Case {
    /// Kubernetes objects, one value each, valid for a reader that refuses unknown fields.
    pub objects: Vec<Value>,
    /// The instance catalogue, in the shape of Karpenter's KWOK provider.
    pub catalogue: Value,
}

/// A random cluster; the same seed and size always give the same case, to the byte.
pub fn random_case(seed: u64, size: Size) -> Case {
    let _ = (seed, size);
    Case {
        objects: Vec::new(),
        catalogue: Value::Array(Vec::new()),
    }
}
