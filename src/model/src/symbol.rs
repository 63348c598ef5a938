//! Interned strings: label keys, label values, names of things.

use std::sync::Arc;

use crate::{Keyed, KeyedMap};

/// An interned string. Equal symbols of one [`Symbols`] are equal strings; the order of symbols is the order of
/// interning, so sort by text where people see the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sym(u32);

impl Sym {
    /// The position of the symbol in its table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The table of interned strings, with each string's value as an integer where it is one (what `Gt` and `Lt`
/// compare).
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    ids: KeyedMap<Arc<str>, Sym>,
    texts: Vec<Arc<str>>,
    integers: Vec<Option<i64>>,
}

impl Symbols {
    /// An empty table that hashes with a key.
    pub fn with_hasher(keyed: Keyed) -> Self {
        Symbols { ids: KeyedMap::with_hasher(keyed), ..Symbols::default() }
    }

    /// What it hashes with.
    pub fn hasher(&self) -> &Keyed {
        self.ids.hasher()
    }

    /// The symbol of `text`, new or known.
    pub fn intern(&mut self, text: &str) -> Sym {
        if let Some(&sym) = self.ids.get(text) {
            return sym;
        }
        let sym = Sym(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let shared: Arc<str> = Arc::from(text);
        self.integers.push(text.parse().ok());
        self.texts.push(Arc::clone(&shared));
        self.ids.insert(shared, sym);
        sym
    }

    /// The symbol of `text` if it was interned before.
    pub fn get(&self, text: &str) -> Option<Sym> {
        self.ids.get(text).copied()
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The text of a symbol of this table. Of a symbol of another one a debug build says so, and a release build has an empty
    /// text.
    pub fn text(&self, sym: Sym) -> &str {
        self.known(sym).map_or("", |text| text)
    }

    fn known(&self, sym: Sym) -> Option<&Arc<str>> {
        let found = self.texts.get(sym.index());
        debug_assert!(found.is_some(), "no text has symbol {} among {}", sym.index(), self.texts.len());
        found
    }

    /// The shared text of a symbol, for owners that outlive the table.
    pub fn shared(&self, sym: Sym) -> Arc<str> {
        self.known(sym).cloned().unwrap_or_default()
    }

    /// The symbol's value as a decimal integer, if it is one.
    pub fn integer(&self, sym: Sym) -> Option<i64> {
        self.integers.get(sym.index()).copied().flatten()
    }
}
