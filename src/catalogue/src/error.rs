//! What is wrong with a catalogue, and where.

use std::fmt;

/// The catalogue cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// The text is neither JSON nor YAML, is not UTF-8, or is empty.
    #[error("unable to read {file}: {message}")]
    Syntax {
        /// The file, as the caller names it.
        file: String,
        /// What the parser says, with line and column where it knows them.
        message: String,
    },
    /// A field does not hold what it should.
    #[error("{file}: {place}: expected {expected}, found {found}")]
    Field {
        /// The file, as the caller names it.
        file: String,
        /// Where in the file.
        place: Box<CataloguePath>,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
}

/// Something odd in a catalogue that does not keep it from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file, as the caller names it.
    pub file: String,
    /// Where in the file.
    pub place: CataloguePath,
    /// What is odd, and what was made of it.
    pub message: String,
}

/// Where in a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CataloguePath {
    /// Index of the instance type, from 0; `None` for the list itself.
    pub entry: Option<usize>,
    /// Name of the instance type, where it has one.
    pub instance_type: Option<String>,
    /// Index of the offering within its type, from 0.
    pub offering: Option<usize>,
    /// Index of the requirement within its offering, from 0.
    pub requirement: Option<usize>,
    /// The field within the innermost of these; may be empty.
    pub field: String,
}

impl fmt::Display for CataloguePath {
    /// As in `[3] (m5.large): offerings[2].Requirements[1].operator`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry {
            Some(entry) => write!(f, "[{entry}]")?,
            None => f.write_str("the list")?,
        }
        if let Some(name) = &self.instance_type {
            write!(f, " ({name})")?;
        }
        let mut separator = ": ";
        if let Some(offering) = self.offering {
            write!(f, "{separator}offerings[{offering}]")?;
            separator = ".";
        }
        if let Some(requirement) = self.requirement {
            write!(f, "{separator}Requirements[{requirement}]")?;
            separator = ".";
        }
        if !self.field.is_empty() {
            write!(f, "{separator}{}", self.field)?;
        }
        Ok(())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.place, self.message)
    }
}

/// Where the reader is; makes errors that say so. Borrowed, so that going on costs nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) file: &'a str,
    pub(crate) entry: Option<usize>,
    pub(crate) instance_type: Option<&'a str>,
    pub(crate) offering: Option<usize>,
    pub(crate) requirement: Option<usize>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file, entry: None, instance_type: None, offering: None, requirement: None }
    }

    pub(crate) fn place(self, field: &str) -> CataloguePath {
        CataloguePath {
            entry: self.entry,
            instance_type: self.instance_type.map(shortened),
            offering: self.offering,
            requirement: self.requirement,
            field: shortened(field),
        }
    }

    pub(crate) fn error(self, field: &str, expected: impl Into<String>, found: impl fmt::Display) -> CatalogueError {
        CatalogueError::Field {
            file: self.file.to_owned(),
            place: Box::new(self.place(field)),
            expected: expected.into(),
            found: shortened(&found.to_string()),
        }
    }

    pub(crate) fn warning(self, field: &str, message: String) -> Warning {
        Warning { file: self.file.to_owned(), place: self.place(field), message }
    }
}

/// Keeps a message readable whatever the file holds.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
