//! A stored object: its JSON text, ready to be sent, and what selectors look at.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::texts::{Fields, Texts};
use crate::admission::Charge;
use crate::meta;

/// An object at a version. Kept as text: it is sent far more often than it is changed.
#[derive(Debug)]
pub(crate) struct Object {
    /// `namespace/name`, or `name` of a cluster-scoped object.
    pub(crate) key: Box<str>,
    pub(crate) revision: u64,
    pub(crate) body: Bytes,
    /// Under which schema it was written: that of a custom resource may change.
    pub(crate) form: u64,
    /// What it takes of quotas, of kinds whose objects differ in that.
    pub(crate) charge: Option<Arc<Charge>>,
    pub(crate) selectable: Selectable,
    /// What the text says, while it was written lately and nobody has read it: an object that changes soon changes again, and
    /// whoever changes it next need not read the text.
    fresh: Mutex<Option<Box<Value>>>,
}

/// What selectors see of an object, and its identity.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selectable {
    /// Keys, each with its value after it.
    pub(crate) labels: Texts,
    /// Fields beyond `metadata.name` and `metadata.namespace`.
    pub(crate) fields: Fields,
    pub(crate) uid: Box<str>,
}

/// An object to be stored: text with a gap for the version that it will get.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    text: Vec<u8>,
    /// Where in the text the version goes.
    gap: usize,
    form: u64,
    charge: Option<Charge>,
    selectable: Selectable,
    fresh: Option<Box<Value>>,
}

/// The longest text whose value is kept for whoever changes the object next.
const FRESH: usize = 16 * 1024;
/// Room for the text of most objects.
const USUAL: usize = 4096;
/// In the order in which texts begin with them.
const TYPE_FIELDS: [&str; 2] = ["apiVersion", "kind"];

/// A text of an object without the fields that say what it is, where it begins with them.
pub(crate) fn without_type<'b>(body: &'b [u8], head: &[u8]) -> &'b [u8] {
    body.strip_prefix(head).unwrap_or(body.get(1..).unwrap_or_default())
}

/// The value of a field of an object's text, which is as it is written here: without spaces.
pub(crate) fn member<'b>(body: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let mut rest = body.strip_prefix(b"{")?;
    loop {
        let key = end_of_value(rest)?;
        let (key, after) = rest.split_at_checked(key)?;
        let value = after.strip_prefix(b":")?;
        let (value, after) = value.split_at_checked(end_of_value(value)?)?;
        if key.strip_prefix(b"\"")?.strip_suffix(b"\"")? == name.as_bytes() {
            return Some(value);
        }
        rest = after.strip_prefix(b",")?;
    }
}

/// How long the value is that a text begins with.
fn end_of_value(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => {
                at += 1;
                // To the quotation mark that is not escaped.
                loop {
                    at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
                    if text.get(at) == Some(&b'"') {
                        break;
                    }
                    at += 2;
                }
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'{' | b'[' => depth += 1,
            // The end of what is around a number, which then ends before it.
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

// === impl Object ===

impl Object {
    pub(crate) fn value(&self) -> Value {
        let read = || serde_json::from_slice(&self.body).unwrap_or_default();
        let Some(fresh) = self.fresh.lock().take() else { return read() };
        debug_assert_eq!(*fresh, read(), "the text says what it was made of");
        *fresh
    }

    /// Whether its value is kept beside its text.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh.lock().is_some()
    }

    /// Keeps the text alone from now on.
    pub(super) fn age(&self) {
        *self.fresh.lock() = None;
    }

    /// Whether the text has something in it.
    pub(crate) fn says(&self, needle: &str) -> bool {
        memchr::memmem::find(&self.body, needle.as_bytes()).is_some()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }
}

// === impl Draft ===

impl Draft {
    /// Writes an object; `fields` are the values of the resource's selectable fields.
    pub(crate) fn new(value: &Value, fields: Fields) -> Self {
        let labels = meta::labels(value).flat_map(|(key, value)| [key, value]).collect();
        let selectable = Selectable { labels, fields, uid: meta::text(value, "uid").into() };
        let mut text = Vec::with_capacity(USUAL);
        let mut gap = None;
        if let Value::Object(map) = value {
            write_object(&mut text, map, &mut |text, key, value| match value {
                Value::Object(metadata) if key == "metadata" => {
                    write_object(text, metadata, &mut |text, key, value| {
                        if key == "resourceVersion" {
                            text.push(b'"');
                            gap = Some(text.len());
                            text.push(b'"');
                        } else {
                            write_value(text, value);
                        }
                    });
                }
                other => write_value(text, other),
            });
        }
        let gap = gap.unwrap_or(text.len());
        Self { text, gap, form: 0, charge: None, selectable, fresh: None }
    }

    /// The same, written under a schema.
    pub(crate) fn of_form(self, form: u64) -> Self {
        Self { form, ..self }
    }

    /// The same, which takes something of quotas.
    pub(crate) fn charging(self, charge: Option<Charge>) -> Self {
        Self { charge, ..self }
    }

    /// The same, with the value that it was made of, for whoever changes the object next.
    pub(crate) fn keeping(self, value: Value) -> Self {
        let fresh = (self.text.len() <= FRESH).then(|| Box::new(value));
        Self { fresh, ..self }
    }

    pub(crate) const fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    /// `share` gives the one that all who take the same have in common.
    pub(super) fn at(self, key: &str, revision: u64, share: impl FnOnce(Charge) -> Arc<Charge>) -> Object {
        let (before, after) = self.text.split_at_checked(self.gap).unwrap_or((&self.text, &[]));
        let revision_text = revision.to_string();
        // What is kept is as large as it must be, and made once.
        let mut body = Vec::with_capacity(self.text.len() + revision_text.len());
        for part in [before, revision_text.as_bytes(), after] {
            body.extend_from_slice(part);
        }
        let charge = self.charge.map(share);
        let mut fresh = self.fresh;
        if let Some(value) = &mut fresh {
            meta::set(value, "resourceVersion", revision_text);
        }
        let (key, body, selectable) = (key.into(), body.into(), self.selectable);
        Object { key, revision, body, form: self.form, charge, selectable, fresh: Mutex::new(fresh) }
    }
}

/// The text of an object, with what it is at its head.
pub(crate) fn text_of(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    match value {
        Value::Object(map) => write_object(&mut text, map, &mut |text, _, value| write_value(text, value)),
        other => write_value(&mut text, other),
    }
    text
}

fn write_object(text: &mut Vec<u8>, map: &Map<String, Value>, write: &mut dyn FnMut(&mut Vec<u8>, &str, &Value)) {
    text.push(b'{');
    // What an object is comes first, so that lists can leave it out.
    let is_type = |key: &&String| TYPE_FIELDS.contains(&key.as_str());
    let first = TYPE_FIELDS.iter().filter_map(|field| map.get_key_value(*field));
    let rest = map.iter().filter(|(key, _)| !is_type(key));
    for (n, (key, value)) in first.chain(rest).enumerate() {
        if n > 0 {
            text.push(b',');
        }
        // Writing JSON to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *text, key);
        text.push(b':');
        write(text, key, value);
    }
    text.push(b'}');
}

fn write_value(text: &mut Vec<u8>, value: &Value) {
    let _ = serde_json::to_writer(text, value);
}

impl Draft {
    /// The object of a dry run that keeps its version.
    pub(crate) fn versioned(self, key: &str, revision: u64) -> Object {
        self.at(key, revision, Arc::new)
    }

    /// The object of a dry run that was never stored, and has no version.
    pub(crate) fn unversioned(self, key: &str) -> Object {
        let mut object = self.at(key, 0, Arc::new);
        let mut value = object.value();
        meta::remove(&mut value, "resourceVersion");
        object.body = serde_json::to_vec(&value).unwrap_or_default().into();
        object
    }
}
