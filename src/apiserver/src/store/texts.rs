//! Several texts in one allocation: what selectors look at is kept of every object and every change.

/// Texts in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts(Box<[u8]>);

/// Names of fields that selectors may ask for, with the path of each.
pub(crate) type FieldPaths = &'static [(&'static str, &'static [&'static str])];

/// Selectable fields with their values; an empty value is as good as none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// The names of a built-in kind's fields, in whose order its values are.
    names: FieldPaths,
    /// Its values; of a custom resource each after its name.
    texts: Texts,
}

/// They were texts when they were put in.
fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

// === impl Texts ===

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut out = Vec::new();
        for text in texts {
            let text = text.as_ref().as_bytes();
            // A longer one is cut; requests are shorter by far.
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend(text.iter().take(length as usize));
        }
        Self(out.into())
    }
}

impl Texts {
    fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = after;
            Some(text)
        })
    }

    fn nth(&self, n: usize) -> Option<&str> {
        self.bytes().nth(n).map(text_of)
    }

    /// What follows a text that is a key.
    pub(crate) fn value_of(&self, key: &str) -> Option<&str> {
        let mut texts = self.bytes();
        while let (Some(own), Some(value)) = (texts.next(), texts.next()) {
            if own == key.as_bytes() {
                return Some(text_of(value));
            }
        }
        None
    }
}

// === impl Fields ===

impl Fields {
    /// Of a built-in kind: the values of these fields, in their order.
    pub(crate) fn in_order(names: FieldPaths, values: Texts) -> Self {
        Self { names, texts: values }
    }

    /// Of a custom resource: each value after its name.
    pub(crate) fn named(pairs: Texts) -> Self {
        Self { names: &[], texts: pairs }
    }

    pub(crate) fn get(&self, field: &str) -> &str {
        if self.names.is_empty() {
            return self.texts.value_of(field).unwrap_or_default();
        }
        let at = self.names.iter().position(|(name, _)| *name == field);
        at.and_then(|at| self.texts.nth(at)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_found_again() {
        let long = "ä".repeat(70_000);
        let texts: Texts = ["app", "", "a\0b", long.as_str(), "tier"].into_iter().collect();
        assert_eq!(texts.bytes().map(text_of).collect::<Vec<_>>(), ["app", "", "a\0b", &long, "tier"]);
        assert_eq!((texts.value_of("app"), texts.value_of("a\0b")), (Some(""), Some(long.as_str())));
        // A value is no key, and a key without a value is none.
        assert_eq!((texts.value_of(""), texts.value_of("tier")), (None, None));
        assert_eq!(Texts::default().value_of("app"), None);
    }

    #[test]
    fn fields_are_found_by_their_place_or_their_name() {
        const NAMES: FieldPaths = &[("a", &["a"]), ("b.c", &["b", "c"])];
        let built_in = Fields::in_order(NAMES, ["1", "2"].into_iter().collect());
        assert_eq!((built_in.get("a"), built_in.get("b.c"), built_in.get("2")), ("1", "2", ""));
        let custom = Fields::named(["a", "1", "b.c", "2"].into_iter().collect());
        assert_eq!((custom.get("a"), custom.get("b.c"), custom.get("1")), ("1", "2", ""));
    }
}
