//! How often nodes are looked at where looking takes no time by itself: see [`crate::options::Timings::look_pace`].

use std::time::Duration;

use berth_model::Money;
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

/// The longest rest: a cluster at rest is looked at as often by `run`.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// A look that saves so many hundredths of what nodes cost saves much: the next one is not put off.
const MUCH: i128 = 5;

/// What a look took, and what came of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    pub(super) what_ifs: usize,
    /// Nodes and pods that each what-if looked at, and the nodes alone.
    pub(super) size: usize,
    pub(super) n_nodes: usize,
    /// Whether it ended before all was asked about.
    pub(super) is_cut_off: bool,
    /// What is saved an hour by what begins now, and what all nodes cost.
    pub(super) saved: Money,
    pub(super) cost: Money,
}

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

// === impl Looked ===

impl Looked {
    /// A look that was cut off answers for as many nodes as it had what-ifs, however many there are.
    fn saves_much(self) -> bool {
        let part = if self.is_cut_off { self.what_ifs.min(self.n_nodes) } else { self.n_nodes };
        let cost = match (i128::try_from(part), i128::try_from(self.n_nodes)) {
            (Ok(part), Ok(all)) if part < all => (self.cost.pico() / all).saturating_mul(part),
            _ => self.cost.pico(),
        };
        let share = cost.saturating_mul(MUCH);
        self.saved > Money::ZERO && self.saved.pico().saturating_mul(100) >= share
    }
}

// === impl Rest ===

impl Rest {
    /// A look is over. Where it saves much, nodes do not rest: what has begun to settle settles as soon as in a cluster.
    pub(super) fn after_look(&mut self, looked: Looked, pace: u32, now: Timestamp) {
        let beside = if self.only_empty { BESIDE_EMPTY } else { BESIDE };
        let work = looked.what_ifs.saturating_add(beside).saturating_mul(looked.size).saturating_sub(FREE);
        let work = u64::try_from(work).unwrap_or(u64::MAX);
        let length = Duration::from_millis(work.saturating_mul(1000) / u64::from(pace.max(1))).min(LONGEST);
        let until = Some(if looked.saves_much() { now } else { after(now, length) });
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

    fn looked(what_ifs: usize, size: usize) -> Looked {
        let cost = Money::from_pico(100_000);
        Looked { what_ifs, size, n_nodes: size / 4, is_cut_off: false, saved: Money::ZERO, cost }
    }

    #[test]
    fn nodes_rest_in_proportion_to_what_a_look_took() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        rest.after_look(looked(20, 40), 100, now);
        assert_eq!(rest.until, Some(now));
        rest.after_look(looked(2, 800), 100, now);
        assert_eq!(rest.until, Some(after(now, Duration::from_secs(60))));
        rest.only_empty = true;
        rest.after_look(looked(0, 2600), 100, now);
        assert_eq!(rest.empty_until, Some(after(now, Duration::from_secs(6))));
        assert_eq!(rest.next(now), after(now, EMPTY));
        assert_eq!(rest.next(after(now, Duration::from_secs(50))), after(now, Duration::from_secs(60)));
    }

    #[test]
    fn nodes_do_not_rest_after_a_look_that_saves_much() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        rest.after_look(Looked { saved: Money::from_pico(4_999), ..looked(2, 800) }, 100, now);
        assert_eq!(rest.until, Some(after(now, Duration::from_secs(60))));
        rest.after_look(Looked { saved: Money::from_pico(5_000), ..looked(200, 2_000) }, 100, now);
        assert_eq!(rest.until, Some(now));
        let nothing = Looked { cost: Money::ZERO, ..looked(2, 800) };
        rest.after_look(nothing, 100, now);
        assert_eq!(rest.until, Some(after(now, Duration::from_secs(60))), "where nodes cost nothing, nothing is much");
    }

    #[test]
    fn a_look_that_was_cut_off_saves_much_for_the_nodes_that_it_asked_about() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        let whole = Looked { saved: Money::from_pico(500), ..looked(20, 800) };
        rest.after_look(whole, 100, now);
        assert!(rest.until > Some(now), "a whole look that saves half of a hundredth");
        // A tenth of the nodes.
        rest.after_look(Looked { is_cut_off: true, ..whole }, 100, now);
        assert_eq!(rest.until, Some(now));
        rest.after_look(Looked { is_cut_off: true, saved: Money::from_pico(499), ..whole }, 100, now);
        assert!(rest.until > Some(now));
        rest.after_look(Looked { n_nodes: 0, is_cut_off: true, saved: Money::ZERO, ..whole }, 100, now);
        assert!(rest.until > Some(now), "nothing is not much");
    }

    #[test]
    fn no_rest_is_longer_than_that_of_a_cluster_where_nothing_changes() {
        let (mut rest, now) = (Rest::default(), Timestamp::UNIX_EPOCH);
        rest.after_look(looked(100, 200_000), 100, now);
        assert_eq!(rest.until, Some(after(now, LONGEST)));
    }
}
