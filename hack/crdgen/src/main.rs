//! Brings `crds/` up to date; an argument names another folder.

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let folder = std::env::args_os().nth(1).map_or(default, PathBuf::from);
    for file in berth_crdgen::files()? {
        let path = folder.join(&file.name);
        std::fs::write(&path, file.text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
