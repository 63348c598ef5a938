//! What is wrong with an object, and where in it.

use std::fmt;

/// One thing wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as `spec.containers[0].resources.requests[cpu]`; empty for the whole object.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { path: path.into(), message: message.into() }
    }

    /// The same problem seen from the object that holds `parent`.
    pub(crate) fn under(mut self, parent: impl fmt::Display) -> Self {
        self.path = if self.path.is_empty() {
            parent.to_string()
        } else if self.path.starts_with('[') {
            format!("{parent}{}", self.path)
        } else {
            format!("{parent}.{}", self.path)
        };
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// An object that cannot be converted. Displays one line for each problem:
/// `Deployment default/web: spec.replicas: found -1, expected …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConvertError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: &'static str,
    name: String,
    problems: Vec<Problem>,
}

impl ConvertError {
    /// An error about the object `name` (`namespace/name`) of a kind. `problems` is not empty.
    pub(crate) fn new(kind: &'static str, name: impl Into<String>, problems: Vec<Problem>) -> Self {
        ConvertError(Box::new(Inner { kind, name: name.into(), problems }))
    }

    /// The kind of the object, as manifests write it.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// The object, as `namespace/name` or `name`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What is wrong with it; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{} {}: {problem}", self.0.kind, self.0.name)?;
        }
        Ok(())
    }
}
