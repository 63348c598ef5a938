//! Cuts a stream into documents without parsing them, holding one at a time.
//!
//! `---` and `...` at the start of a line end a YAML document wherever they stand, also within
//! quotes and block scalars, so cutting there is exact. What begins with `{"` is JSON.

mod json;
mod yaml;

use std::io::{self, Read};
use std::sync::Arc;

use crate::chunks::Chunks;
use crate::document::{Document, Format, ListType, Role};
use crate::error::{ManifestError, Problem};
use crate::options::Source;

/// The documents of one stream, in order.
pub(crate) struct Documents<R> {
    file: Arc<str>,
    chunks: Chunks<R>,
    max_object_bytes: usize,
    n_opened: u64,
    /// A `---` has opened the next document, which is already counted.
    is_opened: bool,
    is_started: bool,
    list: Option<List>,
}

/// The list whose items are being streamed.
enum List {
    Json(json::Envelope),
    Yaml(yaml::Envelope),
}

impl<R: Read> Documents<R> {
    pub(crate) fn new(file: Arc<str>, reader: R, max_object_bytes: usize) -> Self {
        Self {
            file,
            chunks: Chunks::new(reader),
            max_object_bytes,
            n_opened: 0,
            is_opened: false,
            is_started: false,
            list: None,
        }
    }

    /// The next document or item; `None` at the end of the stream.
    pub(crate) fn next_document(&mut self) -> Result<Option<Document>, ManifestError> {
        if !self.is_started {
            self.is_started = true;
            self.check_encoding()?;
        }
        match self.list.take() {
            Some(List::Json(envelope)) => self.json_item(envelope).map(Some),
            Some(List::Yaml(envelope)) => self.yaml_item(envelope).map(Some),
            None => self.whole_document(),
        }
    }

    /// Skips a byte order mark and refuses what is plainly not UTF-8 text.
    fn check_encoding(&mut self) -> Result<(), ManifestError> {
        let start = self.chunks.peek_at_least(4);
        let start = start.map_err(|error| unreadable(&self.file, &error))?;
        let found = match start {
            [0xEF, 0xBB, 0xBF, ..] => {
                self.chunks.consume(3);
                self.chunks.put_back(Vec::new(), 1);
                return Ok(());
            }
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text",
            [0x1F, 0x8B, ..] => "gzip-compressed data",
            _ => return Ok(()),
        };
        let message = format!("found {found}, expected UTF-8 text in YAML or JSON");
        Err(ManifestError::of_file(&*self.file, message))
    }

    /// Does a JSON object begin here, after any white space? `{a: b}` is YAML.
    fn begins_json(&mut self) -> Result<bool, ManifestError> {
        let mut n_wanted = 1;
        loop {
            let bytes = self.chunks.peek_at_least(n_wanted);
            let bytes = bytes.map_err(|error| unreadable(&self.file, &error))?;
            let mut dark = bytes.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace());
            match (dark.next(), dark.next()) {
                (Some((at, b'{')), Some((_, b'"' | b'}'))) => {
                    self.chunks.consume(at);
                    return Ok(true);
                }
                (Some((_, b'{')), None) | (None, _)
                    if bytes.len() >= n_wanted && bytes.len() < self.max_object_bytes =>
                {
                    n_wanted = bytes.len() + 1;
                }
                _ => return Ok(false),
            }
        }
    }

    /// Counts a document that begins on `line`, unless `---` has counted it.
    fn open(&mut self, line: u64) -> Source {
        if !std::mem::take(&mut self.is_opened) {
            self.n_opened += 1;
        }
        Source { file: Arc::clone(&self.file), document: self.n_opened, item: None, line }
    }

    fn too_large(&self, source: Source) -> ManifestError {
        let limit = self.max_object_bytes;
        let mib = limit / (1024 * 1024);
        let what = if source.item.is_some() { "this item" } else { "this document" };
        let message = format!(
            "{what} is longer than {limit} bytes ({mib} MiB), the most that a single object may \
             take; only the items of a List may together take more"
        );
        ManifestError::of_document(source, None, None, vec![Problem::of_object(message)])
    }
}

/// Turns a failed read into an error of the file.
fn unreadable(file: &str, error: &io::Error) -> ManifestError {
    ManifestError::of_file(file, format!("cannot be read: {error}"))
}

fn document(
    source: Source,
    column: u64,
    text: Vec<u8>,
    format: Format,
    role: Role,
    list_type: Option<Arc<ListType>>,
) -> Document {
    Document { source, column, text, format, role, list_type }
}
