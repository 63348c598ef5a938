//! Preferences that a pod asks for as if they were required.

use crate::{PodSpec, Requirements, Symbols};

/// What becomes of what pods prefer where nodes are launched and consolidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// A node is launched where a preference asks for one, and pods keep what they prefer where nodes go.
    #[default]
    Respect,
    /// No node is launched or kept for a preference.
    Ignore,
}

/// Some of a pod's preferences, by their place: the heaviest preferred node affinity, then preferred pod affinity, preferred pod
/// anti-affinity and `ScheduleAnyway` spread, each in the order of the spec. Those after the 64th are never among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Insists(u64);

/// A spec whose pods ask for some preferences as if they were required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Insisting {
    /// These.
    pub on: Insists,
    /// The node selector without what is preferred.
    pub own_selector: Requirements,
}

/// The place of the heaviest preferred node affinity.
const NODE_TERM: usize = 0;

// === impl Insists ===

impl Insists {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the preference of this place is among them.
    pub fn has(self, place: usize) -> bool {
        bit(place).is_some_and(|bit| self.0 & bit != 0)
    }

    /// With the preference of this place.
    #[must_use]
    pub fn with(self, place: usize) -> Self {
        Insists(self.0 | bit(place).unwrap_or_default())
    }

    /// Those that are among others, too.
    #[must_use]
    pub fn and(self, other: Insists) -> Self {
        Insists(self.0 & other.0)
    }

    /// Those that are not among others.
    #[must_use]
    pub fn without(self, other: Insists) -> Self {
        Insists(self.0 & !other.0)
    }
}

fn bit(place: usize) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(place).ok()?)
}

impl PodSpec {
    /// Whether it prefers some places to others by rules of its own.
    pub fn has_preferences(&self) -> bool {
        !(self.preferred_terms.is_empty()
            && self.preferred_affinity.is_empty()
            && self.preferred_anti_affinity.is_empty()
            && self.spread.iter().all(|spread| spread.is_required))
    }

    /// The heaviest preferred node affinity, of several the first.
    pub fn heaviest_term(&self) -> Option<&Requirements> {
        let terms = self.preferred_terms.iter().rev();
        terms.max_by_key(|(weight, _)| *weight).map(|(_, term)| term)
    }

    /// The places of preferences: of the heaviest node affinity, and of the first affinity, anti-affinity and spread.
    pub fn places_of_preferences(&self) -> [usize; 4] {
        let affinity = NODE_TERM + 1;
        let anti_affinity = affinity + self.preferred_affinity.len();
        [NODE_TERM, affinity, anti_affinity, anti_affinity + self.preferred_anti_affinity.len()]
    }

    /// Whether the preference of a place is asked for as if it were required.
    pub fn insists_on(&self, place: usize) -> bool {
        self.insists.as_ref().is_some_and(|insists| insists.on.has(place))
    }

    /// The node selector, without a preference that is asked for as if it were required.
    pub fn own_selector(&self) -> &Requirements {
        self.insists.as_ref().map_or(&self.node_selector, |insists| &insists.own_selector)
    }

    /// The same for pods that ask for these preferences as if they were required.
    #[must_use]
    pub fn insisting(mut self, on: Insists, symbols: &Symbols) -> Self {
        if on.is_empty() {
            return self;
        }
        let own_selector = self.node_selector.clone();
        if on.has(NODE_TERM)
            && let Some(term) = self.heaviest_term().cloned()
        {
            self.node_selector.add_all(&term, symbols);
        }
        self.insists = Some(Box::new(Insisting { on, own_selector }));
        self
    }
}
