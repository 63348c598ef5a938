//! From files to objects.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::ManifestError;
use crate::object::Object;
use crate::options::{Input, Options, Source};
use crate::parse::Outcome;
use crate::pipeline;
use crate::split::Documents;

/// Warnings that are kept; the rest is counted.
const KEPT_WARNINGS: usize = 100;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Objects delivered.
    pub objects: u64,
    /// Objects of kinds that planning does not need, by (API group, kind): other built-in kinds,
    /// and foreign groups. The core group is the empty string.
    pub skipped: BTreeMap<(String, String), u64>,
    /// Unknown fields under [`Validate::Warn`](crate::Validate::Warn), the first hundred.
    pub warnings: Vec<ManifestError>,
    /// All warnings, counted by object.
    pub n_warnings: u64,
}

/// Reads inputs in their order and delivers each object. Stops at the first bad document or at
/// the callback's first error.
///
/// Fails with a [`ManifestError`] where a file cannot be read, holds no object, or holds one that
/// is malformed, of an unknown kind or version, too large, or invalid.
pub fn read<E, F>(inputs: &[Input], options: &Options, mut deliver: F) -> Result<Summary, E>
where
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let mut summary = Summary::default();
    for input in inputs {
        match input {
            Input::Stdin => {
                stream("standard input", io::stdin(), options, &mut summary, &mut deliver)?;
            }
            Input::Path(path) => {
                for path in files(path)? {
                    let name = path.display().to_string();
                    let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
                    stream(&name, file, options, &mut summary, &mut deliver)?;
                }
            }
        }
    }
    Ok(summary)
}

/// Reads one stream, which errors call `name`, as [`read`] does.
pub fn read_from<R, E, F>(name: &str, reader: R, options: &Options, mut deliver: F) -> Result<Summary, E>
where
    R: Read,
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let mut summary = Summary::default();
    stream(name, reader, options, &mut summary, &mut deliver)?;
    Ok(summary)
}

fn stream<R, E, F>(name: &str, reader: R, options: &Options, summary: &mut Summary, deliver: &mut F) -> Result<(), E>
where
    R: Read,
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let documents = Documents::new(Arc::from(name), reader, options.max_object_bytes);
    let n_documents = pipeline::run(documents, options, |outcome| match outcome {
        Outcome::Object { source, object, warning } => {
            if let Some(warning) = warning {
                summary.n_warnings += 1;
                if summary.warnings.len() < KEPT_WARNINGS {
                    summary.warnings.push(warning);
                }
            }
            summary.objects += 1;
            deliver(source, object)
        }
        Outcome::PassedOver { group, kind } => {
            *summary.skipped.entry((group, kind)).or_default() += 1;
            Ok(())
        }
    })?;
    if n_documents == 0 {
        let message = "holds no object, expected at least one YAML or JSON document";
        return Err(ManifestError::of_file(name, message).into());
    }
    Ok(())
}

/// The file itself, or the manifests of a folder by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let unreadable = |error: io::Error| unreadable(path, &error);
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("json" | "yaml" | "yml")) && !file.is_dir() {
            files.push(file);
        }
    }
    if files.is_empty() {
        let message = "holds no manifest, expected *.yaml, *.yml or *.json in this folder";
        return Err(ManifestError::of_file(path.display().to_string(), message));
    }
    files.sort_unstable();
    Ok(files)
}

fn unreadable(path: &Path, error: &io::Error) -> ManifestError {
    ManifestError::of_file(path.display().to_string(), format!("cannot be read: {error}"))
}
