//! Cuts concatenated JSON objects, and the `items` of a List, by their brackets.
//!
//! Nothing is validated here: malformed text is cut somewhere and refused by the parser.

use std::io::Read;
use std::sync::Arc;

use super::{Documents, List, document, unreadable};
use crate::document::{Document, Format, ListType, Role};
use crate::error::ManifestError;
use crate::options::Source;

/// An object that is being read, without the items that have been handed out.
pub(super) struct Envelope {
    source: Source,
    column: u64,
    text: Vec<u8>,
    /// Where the last key at the top level lies in `text`.
    key: Option<(usize, usize)>,
    is_value: bool,
    api_version: Option<String>,
    kind: Option<String>,
    list_type: Option<Arc<ListType>>,
    n_items: Option<u64>,
}

impl<R: Read> Documents<R> {
    /// Reads an object from its `{`, up to its end or its first item.
    pub(super) fn json_document(&mut self) -> Result<Document, ManifestError> {
        let (line, column) = self.chunks.position();
        let source = self.open(line);
        let mut text = Vec::new();
        self.take_byte(&mut text, &source)?;
        self.json_members(Envelope {
            source,
            column,
            text,
            key: None,
            is_value: false,
            api_version: None,
            kind: None,
            list_type: None,
            n_items: None,
        })
    }

    /// Reads on to the next item, or past the last one to the end of the object.
    pub(super) fn json_item(&mut self, mut envelope: Envelope) -> Result<Document, ManifestError> {
        loop {
            let Some(byte) = self.peek_byte()? else { return self.json_members(envelope) };
            match byte {
                // A list that closes with the wrong bracket is refused with its envelope.
                b'}' => return self.json_members(envelope),
                b']' => {
                    let source = envelope.source.clone();
                    self.take_byte(&mut envelope.text, &source)?;
                    envelope.is_value = false;
                    return self.json_members(envelope);
                }
                byte if byte == b',' || byte.is_ascii_whitespace() => {
                    self.chunks.consume(1);
                }
                _ => break,
            }
        }
        let (line, column) = self.chunks.position();
        let item = envelope.n_items.unwrap_or_default();
        envelope.n_items = Some(item + 1);
        let source = Source { item: Some(item), line, ..envelope.source.clone() };
        let mut text = Vec::new();
        self.json_value(&mut text, &source)?;
        let list_type = envelope.list_type.clone();
        self.list = Some(List::Json(envelope));
        Ok(document(source, column, text, Format::Json, Role::Item, list_type))
    }

    fn json_members(&mut self, mut envelope: Envelope) -> Result<Document, ManifestError> {
        let source = envelope.source.clone();
        while let Some(byte) = self.peek_byte()? {
            match byte {
                b'}' => {
                    self.take_byte(&mut envelope.text, &source)?;
                    break;
                }
                b'[' if envelope.begins_items() => {
                    self.take_byte(&mut envelope.text, &source)?;
                    envelope.list_type = envelope.typed_list();
                    envelope.n_items = Some(0);
                    return self.json_item(envelope);
                }
                b'"' => {
                    let begin = envelope.text.len();
                    self.json_value(&mut envelope.text, &source)?;
                    envelope.note_string(begin);
                }
                b'{' | b'[' => {
                    self.json_value(&mut envelope.text, &source)?;
                    envelope.is_value = false;
                }
                _ => {
                    envelope.is_value = byte == b':' || (envelope.is_value && byte != b',');
                    self.take_byte(&mut envelope.text, &source)?;
                }
            }
        }
        let role = if envelope.n_items.is_some() { Role::Envelope } else { Role::Whole };
        Ok(document(source, envelope.column, envelope.text, Format::Json, role, None))
    }

    /// Takes one value: to its closing bracket or quote, or to the end of a bare word.
    fn json_value(&mut self, text: &mut Vec<u8>, source: &Source) -> Result<(), ManifestError> {
        let mut depth = 0_usize;
        let mut is_in_string = false;
        let mut is_escaped = false;
        loop {
            let bytes = self.chunks.peek().map_err(|error| unreadable(&self.file, &error))?;
            if bytes.is_empty() {
                return Ok(());
            }
            let mut end = None;
            let mut at = 0;
            while let Some(&byte) = bytes.get(at) {
                at += 1;
                if is_in_string {
                    if is_escaped {
                        is_escaped = false;
                        continue;
                    }
                    match byte {
                        b'\\' => is_escaped = true,
                        b'"' => {
                            is_in_string = false;
                            if depth == 0 {
                                end = Some(at);
                                break;
                            }
                        }
                        _ => {
                            let rest = bytes.get(at..).unwrap_or_default();
                            at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                        }
                    }
                    continue;
                }
                match byte {
                    b'"' => is_in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth <= 1 => {
                        // A bracket that closes nothing belongs to what is around a bare word.
                        end = Some(if depth == 0 { at - 1 } else { at });
                        break;
                    }
                    b'}' | b']' => depth -= 1,
                    b',' if depth == 0 => {
                        end = Some(at - 1);
                        break;
                    }
                    _ => {}
                }
            }
            let n_taken = end.unwrap_or(bytes.len());
            text.extend_from_slice(bytes.get(..n_taken).unwrap_or_default());
            self.chunks.consume(n_taken);
            if text.len() > self.max_object_bytes {
                return Err(self.too_large(source.clone()));
            }
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn peek_byte(&mut self) -> Result<Option<u8>, ManifestError> {
        let bytes = self.chunks.peek().map_err(|error| unreadable(&self.file, &error))?;
        Ok(bytes.first().copied())
    }

    fn take_byte(&mut self, text: &mut Vec<u8>, source: &Source) -> Result<(), ManifestError> {
        if let Some(byte) = self.peek_byte()? {
            text.push(byte);
            self.chunks.consume(1);
        }
        if text.len() > self.max_object_bytes {
            return Err(self.too_large(source.clone()));
        }
        Ok(())
    }
}

impl Envelope {
    fn key(&self) -> &[u8] {
        self.key.and_then(|(begin, end)| self.text.get(begin..end)).unwrap_or_default()
    }

    /// Is this bracket the first of `"items": […]` in what may be a List?
    fn begins_items(&self) -> bool {
        self.is_value
            && self.n_items.is_none()
            && self.key() == b"\"items\""
            && self.kind.as_ref().is_none_or(|kind| kind.ends_with("List"))
    }

    /// The string that was appended at `begin` is a key, or the value of one.
    fn note_string(&mut self, begin: usize) {
        if !self.is_value {
            self.key = Some((begin, self.text.len()));
            return;
        }
        self.is_value = false;
        let text = self.text.get(begin..).unwrap_or_default();
        let value = || serde_json::from_slice::<String>(text).ok();
        match self.key() {
            b"\"kind\"" => self.kind = value(),
            b"\"apiVersion\"" => self.api_version = value(),
            _ => {}
        }
    }

    fn typed_list(&self) -> Option<Arc<ListType>> {
        let kind = self.kind.as_ref()?.strip_suffix("List")?.to_owned();
        let api_version = self.api_version.clone()?;
        (!kind.is_empty()).then(|| Arc::new(ListType { api_version, kind }))
    }
}
