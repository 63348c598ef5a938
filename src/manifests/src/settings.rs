//! Files of settings: one YAML document of a kind of their own, read as strictly as manifests.

use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ManifestError, Problem};
use crate::locate::{Position, locate};
use crate::options::{MAX_OBJECT_BYTES, Source};
use crate::path::shorten;
use crate::{typed, value};

/// A file of settings: one YAML or JSON document with `apiVersion` and `kind` that is no object of a cluster. What is wrong
/// with it is told with file, field and line.
#[derive(Debug, Clone)]
pub struct Settings {
    file: Arc<str>,
    kind: &'static str,
    text: String,
}

// === impl Settings ===

impl Settings {
    /// Reads a file; its text is read by [`parse`](Self::parse).
    ///
    /// # Errors
    /// The file cannot be read, or is no UTF-8.
    pub fn open(path: &Path, kind: &'static str) -> Result<Self, ManifestError> {
        let name = path.display().to_string();
        let text = crate::read_text(path)
            .map_err(|error| ManifestError::of_file(name.as_str(), format!("cannot be read: {error}")))?;
        Ok(Self::new(&name, kind, &text))
    }

    /// A text that stands in for a file.
    pub fn new(file: &str, kind: &'static str, text: &str) -> Self {
        Self { file: Arc::from(file), kind, text: text.trim_start_matches('\u{feff}').to_owned() }
    }

    /// The settings as a type.
    ///
    /// # Errors
    /// No YAML, another kind or version, an unknown field, or a value that the type does not take.
    pub fn parse<T: DeserializeOwned>(&self, api_version: &str) -> Result<T, ManifestError> {
        let most = self.text.len().max(MAX_OBJECT_BYTES);
        let value = value::from_yaml(&self.text, most).map_err(|error| {
            let is_one_of_many = error.message.starts_with("multiple YAML documents");
            let problem = Problem::of_object(if is_one_of_many {
                "found a second document, expected one: what stands before --- is no part of it".to_owned()
            } else {
                format!("not valid YAML: {}", error.message)
            });
            ManifestError::of_document(self.source(), None, error.position, vec![problem])
        })?;
        if !value.is_object() {
            return Err(self.fault(vec![Problem::of_object(format!("expected a {}", self.kind))]));
        }
        for (field, expected) in [("kind", self.kind), ("apiVersion", api_version)] {
            let found = value.get(field).and_then(Value::as_str).unwrap_or_default();
            if found != expected {
                let found = shorten(found);
                return Err(self.fault(vec![Problem::new(field, format!("found {found:?}, expected {expected}"))]));
            }
        }
        let unknown = |field: typed::UnknownField| {
            let hint = match field.nearest {
                Some(nearest) => format!("unknown field: did you mean {nearest}?"),
                None => format!("unknown field: a {} has none of this name here", self.kind),
            };
            Problem::new(field.path, hint)
        };
        let (object, unknown_fields, misfit) = match typed::deserialize::<T>(&value) {
            Ok(read) => (Some(read.object), read.unknown_fields, None),
            // What is misspelt comes first: it may be what is missing.
            Err(misfit) => (None, misfit.unknown_fields, Some(missing_is_a_field(misfit.problem))),
        };
        let problems: Vec<Problem> = unknown_fields.into_iter().map(unknown).chain(misfit).collect();
        match object {
            Some(object) if problems.is_empty() => Ok(object),
            _ => Err(self.fault(problems)),
        }
    }

    /// What is wrong with fields of it, with their lines. `problems` is not empty.
    pub fn fault(&self, mut problems: Vec<Problem>) -> ManifestError {
        for problem in &mut problems {
            if problem.place.is_none() && !problem.path.is_empty() {
                problem.place = locate(&self.text, &problem.path).map(Box::new);
            }
        }
        ManifestError::of_document(self.source(), Some(self.kind.to_owned()), None, problems)
    }

    /// A fault in an object that stands in the field at `path` of this file.
    pub fn fault_at(&self, path: &str, fault: &ManifestError) -> ManifestError {
        let under = |problem: &Problem| {
            let dot = if problem.path.is_empty() || problem.path.starts_with('[') { "" } else { "." };
            let of = fault.object().map(|object| format!("{object}: ")).unwrap_or_default();
            Problem::new(format!("{path}{dot}{}", problem.path), format!("{of}{}", problem.message))
        };
        self.fault(fault.problems().iter().map(under).collect())
    }

    /// Where a field stands, as `file:line`; the file alone where that cannot be told.
    pub fn place(&self, path: &str) -> String {
        match locate(&self.text, path) {
            Some(Position { line, .. }) => format!("{}:{line}", self.file),
            None => self.file.to_string(),
        }
    }

    fn source(&self) -> Source {
        Source { file: Arc::clone(&self.file), document: 1, item: None, line: 1 }
    }
}

/// serde tells of a missing field at what should have it.
fn missing_is_a_field(problem: Problem) -> Problem {
    let missing = problem.message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    let Some(name) = missing else { return problem };
    let mut path = problem.path.clone();
    crate::path::push_key(&mut path, name);
    Problem::new(path, "is missing, and has no default")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Some {
        #[allow(dead_code)]
        api_version: String,
        #[allow(dead_code)]
        kind: String,
        #[allow(dead_code)]
        list: Vec<u32>,
    }

    #[test]
    fn mistakes_name_file_field_and_line() {
        let read = |text: &str| {
            let text = format!("apiVersion: v1\nkind: Some\n{text}");
            Settings::new("some.yaml", "Some", &text).parse::<Some>("v1").unwrap_err().to_string()
        };
        let negative = read("list:\n- 1\n- -2\n");
        assert!(negative.contains("list[1]") && negative.contains("some.yaml:5:3"), "{negative}");
        assert!(negative.contains("found integer `-2`, expected a whole number, 0 or more"), "{negative}");
        let second = read("list: []\n---\nlist: []\n");
        assert!(second.contains("found a second document, expected one"), "{second}");
        let unknown = read("list: []\nlisst: 1\n");
        assert!(unknown.contains("lisst: unknown field: did you mean list?"), "{unknown}");
        assert!(unknown.contains("some.yaml:4:"), "{unknown}");
    }

    /// The regression: the missing field alone was told, without a line.
    #[test]
    fn a_misspelt_field_is_told_before_the_one_that_is_missing_for_it() {
        let text = "apiVersion: v1\nkind: Some\nlits: []\n";
        let told = Settings::new("some.yaml", "Some", text).parse::<Some>("v1").unwrap_err();
        let problems: Vec<String> =
            told.problems().iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
        assert_eq!(problems, ["lits: unknown field: did you mean list?", "list: is missing, and has no default"]);
        assert!(told.to_string().contains("some.yaml:3:"), "{told}");
        let lines: Vec<_> = told.problems().iter().map(|problem| problem.place.as_ref().map(|at| at.line)).collect();
        assert!(lines.iter().all(Option::is_some), "{lines:?}");
    }

    #[test]
    fn a_fault_of_an_object_within_is_told_where_it_stands() {
        let text = "apiVersion: v1\nkind: Some\nlist:\n- spec:\n    a: 1\n";
        let settings = Settings::new("some.yaml", "Some", text);
        let inner = Settings::new("x", "Pod", "").fault(vec![Problem::new("spec.a", "expected text")]);
        let told = settings.fault_at("list[0]", &inner).to_string();
        assert!(told.contains("list[0].spec.a: Pod: expected text") && told.contains("some.yaml:5:"), "{told}");
    }
}
