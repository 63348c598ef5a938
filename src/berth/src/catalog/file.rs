//! A file that is there whole, or as it was.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Puts a file in place of another by renaming it, so that no reader finds half of it.
pub(super) fn replace(file: &Path, text: &[u8]) -> Result<()> {
    let mut name = file.file_name().context(format!("{}: expected the name of a file", file.display()))?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = file.with_file_name(name);
    let written = File::create(&beside).and_then(|mut out| {
        out.write_all(text)?;
        out.sync_all()
    });
    written
        .and_then(|()| fs::rename(&beside, file))
        .inspect_err(|_| {
            // What is left of it is of no use to anyone.
            let _ = fs::remove_file(&beside);
        })
        .with_context(|| format!("unable to write {}", file.display()))
}
