//! One piece of text that holds one object.

use std::sync::Arc;

use crate::options::Source;

/// What a [`Document`] is to its `List`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A document of its own.
    Whole,
    /// An item of a `List` whose items are streamed.
    Item,
    /// The `List` without its items.
    Envelope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Type that items of a typed list (`PodList`) may leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListType {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// The text of one object, not yet parsed.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) source: Source,
    /// Column of the first byte, from 1.
    pub(crate) column: u64,
    pub(crate) text: Vec<u8>,
    pub(crate) format: Format,
    pub(crate) role: Role,
    pub(crate) list_type: Option<Arc<ListType>>,
}

impl Document {
    /// A position in the text as a position in the file.
    pub(crate) fn position_in_file(&self, line: u64, column: u64) -> (u64, u64) {
        let column = if line <= 1 { self.column + column.saturating_sub(1) } else { column };
        (self.source.line + line.saturating_sub(1), column.max(1))
    }
}
