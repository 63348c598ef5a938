//! Cuts YAML documents at their markers, and the `items` of a long List at their dashes.

use std::io::Read;
use std::sync::Arc;

use super::{Documents, List, document, unreadable};
use crate::document::{Document, Format, ListType, Role};
use crate::error::{ManifestError, Problem};
use crate::options::Source;
use crate::value;

/// Lines indented deeper than this are content for certain.
const LOOKAHEAD_BYTES: usize = 256;

/// A List too long to be held whole, without its items.
pub(super) struct Envelope {
    source: Source,
    text: Vec<u8>,
    list_type: Option<Arc<ListType>>,
    /// Spaces before the dash of an item, once the first has been seen.
    indent: Option<usize>,
    n_items: u64,
}

/// What the next line is, by its first bytes.
enum Line {
    End,
    DocumentStart,
    DocumentEnd,
    Empty,
    Directive,
    Item { indent: usize },
    Content { indent: usize },
}

impl<R: Read> Documents<R> {
    /// Skips what is between documents and reads the next, whichever its format.
    pub(super) fn whole_document(&mut self) -> Result<Option<Document>, ManifestError> {
        loop {
            if self.begins_json()? {
                return self.json_document().map(Some);
            }
            match self.next_line()? {
                Line::End => return Ok(None),
                Line::DocumentStart => {
                    self.n_opened += 1;
                    self.is_opened = true;
                    self.chunks.consume(3);
                }
                Line::DocumentEnd => {
                    self.is_opened = false;
                    self.skip_line()?;
                }
                Line::Empty | Line::Directive => self.skip_line()?,
                Line::Item { .. } | Line::Content { .. } => return self.yaml_document().map(Some),
            }
        }
    }

    fn yaml_document(&mut self) -> Result<Document, ManifestError> {
        let (line, column) = self.chunks.position();
        let source = self.open(line);
        let mut text = Vec::new();
        let mut items = None;
        loop {
            let begin = text.len();
            if !self.take_line(&mut text, &source)? {
                let Some((items_begin, items_end)) = items else {
                    return Err(self.too_large(source));
                };
                return self.yaml_list(source, text, items_begin, items_end);
            }
            let is_items = text.get(begin..).is_some_and(is_items_line);
            if is_items && items.is_none() {
                items = Some((begin, text.len()));
            }
            match self.next_line()? {
                Line::End | Line::DocumentStart | Line::DocumentEnd => break,
                _ => {}
            }
        }
        Ok(document(source, column, text, Format::Yaml, Role::Whole, None))
    }

    /// Goes back to the first item of a List that turned out too long.
    fn yaml_list(
        &mut self,
        source: Source,
        mut text: Vec<u8>,
        items_begin: usize,
        items_end: usize,
    ) -> Result<Document, ManifestError> {
        let rest = text.split_off(items_end);
        let line = source.line + memchr::memchr_iter(b'\n', &text).count() as u64;
        text.truncate(items_begin);
        let (api_version, kind) = value::type_of_yaml(&text);
        if kind.as_ref().is_some_and(|kind| !kind.ends_with("List")) {
            return Err(self.too_large(source));
        }
        self.chunks.put_back(rest, line);
        let list_type = kind
            .as_ref()
            .and_then(|kind| kind.strip_suffix("List"))
            .filter(|kind| !kind.is_empty())
            .zip(api_version)
            .map(|(kind, api_version)| Arc::new(ListType { api_version, kind: kind.to_owned() }));
        self.yaml_item(Envelope { source, text, list_type, indent: None, n_items: 0 })
    }

    /// Reads the next item, or what follows the last.
    pub(super) fn yaml_item(&mut self, mut envelope: Envelope) -> Result<Document, ManifestError> {
        let indent = loop {
            match self.next_line()? {
                Line::Empty => self.skip_line()?,
                Line::Item { indent } if envelope.indent.is_none_or(|of| of == indent) => {
                    break indent;
                }
                _ => return self.yaml_tail(envelope),
            }
        };
        envelope.indent = Some(indent);
        let (line, _) = self.chunks.position();
        let source = Source { item: Some(envelope.n_items), line, ..envelope.source.clone() };
        envelope.n_items += 1;
        // The dash becomes a space, so that the item's columns stay as they are.
        let mut text = vec![b' '; indent + 1];
        self.chunks.consume(indent + 1);
        loop {
            if !self.take_line(&mut text, &source)? {
                return Err(self.too_large(source));
            }
            match self.next_line()? {
                Line::Empty => {}
                Line::Item { indent: of } | Line::Content { indent: of } if of > indent => {}
                _ => break,
            }
        }
        let list_type = envelope.list_type.clone();
        self.list = Some(List::Yaml(envelope));
        Ok(document(source, 1, text, Format::Yaml, Role::Item, list_type))
    }

    fn yaml_tail(&mut self, mut envelope: Envelope) -> Result<Document, ManifestError> {
        while !matches!(self.next_line()?, Line::End | Line::DocumentStart | Line::DocumentEnd) {
            if !self.take_line(&mut envelope.text, &envelope.source)? {
                return Err(self.too_large(envelope.source));
            }
        }
        Ok(document(envelope.source, 1, envelope.text, Format::Yaml, Role::Envelope, None))
    }

    /// Looks at the line that begins at the next byte. A marker counts at column 1 alone.
    fn next_line(&mut self) -> Result<Line, ManifestError> {
        let is_at_margin = self.chunks.position().1 == 1;
        let bytes = self.chunks.peek_at_least(LOOKAHEAD_BYTES);
        let bytes = bytes.map_err(|error| unreadable(&self.file, &error))?;
        let is_blank = |at: usize| bytes.get(at).is_none_or(u8::is_ascii_whitespace);
        let indent = bytes.iter().take_while(|&&byte| byte == b' ').count();
        let dark = bytes.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
        Ok(match dark {
            None if bytes.is_empty() => Line::End,
            None if bytes.len() < LOOKAHEAD_BYTES => Line::Empty,
            Some(b'\n' | b'#') => Line::Empty,
            Some(b'%') if is_at_margin && indent == 0 => Line::Directive,
            _ if is_at_margin && bytes.starts_with(b"---") && is_blank(3) => Line::DocumentStart,
            _ if is_at_margin && bytes.starts_with(b"...") && is_blank(3) => Line::DocumentEnd,
            Some(b'-') if is_blank(indent + 1) => Line::Item { indent },
            _ => Line::Content { indent },
        })
    }

    /// Appends the rest of a line with its end; false, with part of it, if that is too much.
    fn take_line(&mut self, text: &mut Vec<u8>, source: &Source) -> Result<bool, ManifestError> {
        loop {
            let bytes = self.chunks.peek().map_err(|error| unreadable(&self.file, &error))?;
            let end = memchr::memchr(b'\n', bytes);
            let n_taken = end.map_or(bytes.len(), |at| at + 1);
            let taken = bytes.get(..n_taken).unwrap_or_default();
            if memchr::memchr(0, taken).is_some() {
                let position = Some(self.chunks.position());
                let message = "found a NUL byte, expected text in YAML or JSON".to_owned();
                let problems = vec![Problem::of_object(message)];
                return Err(ManifestError::of_document(source.clone(), None, position, problems));
            }
            text.extend_from_slice(taken);
            self.chunks.consume(n_taken);
            if text.len() > self.max_object_bytes {
                return Ok(false);
            }
            if end.is_some() || n_taken == 0 {
                return Ok(true);
            }
        }
    }

    fn skip_line(&mut self) -> Result<(), ManifestError> {
        loop {
            let bytes = self.chunks.peek().map_err(|error| unreadable(&self.file, &error))?;
            let end = memchr::memchr(b'\n', bytes);
            let n_skipped = end.map_or(bytes.len(), |at| at + 1);
            self.chunks.consume(n_skipped);
            if end.is_some() || n_skipped == 0 {
                return Ok(());
            }
        }
    }
}

/// `items:` at the margin, with its list on the lines below.
fn is_items_line(line: &[u8]) -> bool {
    line.strip_prefix(b"items:").is_some_and(|rest| {
        let dark = rest.iter().find(|byte| !byte.is_ascii_whitespace());
        matches!(dark, None | Some(b'#'))
    })
}
