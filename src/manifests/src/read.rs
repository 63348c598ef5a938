//! From files to objects.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::document::Role;
use crate::error::ManifestError;
use crate::object::Object;
use crate::options::{Input, Options, Source, Validate};
use crate::parse::{Outcome, add_places};
use crate::pipeline;
use crate::split::Documents;

/// Warnings that are kept; the rest is counted.
const KEPT_WARNINGS: usize = 100;

/// Faults that are kept; the rest is counted.
const KEPT_FAULTS: usize = 20;

/// Files that an error lists.
const LISTED_FILES: usize = 5;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Objects delivered.
    pub objects: u64,
    /// Objects of kinds that planning does not need, by (API group, kind): other built-in kinds,
    /// and foreign groups. The core group is the empty string.
    pub skipped: BTreeMap<(String, String), u64>,
    /// Files of folders that hold no Kubernetes object, in the order in which they were read.
    pub foreign: Vec<String>,
    /// Unknown fields under [`Validate::Warn`](crate::Validate::Warn), and those that the API server keeps whatever they
    /// are; the first hundred.
    pub warnings: Vec<ManifestError>,
    /// All warnings, counted by object.
    pub n_warnings: u64,
}

/// Reads inputs in their order and delivers each object. Goes on after what is wrong, to tell it together, and stops at
/// the callback's first error.
///
/// Fails with a [`ManifestError`] where a file cannot be read, holds no object, or holds one that
/// is malformed, of an unknown kind or version, too large, or invalid. Files of folders that hold no Kubernetes object
/// at all are passed over and listed, as long as the folder has one that does.
pub fn read<E, F>(inputs: &[Input], options: &Options, mut deliver: F) -> Result<Summary, E>
where
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let mut reader = Reader::new(options);
    for input in inputs {
        match input {
            Input::Stdin => match reader.stream("standard input", io::stdin(), &mut deliver)? {
                Holds::Objects => {}
                Holds::None(error) => reader.fault(error),
            },
            Input::Path(path) => reader.path(path, &mut deliver)?,
            Input::Text { name, text, is_of_server } => {
                let validate = if *is_of_server { Validate::Ignore } else { options.validate };
                let lenient = Options { validate, ..options.clone() };
                let of_file = std::mem::replace(&mut reader.options, lenient);
                let holds = reader.stream(name, text.as_slice(), &mut deliver)?;
                reader.options = of_file;
                if let Holds::None(error) = holds {
                    reader.fault(error);
                }
            }
        }
    }
    Ok(reader.finish()?)
}

/// Reads one stream, which errors call `name`, as [`read`] does.
pub fn read_from<R, E, F>(name: &str, reader: R, options: &Options, mut deliver: F) -> Result<Summary, E>
where
    R: Read,
    E: From<ManifestError>,
    F: FnMut(Source, Object) -> Result<(), E>,
{
    let mut of_stream = Reader::new(options);
    if let Holds::None(error) = of_stream.stream(name, reader, &mut deliver)? {
        of_stream.fault(error);
    }
    Ok(of_stream.finish()?)
}

/// The same fault, with the places of its problems in the file, if that can be read again: what is found wrong with an
/// object after it was delivered is told by its fields alone.
pub fn with_places(mut fault: ManifestError, options: &Options) -> ManifestError {
    let Some(source) = fault.source_document().cloned() else { return fault };
    let Ok(file) = File::open(&*source.file) else { return fault };
    let mut documents = Documents::new(Arc::clone(&source.file), file, options.max_object_bytes);
    while let Ok(Some(document)) = documents.next_document() {
        let is_item = document.source.item.is_none() || document.source.item == source.item;
        if document.source.document == source.document && is_item && document.role != Role::Envelope {
            add_places(&document, &source, fault.problems_mut());
            break;
        }
    }
    fault
}

/// What is being read: the summary so far, and what is wrong so far.
struct Reader {
    options: Options,
    summary: Summary,
    faults: Vec<ManifestError>,
    n_faults: usize,
}

/// What a stream holds.
enum Holds {
    Objects,
    /// No Kubernetes object, and why that is an error where one was expected.
    None(ManifestError),
}

// === impl Reader ===

impl Reader {
    fn new(options: &Options) -> Self {
        Reader { options: options.clone(), summary: Summary::default(), faults: Vec::new(), n_faults: 0 }
    }

    fn fault(&mut self, error: ManifestError) {
        self.n_faults += 1;
        if self.faults.len() < KEPT_FAULTS {
            self.faults.push(error);
        }
    }

    fn finish(self) -> Result<Summary, ManifestError> {
        match ManifestError::several(self.faults, self.n_faults) {
            Some(error) => Err(error),
            None => Ok(self.summary),
        }
    }

    fn warn(&mut self, warning: ManifestError) {
        self.summary.n_warnings += 1;
        if self.summary.warnings.len() < KEPT_WARNINGS {
            self.summary.warnings.push(warning);
        }
    }

    fn path<E, F>(&mut self, path: &Path, deliver: &mut F) -> Result<(), E>
    where
        F: FnMut(Source, Object) -> Result<(), E>,
    {
        let (files, is_folder) = match files(path, self.options.recursive) {
            Ok(found) => found,
            Err(error) => {
                self.fault(error);
                return Ok(());
            }
        };
        let n_files = files.len();
        let mut foreign = Vec::new();
        for path in files {
            let name = path.display().to_string();
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) => {
                    self.fault(unreadable(&path, &error));
                    continue;
                }
            };
            match self.stream(&name, file, deliver)? {
                Holds::Objects => {}
                Holds::None(_) if is_folder => foreign.push(name),
                Holds::None(error) => self.fault(error),
            }
        }
        if foreign.len() == n_files {
            let listed: Vec<&str> = foreign.iter().take(LISTED_FILES).map(String::as_str).collect();
            let rest = if n_files > listed.len() { ", …" } else { "" };
            let listed = listed.join(", ");
            let is_built = foreign.iter().any(|file| is_kustomization(Path::new(file)));
            let hint = if is_built { "; it holds a kustomization, which -k builds" } else { "" };
            let message = format!("none of its {n_files} files holds a Kubernetes object: {listed}{rest}{hint}");
            self.fault(ManifestError::of_file(path.display().to_string(), message));
        }
        self.summary.foreign.extend(foreign);
        Ok(())
    }

    /// Delivers the objects of one stream.
    fn stream<R, E, F>(&mut self, name: &str, reader: R, deliver: &mut F) -> Result<Holds, E>
    where
        R: Read,
        F: FnMut(Source, Object) -> Result<(), E>,
    {
        let options = self.options.clone();
        let documents = Documents::new(Arc::from(name), reader, options.max_object_bytes);
        let (mut foreign, mut has_objects): (Option<ManifestError>, bool) = (None, false);
        let n_documents = pipeline::run(documents, &options, |outcome| {
            if !matches!(outcome, Outcome::Foreign(_)) {
                has_objects = true;
                if let Some(error) = foreign.take() {
                    self.fault(error);
                }
            }
            match outcome {
                Outcome::Object { source, object, warning } => {
                    if let Some(warning) = warning {
                        self.warn(warning);
                    }
                    self.summary.objects += 1;
                    deliver(source, object)?;
                }
                Outcome::PassedOver { group, kind } => *self.summary.skipped.entry((group, kind)).or_default() += 1,
                Outcome::Fault(error) => self.fault(error),
                Outcome::Foreign(error) if has_objects => self.fault(error),
                Outcome::Foreign(error) => {
                    foreign.get_or_insert(error);
                }
            }
            Ok(())
        })?;
        if n_documents == 0 {
            let message = "holds no object, expected at least one YAML or JSON document";
            return Ok(Holds::None(ManifestError::of_file(name, message)));
        }
        Ok(foreign.map_or(Holds::Objects, Holds::None))
    }
}

/// The file itself, or the manifests of a folder by name; and whether it is a folder.
fn files(path: &Path, recursive: bool) -> Result<(Vec<PathBuf>, bool), ManifestError> {
    let unreadable = |error: io::Error| unreadable(path, &error);
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok((vec![path.to_owned()], false));
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let file = entry.path();
            if recursive && entry.file_type().map_err(unreadable)?.is_dir() {
                folders.push(file);
                continue;
            }
            let extension = file.extension().and_then(|extension| extension.to_str());
            if matches!(extension, Some("json" | "yaml" | "yml")) && !file.is_dir() {
                files.push(file);
            }
        }
    }
    if files.is_empty() {
        let message = if recursive {
            "holds no manifest, expected *.yaml, *.yml or *.json in it"
        } else {
            "holds no manifest, expected *.yaml, *.yml or *.json in this folder (-R reads the folders in it, too)"
        };
        return Err(ManifestError::of_file(path.display().to_string(), message));
    }
    files.sort_unstable();
    Ok((files, true))
}

fn unreadable(path: &Path, error: &io::Error) -> ManifestError {
    ManifestError::of_file(path.display().to_string(), format!("cannot be read: {error}"))
}

/// Whether a file is what kustomize looks for in a folder, by its name.
pub fn is_kustomization(path: &Path) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    matches!(name, Some("kustomization.yaml" | "kustomization.yml" | "Kustomization"))
}
