//! The CustomResourceDefinitions as they are generated into crds/.

/// File name and YAML text of each CustomResourceDefinition, in order of name.
pub const CRDS: [(&str, &str); 0] = [];
