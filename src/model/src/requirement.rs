//! The requirement algebra: which values of a label are allowed. Follows Karpenter's `Requirement`
//! (complement, values, bounds, minValues) with all eight operators.

use berth_quantity::Operator;
use smallvec::SmallVec;

use crate::{Sym, Symbols};

/// The values that a label may have: a finite set, or all values but a finite set, between bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    complement: bool,
    values: SmallVec<[Sym; 3]>,
    at_least: Option<i64>,
    at_most: Option<i64>,
    // Of a complement: whether the label must be there at all, as `Exists` and bounds ask and `NotIn` does not.
    must_exist: bool,
    min_values: Option<u32>,
}

impl Requirement {
    /// From an operator and its values. `Gt`, `Lt`, `Gte` and `Lte` read their first value as an integer; where it
    /// is none, nothing matches, as in Kubernetes.
    pub fn new(operator: Operator, values: impl IntoIterator<Item = Sym>, symbols: &Symbols) -> Self {
        let mut values: SmallVec<[Sym; 3]> = values.into_iter().collect();
        let bound = values.first().and_then(|&value| symbols.integer(value));
        let bounded = |at_least, at_most| Requirement { at_least, at_most, ..Self::exists() };
        match operator {
            Operator::In | Operator::NotIn => {
                values.sort_unstable();
                values.dedup();
                Requirement { complement: operator == Operator::NotIn, values, ..Self::does_not_exist() }
            }
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => match bound {
                None => Self::does_not_exist().with_nothing(),
                Some(bound) => match operator {
                    Operator::Gt => bound.checked_add(1).map_or_else(Self::nothing, |b| bounded(Some(b), None)),
                    Operator::Lt => bound.checked_sub(1).map_or_else(Self::nothing, |b| bounded(None, Some(b))),
                    Operator::Gte => bounded(Some(bound), None),
                    _ => bounded(None, Some(bound)),
                },
            },
        }
    }

    /// Any value.
    pub fn exists() -> Self {
        Requirement {
            complement: true,
            values: SmallVec::new(),
            at_least: None,
            at_most: None,
            must_exist: true,
            min_values: None,
        }
    }

    /// No label.
    pub fn does_not_exist() -> Self {
        Requirement { complement: false, must_exist: false, ..Self::exists() }
    }

    /// Exactly this value.
    pub fn value(value: Sym) -> Self {
        Requirement { values: SmallVec::from_slice(&[value]), ..Self::does_not_exist() }
    }

    /// One of these values.
    pub fn one_of(values: impl IntoIterator<Item = Sym>) -> Self {
        let mut values: SmallVec<[Sym; 3]> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Requirement { values, ..Self::does_not_exist() }
    }

    // Matches no value and no absent label: an empty set that is not DoesNotExist.
    fn nothing() -> Self {
        Self::does_not_exist().with_nothing()
    }

    fn with_nothing(mut self) -> Self {
        self.at_least = Some(i64::MAX);
        self.at_most = Some(i64::MIN);
        self
    }

    /// The same requirement with a least number of distinct values.
    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// How many distinct values must stay possible (Karpenter's minValues).
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    fn in_bounds(&self, value: Sym, symbols: &Symbols) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return true;
        }
        symbols.integer(value).is_some_and(|n| {
            self.at_least.is_none_or(|bound| n >= bound) && self.at_most.is_none_or(|bound| n <= bound)
        })
    }

    /// Whether a label with this value satisfies the requirement.
    pub fn has(&self, value: Sym, symbols: &Symbols) -> bool {
        self.values.binary_search(&value).is_ok() != self.complement && self.in_bounds(value, symbols)
    }

    /// Whether an absent label satisfies the requirement (`NotIn` and `DoesNotExist`).
    pub fn allows_absent(&self) -> bool {
        if self.complement { !self.must_exist } else { self.values.is_empty() && self.at_least.is_none() }
    }

    /// The finite set of allowed values, if it is finite.
    pub fn finite_values(&self) -> Option<&[Sym]> {
        (!self.complement).then_some(&self.values[..])
    }

    /// The only allowed value, if there is one.
    pub fn single(&self) -> Option<Sym> {
        match self.finite_values() {
            Some(&[value]) => Some(value),
            _ => None,
        }
    }

    /// Both requirements at once. An impossible combination is the empty set ([`Requirement::is_empty`]).
    #[must_use]
    pub fn intersect(&self, other: &Requirement, symbols: &Symbols) -> Requirement {
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min_values = self.min_values.max(other.min_values);
        if self.complement && other.complement {
            if at_least.zip(at_most).is_some_and(|(low, high)| low > high) {
                return Self::nothing();
            }
            let mut values = self.values.clone();
            values.extend(other.values.iter().copied());
            values.sort_unstable();
            values.dedup();
            let must_exist = self.must_exist || other.must_exist;
            return Requirement { complement: true, values, at_least, at_most, must_exist, min_values };
        }
        let is_other_less = !other.complement && other.values.len() < self.values.len();
        let finite = if self.complement || is_other_less { other } else { self };
        let values: SmallVec<[Sym; 3]> =
            finite.values.iter().copied().filter(|&v| self.has(v, symbols) && other.has(v, symbols)).collect();
        // In ∩ NotIn may be empty without meaning DoesNotExist; DoesNotExist ∩ NotIn is still DoesNotExist.
        if values.is_empty() && !(self.allows_absent() && other.allows_absent()) {
            return Self::nothing();
        }
        Requirement { complement: false, values, at_least: None, at_most: None, must_exist: false, min_values }
    }

    /// Whether no value and no absence satisfies the requirement.
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty() && self.at_least.is_some()
    }

    /// The requirement in the operators of a NodeClaim: `(operator, values)`, several where bounds are involved.
    pub fn to_operators(&self) -> Vec<(Operator, Vec<String>, Vec<Sym>)> {
        let mut out = Vec::new();
        if let Some(bound) = self.at_least {
            out.push((Operator::Gte, vec![bound.to_string()], Vec::new()));
        }
        if let Some(bound) = self.at_most {
            out.push((Operator::Lte, vec![bound.to_string()], Vec::new()));
        }
        match (self.complement, self.values.is_empty()) {
            (false, true) if out.is_empty() => {
                out.push((Operator::DoesNotExist, Vec::new(), Vec::new()));
            }
            (false, false) => out.push((Operator::In, Vec::new(), self.values.to_vec())),
            (true, false) => {
                if self.must_exist && out.is_empty() {
                    out.push((Operator::Exists, Vec::new(), Vec::new()));
                }
                out.push((Operator::NotIn, Vec::new(), self.values.to_vec()));
            }
            (true, true) if out.is_empty() => out.push((Operator::Exists, Vec::new(), Vec::new())),
            _ => {}
        }
        out
    }
}

/// Requirements by label key, in order of the keys' symbols; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(Vec<(Sym, Requirement)>);

impl Requirements {
    /// No requirement.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a requirement; one on the same key is narrowed by it.
    pub fn add(&mut self, key: Sym, requirement: Requirement, symbols: &Symbols) {
        match self.0.binary_search_by_key(&key, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, known)) = self.0.get_mut(at) {
                    *known = known.intersect(&requirement, symbols);
                }
            }
            Err(at) => self.0.insert(at, (key, requirement)),
        }
    }

    /// Sets the requirement on a key, whatever it was.
    pub fn set(&mut self, key: Sym, requirement: Requirement) {
        match self.0.binary_search_by_key(&key, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, known)) = self.0.get_mut(at) {
                    *known = requirement;
                }
            }
            Err(at) => self.0.insert(at, (key, requirement)),
        }
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Requirements, symbols: &Symbols) {
        for (key, requirement) in &other.0 {
            self.add(*key, requirement.clone(), symbols);
        }
    }

    /// The requirement on a key.
    pub fn get(&self, key: Sym) -> Option<&Requirement> {
        self.0.binary_search_by_key(&key, |(known, _)| *known).ok().and_then(|at| self.0.get(at)).map(|(_, r)| r)
    }

    /// All requirements, in order of the keys' symbols.
    pub fn iter(&self) -> impl Iterator<Item = (Sym, &Requirement)> {
        self.0.iter().map(|(key, requirement)| (*key, requirement))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some requirement can never hold.
    pub fn is_contradiction(&self) -> bool {
        self.0.iter().any(|(_, requirement)| requirement.is_empty())
    }

    /// Whether labels satisfy every requirement; `label` gives a key's value.
    pub fn match_labels(&self, symbols: &Symbols, label: impl Fn(Sym) -> Option<Sym>) -> bool {
        self.0.iter().all(|(key, requirement)| match label(*key) {
            Some(value) => requirement.has(value, symbols),
            None => requirement.allows_absent(),
        })
    }
}
