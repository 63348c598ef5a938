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
/// The longest rest: even the largest cluster is looked at so often while it changes.
const LONGEST: Duration = Duration::from_secs(10 * 60);

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
    /// A look is over that asked so many what-ifs in a cluster of so many nodes and pods. Where it found something to do,
    /// the next one is not put off: what is left settles as soon as in a cluster.
    pub(super) fn after_look(&mut self, (what_ifs, has_found): (usize, bool), size: usize, pace: u32, now: Timestamp) {
        let beside = if self.only_empty { BESIDE_EMPTY } else { BESIDE };
        let work = what_ifs.saturating_add(beside).saturating_mul(size).saturating_sub(FREE);
        let work = u64::try_from(work).unwrap_or(u64::MAX);
        let length = Duration::from_millis(work.saturating_mul(1000) / u64::from(pace.max(1))).min(LONGEST);
        let until = Some(if has_found { now } else { after(now, length) });
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
        rest.after_look((20, false), 40, 100, now);
        assert_eq!(rest.until, Some(now));
        rest.after_look((2, false), 800, 100, now);
        assert_eq!(rest.until, Some(after(now, Duration::from_secs(60))));
        rest.only_empty = true;
        rest.after_look((0, false), 2600, 100, now);
        assert_eq!(rest.empty_until, Some(after(now, Duration::from_secs(6))));
        assert_eq!(rest.next(now), after(now, EMPTY));
        assert_eq!(rest.next(after(now, Duration::from_secs(50))), after(now, Duration::from_secs(60)));
    }

    #[test]
    fn after_a_look_that_found_something_the_next_is_not_put_off() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        rest.after_look((2, false), 800, 100, now);
        rest.after_look((200, true), 2_000, 100, now);
        assert_eq!(rest.until, Some(now));
    }

    #[test]
    fn no_rest_is_longer_than_ten_minutes() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        rest.after_look((100, false), 200_000, 100, now);
        assert_eq!(rest.until, Some(after(now, Duration::from_secs(600))));
    }
}
