//! Sets of fields, in memory and as `fieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::Typed;

/// A set of paths. An element is kept as `fieldsV1` writes it: `f:name`, `k:{…}`, `v:…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    elements: BTreeMap<Box<str>, Entry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    /// Whether the path that ends here is in the set.
    member: bool,
    below: FieldSet,
}

/// An element of a path.
pub(super) type Element = Box<str>;

/// The element of a field.
pub(super) fn field(name: &str) -> Element {
    let mut element = String::with_capacity(2 + name.len());
    element.push_str("f:");
    element.push_str(name);
    element.into_boxed_str()
}

// === impl FieldSet ===

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.elements.values().all(|entry| !entry.member && entry.below.is_empty())
    }

    /// Adds a path; the empty one is not recorded.
    pub(super) fn insert(&mut self, path: &[Element]) {
        let Some((last, parents)) = path.split_last() else { return };
        let set = parents.iter().fold(self, |set, element| &mut set.elements.entry(element.clone()).or_default().below);
        set.elements.entry(last.clone()).or_default().member = true;
    }

    /// A set with these paths of field names.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.iter().map(|name| field(name)).collect::<Vec<_>>());
        }
        set
    }

    pub(super) fn has(&self, element: &str) -> bool {
        self.elements.get(element).is_some_and(|entry| entry.member)
    }

    /// The paths that begin with an element, without it.
    pub(super) fn below(&self, element: &str) -> Option<&Self> {
        self.elements.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// Adds an element with what is below it; what holds nothing is not recorded.
    pub(super) fn put(&mut self, element: impl FnOnce() -> Element, member: bool, below: Self) {
        if member || !below.elements.is_empty() {
            self.elements.insert(element(), Entry { member, below });
        }
    }

    #[must_use]
    pub(crate) fn union(mut self, other: &Self) -> Self {
        if self.elements.is_empty() {
            return other.clone();
        }
        for (element, theirs) in &other.elements {
            let ours = self.elements.entry(element.clone()).or_default();
            ours.member |= theirs.member;
            ours.below = std::mem::take(&mut ours.below).union(&theirs.below);
        }
        self
    }

    #[must_use]
    pub(crate) fn minus(mut self, other: &Self) -> Self {
        if other.elements.is_empty() {
            return self;
        }
        for (element, ours) in &mut self.elements {
            if let Some(theirs) = other.elements.get(element) {
                ours.member &= !theirs.member;
                ours.below = std::mem::take(&mut ours.below).minus(&theirs.below);
            }
        }
        self.trim();
        self
    }

    /// Without the members of `other` and everything below them.
    #[must_use]
    pub(crate) fn minus_below(mut self, other: &Self) -> Self {
        if other.elements.is_empty() {
            return self;
        }
        for (element, ours) in &mut self.elements {
            if let Some(theirs) = other.elements.get(element) {
                if theirs.member {
                    *ours = Entry::default();
                } else {
                    ours.below = std::mem::take(&mut ours.below).minus_below(&theirs.below);
                }
            }
        }
        self.trim();
        self
    }

    #[must_use]
    pub(crate) fn intersection(mut self, other: &Self) -> Self {
        self.elements.retain(|element, ours| {
            let Some(theirs) = other.elements.get(element) else { return false };
            ours.member &= theirs.member;
            ours.below = std::mem::take(&mut ours.below).intersection(&theirs.below);
            ours.member || !ours.below.is_empty()
        });
        self
    }

    fn trim(&mut self) {
        self.elements.retain(|_, entry| entry.member || !entry.below.is_empty());
    }

    /// With the known fields of structs that lead to members made members themselves.
    #[must_use]
    pub(super) fn with_named_fields(mut self, typed: Typed<'_>) -> Self {
        for (element, entry) in &mut self.elements {
            let name = element.strip_prefix("f:");
            entry.member |= name.is_some_and(|name| typed.field(name).is_some()) && !entry.below.is_empty();
            let child = name.map_or_else(|| typed.item(), |name| typed.child(name));
            entry.below = std::mem::take(&mut entry.below).with_named_fields(child);
        }
        self
    }

    /// Calls `see` with each path, written as in messages: `.spec.containers[name="a"].image`.
    pub(crate) fn each_path(&self, see: &mut dyn FnMut(&str)) {
        self.each_below("", see);
    }

    fn each_below(&self, prefix: &str, see: &mut dyn FnMut(&str)) {
        // Members come before what is below other elements.
        for (element, _) in self.elements.iter().filter(|(_, entry)| entry.member) {
            see(&format!("{prefix}{}", shown(element)));
        }
        for (element, entry) in &self.elements {
            entry.below.each_below(&format!("{prefix}{}", shown(element)), see);
        }
    }

    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.into_map())
    }

    fn into_map(self) -> Map<String, Value> {
        let shown = self.elements.into_iter().map(|(element, entry)| {
            let mut below = entry.below.into_map();
            if entry.member && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.into_string(), Value::Object(below))
        });
        shown.collect()
    }

    /// Reads `fieldsV1`; `None` if it is none.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (element, below) in value.as_object()? {
            if element == "." {
                continue;
            }
            if !["f:", "k:", "v:", "i:"].iter().any(|prefix| element.starts_with(prefix)) {
                return None;
            }
            let map = below.as_object()?;
            let member = map.is_empty() || map.contains_key(".");
            set.elements.insert(element.as_str().into(), Entry { member, below: Self::from_json(below)? });
        }
        Some(set)
    }
}

fn shown(element: &str) -> String {
    let (kind, text) = element.split_at_checked(2).unwrap_or((element, ""));
    match kind {
        "f:" => format!(".{text}"),
        "k:" => {
            let keys: Value = serde_json::from_str(text).unwrap_or_default();
            let keys = keys.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
            format!("[{}]", keys.collect::<Vec<_>>().join(","))
        }
        "v:" => format!("[={text}]"),
        _ => format!("[{text}]"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_are_written_as_fields_v1() {
        let json = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                          "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}}});
        let set = FieldSet::from_json(&json).unwrap();
        assert_eq!(set.clone().into_json(), json);
        let mut paths = Vec::new();
        set.each_path(&mut |path| paths.push(path.to_owned()));
        let expected = [
            ".metadata.labels",
            ".metadata.labels.app",
            ".spec.containers[name=\"a\"]",
            ".spec.containers[name=\"a\"].image",
        ];
        assert_eq!(paths, expected);
    }

    fn sets() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in paths {
                set.insert(&path.into_iter().map(field).collect::<Vec<_>>());
            }
            set
        })
    }

    fn paths(set: &FieldSet) -> std::collections::BTreeSet<String> {
        let mut out = std::collections::BTreeSet::new();
        set.each_path(&mut |path| {
            out.insert(path.to_owned());
        });
        out
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets_of_paths(a in sets(), b in sets()) {
            prop_assert_eq!(paths(&a.clone().union(&b)), &paths(&a) | &paths(&b));
            prop_assert_eq!(paths(&a.clone().minus(&b)), &paths(&a) - &paths(&b));
            prop_assert_eq!(paths(&a.clone().intersection(&b)), &paths(&a) & &paths(&b));
            prop_assert_eq!(FieldSet::from_json(&a.clone().into_json()).unwrap(), a);
        }
    }
}
