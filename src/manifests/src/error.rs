//! What is wrong with a manifest, and where.

use std::fmt;

use crate::locate::Position;
use crate::options::Source;

/// Problems of one object that are listed; the rest is counted.
const LISTED_PROBLEMS: usize = 10;

/// One thing wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as `spec.containers[0].resources.requests.cpu`; empty for the whole object.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
    /// Where the field, or what should hold it, stands in the file, as far as it is known.
    pub place: Option<Box<Position>>,
}

impl Problem {
    /// A problem at a field.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), place: None }
    }

    /// A problem of the object as a whole.
    pub(crate) fn of_object(message: impl Into<String>) -> Self {
        Self::new("", message)
    }
}

/// A manifest that cannot be read or that the API server would refuse.
///
/// Displays one line for each problem:
/// `deploy.yaml: document 3 (Deployment default/web): spec.replicas: found -1, expected …`.
#[derive(Clone, PartialEq, Eq)]
pub struct ManifestError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    place: Origin,
    object: Option<String>,
    position: Option<(u64, u64)>,
    problems: Vec<Problem>,
    /// What is wrong elsewhere, and how much more there is that is not kept.
    others: Vec<ManifestError>,
    n_more: usize,
}

#[derive(Clone, PartialEq, Eq)]
enum Origin {
    File(String),
    Document(Source),
}

impl ManifestError {
    /// An error about a whole file: it cannot be opened, or it holds no object.
    pub(crate) fn of_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            place: Origin::File(file.into()),
            object: None,
            position: None,
            problems: vec![Problem::of_object(message)],
            others: Vec::new(),
            n_more: 0,
        }))
    }

    /// An error about one document or item. `problems` is not empty.
    pub(crate) fn of_document(
        source: Source,
        object: Option<String>,
        position: Option<(u64, u64)>,
        problems: Vec<Problem>,
    ) -> Self {
        let (others, n_more) = (Vec::new(), 0);
        Self(Box::new(Inner { place: Origin::Document(source), object, position, problems, others, n_more }))
    }

    /// What is wrong at several places, in their order, as one error; `n_all` counts also what is not in the list. `None`
    /// where nothing is.
    pub fn several(faults: Vec<ManifestError>, n_all: usize) -> Option<Self> {
        let n_more = n_all.saturating_sub(faults.len());
        let mut faults = faults.into_iter();
        let mut first = faults.next()?;
        first.0.n_more += n_more;
        for mut fault in faults {
            let (others, n_more) = (std::mem::take(&mut fault.0.others), std::mem::take(&mut fault.0.n_more));
            first.0.others.push(fault);
            first.0.others.extend(others);
            first.0.n_more += n_more;
        }
        Some(first)
    }

    /// The first fault and those elsewhere, each as an error of its own.
    pub fn into_faults(mut self) -> (Vec<ManifestError>, usize) {
        let (others, n_more) = (std::mem::take(&mut self.0.others), std::mem::take(&mut self.0.n_more));
        let n_all = 1 + others.len() + n_more;
        (std::iter::once(self).chain(others).collect(), n_all)
    }

    /// An error that a later reading of a delivered object found, for callers of [`crate::read`]:
    /// it displays as this crate's own do. `kind` and `name` are those of the object.
    pub fn new(source: Source, kind: &str, name: &str, problems: Vec<Problem>) -> Self {
        Self::of_document(source, Some(format!("{kind} {name}")), None, problems)
    }

    /// The file as it was given.
    pub fn file(&self) -> &str {
        match &self.0.place {
            Origin::File(file) => file,
            Origin::Document(source) => &source.file,
        }
    }

    /// The document, unless the error is about the whole file.
    pub fn source_document(&self) -> Option<&Source> {
        match &self.0.place {
            Origin::File(_) => None,
            Origin::Document(source) => Some(source),
        }
    }

    /// `Pod default/web`, as far as it is known.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Its problems, for whoever finds out where they are.
    pub(crate) fn problems_mut(&mut self) -> &mut [Problem] {
        &mut self.0.problems
    }

    /// Line and column in the file, both from 1, where the parser has them.
    pub fn position(&self) -> Option<(u64, u64)> {
        self.0.position
    }

    /// All that is wrong; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, problem) in self.0.problems.iter().take(LISTED_PROBLEMS).enumerate() {
            if idx > 0 {
                f.write_str("\n")?;
            }
            match &self.0.place {
                Origin::File(file) => f.write_str(file)?,
                Origin::Document(source) => write!(f, "{source}")?,
            }
            if let Some(object) = &self.0.object {
                write!(f, " ({object})")?;
            }
            if let Some((line, column)) = self.0.position {
                write!(f, ", line {line}, column {column}")?;
            }
            if !problem.path.is_empty() {
                write!(f, ": {}", problem.path)?;
            }
            write!(f, ": {}", problem.message)?;
            if let Some(at) = &problem.place {
                let number = at.line.to_string();
                write!(f, "\n  --> {}:{}:{}\n  {number} | {}", self.file(), at.line, at.column, at.text)?;
            }
        }
        let n_unlisted = self.0.problems.len().saturating_sub(LISTED_PROBLEMS);
        if n_unlisted > 0 {
            write!(f, "\nand {n_unlisted} more in the same object")?;
        }
        for other in &self.0.others {
            write!(f, "\n{other}")?;
        }
        if self.0.n_more > 0 {
            write!(f, "\nand {} more objects with faults", self.0.n_more)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManifestError({self})")
    }
}

impl std::error::Error for ManifestError {}
