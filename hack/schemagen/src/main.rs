//! Brings the data file of `berth-apiserver` up to date from a Go module cache.

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let cache = std::env::args_os().nth(1).map(PathBuf::from).context("usage: berth-schemagen GOMODCACHE")?;
    let data = berth_schemagen::from_module_cache(&cache)?;
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../src/apiserver/data/kubernetes.json.gz");
    std::fs::write(&path, berth_schemagen::compress(&data)?).with_context(|| format!("write {}", path.display()))
}
