//! What to read and how strictly.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest single object that is read, in bytes: 3 MiB, as the API server's request limit.
/// A `List` may be of any size; each of its items has this limit.
pub const MAX_OBJECT_BYTES: usize = 3 * 1024 * 1024;

/// One value of `-f`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, or a folder, of which `*.json`, `*.yaml` and `*.yml` are read, sorted by name and
    /// not recursively unless [`Options::recursive`] says so, as kubectl does.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// What somebody has read already.
    Text {
        /// What it is called, in place of a file.
        name: String,
        /// Manifests as in a file.
        text: Vec<u8>,
        /// Whether an API server wrote it: fields that its kinds do not have here are those of a newer version, and dropped.
        is_of_server: bool,
    },
}

impl Input {
    /// `-` is standard input, anything else a path.
    pub fn from_arg(arg: &str) -> Self {
        if arg == "-" { Self::Stdin } else { Self::Path(arg.into()) }
    }
}

/// What becomes of fields that the object's type does not have, as `kubectl --validate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// An unknown field is an error.
    #[default]
    Strict,
    /// An unknown field is a warning in [`Summary::warnings`](crate::Summary::warnings).
    Warn,
    /// Unknown fields are dropped silently.
    Ignore,
}

/// How to read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What to do about unknown fields.
    pub validate: Validate,
    /// The largest single object, in bytes; by default [`MAX_OBJECT_BYTES`].
    pub max_object_bytes: usize,
    /// Parse on rayon's current pool (the default) or, if false, on the calling thread alone. The
    /// result is the same.
    pub parallel: bool,
    /// Deliver ConfigMaps, too, which are passed over otherwise: a node class may take its instance types from one.
    pub config_maps: bool,
    /// Read the folders in folders, too; links to folders are not followed.
    pub recursive: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            validate: Validate::default(),
            max_object_bytes: MAX_OBJECT_BYTES,
            parallel: true,
            config_maps: false,
            recursive: false,
        }
    }
}

/// Where an object comes from. Displays as `deploy.yaml: document 3` or
/// `pods.json: document 1, items[7]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The path as it was given, or `standard input`.
    pub file: Arc<str>,
    /// Number of the document in the file, from 1. Documents with only comments count where `---`
    /// opens them.
    pub document: u64,
    /// Index from 0 if the object is an item of a `List`.
    pub item: Option<u64>,
    /// The line of the file on which the document or item begins, from 1.
    pub line: u64,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        match self.item {
            Some(item) => write!(f, ", items[{item}]"),
            None => Ok(()),
        }
    }
}
