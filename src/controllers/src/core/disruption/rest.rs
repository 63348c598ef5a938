//! How often nodes are looked at where looking takes no time by itself: see [`crate::options::Timings::look_pace`].

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::after;

/// What a look costs beside its what-ifs, counted in these: the cluster is copied, surveyed and ranked.
const BESIDE: usize = 8;
/// The same of a look for empty nodes alone.
const BESIDE_EMPTY: usize = 1;
/// Work of a look after which nobody rests: small clusters are looked at as often as real ones.
const FREE: usize = 2_000;
/// How often it is seen whether a node has become empty.
const EMPTY: Duration = Duration::from_secs(30);

/// Until when nodes rest.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// From all looks but those for empty nodes.
    pub(super) until: Option<Timestamp>,
    /// From those, too.
    pub(super) empty_until: Option<Timestamp>,
    /// Whether the look that is under way is for empty nodes alone.
    pub(super) only_empty: bool,
}

// === impl Rest ===

impl Rest {
    /// A look is over that asked so many what-ifs in a cluster of so many nodes and pods.
    pub(super) fn after_look(&mut self, what_ifs: usize, size: usize, pace: u32, now: Timestamp) {
        let beside = if self.only_empty { BESIDE_EMPTY } else { BESIDE };
        let work = what_ifs.saturating_add(beside).saturating_mul(size).saturating_sub(FREE);
        let work = u64::try_from(work).unwrap_or(u64::MAX);
        let length = Duration::from_millis(work.saturating_mul(1000) / u64::from(pace.max(1)));
        let until = Some(after(now, length));
        if self.only_empty {
            self.empty_until = until;
        } else {
            self.until = until;
        }
    }

    /// When to see again whether there is something to look at.
    pub(super) fn next(&self, now: Timestamp) -> Timestamp {
        let next = after(now, EMPTY);
        self.until.map_or(next, |until| until.min(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_rest_in_proportion_to_what_a_look_took() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        rest.after_look(20, 40, 100, now);
        assert_eq!(rest.until, Some(now));
        rest.after_look(2, 800, 100, now);
        assert_eq!(rest.until, Some(after(now, Duration::from_secs(60))));
        rest.only_empty = true;
        rest.after_look(0, 2600, 100, now);
        assert_eq!(rest.empty_until, Some(after(now, Duration::from_secs(6))));
        assert_eq!(rest.next(now), after(now, EMPTY));
        assert_eq!(rest.next(after(now, Duration::from_secs(50))), after(now, Duration::from_secs(60)));
    }
}
