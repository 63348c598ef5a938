//! Writes the CustomResourceDefinitions of `berth-api` as YAML files, one a kind.
//!
//! `cargo run -p berth-crdgen` brings `crds/` up to date; a test fails while it is not. This is the only user of
//! `berth-api`'s schemas, so that nothing else has to build them.

use anyhow::{Context, Result};

/// A file of `crds/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The name within the folder.
    pub name: String,
    /// The YAML text.
    pub text: String,
}

/// The files as they should be, in order of name.
pub fn files() -> Result<Vec<File>> {
    let render = |crd: berth_api::crd::Crd| {
        let text = serde_saphyr::to_string(&crd.definition).with_context(|| format!("write {}", crd.file_name))?;
        let header = "# Generated from src/api by `cargo run -p berth-crdgen`; do not edit.\n---\n";
        Ok(File { text: format!("{header}{}\n", text.trim_end()), name: crd.file_name })
    };
    berth_api::crd::all()?.into_iter().map(render).collect()
}
