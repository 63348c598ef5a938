//! Pods on one node, by the counters on the host name that they count in.

use smallvec::SmallVec;

use crate::{Constraint, CounterId};

/// Pods per counter on one node, ascending by counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostCounts(SmallVec<[(CounterId, u32); 4]>);

impl HostCounts {
    /// The count of a counter.
    pub fn get(&self, counter: CounterId) -> u32 {
        let at = self.0.binary_search_by_key(&counter, |(known, _)| *known);
        at.ok().and_then(|at| self.0.get(at)).map_or(0, |(_, count)| *count)
    }

    /// The counters with pods, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (CounterId, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Takes pods off a counter.
    pub fn subtract(&mut self, counter: CounterId, pods: u32) {
        if let Ok(at) = self.0.binary_search_by_key(&counter, |(known, _)| *known)
            && let Some((_, count)) = self.0.get_mut(at)
        {
            *count = count.saturating_sub(pods);
            // Without zeros, so that equal counts are equal values.
            if *count == 0 {
                self.0.remove(at);
            }
        }
    }

    /// Adds to a counter.
    pub fn add(&mut self, counter: CounterId, pods: u32) {
        match self.0.binary_search_by_key(&counter, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, count)) = self.0.get_mut(at) {
                    *count = count.saturating_add(pods);
                }
            }
            Err(at) => self.0.insert(at, (counter, pods)),
        }
    }
}

/// How many more pods of a class a node may take, as far as constraints on `kubernetes.io/hostname` tell. A new node
/// can always be made, so the least count over nodes is taken as 0, as Karpenter does.
pub fn host_allowance(counts: &HostCounts, constraints: &[Constraint], is_first: impl Fn(CounterId) -> bool) -> u32 {
    host_allowance_above(counts, constraints, is_first, |_| 0)
}

/// The same where the least count over nodes is known.
pub fn host_allowance_above(
    counts: &HostCounts,
    constraints: &[Constraint],
    is_first: impl Fn(CounterId) -> bool,
    least: impl Fn(CounterId) -> u32,
) -> u32 {
    let mut allowance = u32::MAX;
    for constraint in constraints {
        let count = counts.get(constraint.counter());
        let limit = match *constraint {
            Constraint::Spread { counter, max_skew, counts_self: true, .. } => {
                max_skew.saturating_add(least(counter)).saturating_sub(count)
            }
            Constraint::Spread { counter, max_skew, .. } if count <= max_skew.saturating_add(least(counter)) => {
                u32::MAX
            }
            Constraint::Spread { .. } => 0,
            Constraint::AntiAffinity { .. } if count > 0 => 0,
            Constraint::AntiAffinity { counts_self, .. } => {
                if counts_self {
                    1
                } else {
                    u32::MAX
                }
            }
            Constraint::Affinity { counter, counts_self } => {
                if count > 0 || (counts_self && is_first(counter)) {
                    u32::MAX
                } else {
                    0
                }
            }
        };
        allowance = allowance.min(limit);
    }
    allowance
}
